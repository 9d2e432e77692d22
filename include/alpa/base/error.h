#pragma once
/// Two kinds of failure: `Error` is the user's mistake, `Bug` is ours. Both carry one complete
/// message: what was wrong with which values, where, and how to mend it.
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>
#pragma GCC visibility push(default)

namespace alpa {

/// A mistake the user can mend; the message says how.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken invariant of the framework itself; never the user's fault.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws `Error` with a formatted message.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws `Bug` with a formatted message.
template <class... Args>
[[noreturn]] void bug(fmt::format_string<Args...> format, Args&&... args) {
  throw Bug(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws `Error` unless `condition` holds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(format, std::forward<Args>(args)...);
}

/// Throws `Bug` unless `condition` holds.
template <class... Args>
void invariant(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) bug(format, std::forward<Args>(args)...);
}

}  // namespace alpa
#pragma GCC visibility pop
