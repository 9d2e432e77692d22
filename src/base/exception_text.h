#pragma once
/// Messages of caught exceptions of any type.
#include <exception>
#include <string>
#include <string_view>

namespace alpa {

/// `what()` of a std::exception, "out of memory" for std::bad_alloc, "unknown
/// exception" for anything else.
std::string text_of(const std::exception_ptr& thrown);

/// Rethrows the exception with "`place`: " before its text, as Bug if it was one, else as Error.
[[noreturn]] void rethrow_at(std::string_view place, const std::exception_ptr& thrown);

}  // namespace alpa
