// The runner of every test program.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

/// AddressSanitizer asks this: what can't be allocated is null or an exception, as without it,
/// not the end of the process.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
