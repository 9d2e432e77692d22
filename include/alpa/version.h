#pragma once
/// The version of the library.
#include <string_view>
#pragma GCC visibility push(default)

namespace alpa {

/// "major.minor.patch" of the library that was linked.
std::string_view version();

}  // namespace alpa
#pragma GCC visibility pop
