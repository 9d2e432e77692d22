#pragma once
/// Names of the values of an enumeration, by their numbers.
#include <cstddef>
#include <string_view>

#include "alpa/base/error.h"

namespace alpa {

/// The name of `value` in `names`; `what` is the enumeration in the message of a Bug, where it has
/// none.
template <class Value, std::size_t n>
std::string_view name_in(const std::string_view (&names)[n], Value value, std::string_view what) {
  invariant(static_cast<std::size_t>(value) < n, "no {} has the number {}", what,
            static_cast<int>(value));
  return names[static_cast<std::size_t>(value)];
}

}  // namespace alpa
