#pragma once
/// Resources that a process needs while memory is short: made ready while there is some.
#include <cstdint>
#include <optional>
#include <string>

namespace alpa {

/// Most bytes of addresses that the process may map (`ulimit -v`); none: any number.
std::optional<std::int64_t> address_limit();

/// Advice for when memory is exhausted: the limit of addresses, if there is one, else what helps.
std::string out_of_memory_text();

/// Loads what ending a thread, and throwing through the C library, need. Otherwise glibc loads that
/// at the first use, and aborts where it can't.
void load_unwinder();

/// For the start of `main`: `load_unwinder`, and more of the main stack, which otherwise ends the
/// program by SIGSEGV where it can't grow. Throws Error naming the limit if it leaves too little.
void prepare_for_low_memory();

}  // namespace alpa
