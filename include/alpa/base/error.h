#pragma once
/// Two kinds of failure: `Error` is the user's mistake, `Bug` is ours. Both carry one complete
/// message: what was wrong with which values, where, and how to mend it.
#include <fmt/core.h>

#include <stdexcept>
#include <string>
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

#ifdef ALPA_CHECK_MESSAGES
/// The format of a message. Builds of alpa itself check it against the arguments, and programs that
/// define ALPA_CHECK_MESSAGES do: for others, that would be a tenth of the time `alpa.h` takes.
template <class... Args>
using MessageFormat = fmt::format_string<Args...>;
#else
/// The format of a message, which is not checked when it is compiled.
template <class... Args>
using MessageFormat = fmt::string_view;
#endif

/// Throws `Error` with a formatted message; `fail` is for callers.
[[noreturn]] void throw_error(fmt::string_view format, fmt::format_args args);
/// Throws `Bug` with a formatted message; `bug` is for callers.
[[noreturn]] void throw_bug(fmt::string_view format, fmt::format_args args);

/// Throws `Error` with a formatted message.
template <class... Args>
[[noreturn]] void fail(MessageFormat<Args...> format, Args&&... args) {
  throw_error(format, fmt::make_format_args(args...));
}

/// Throws `Bug` with a formatted message.
template <class... Args>
[[noreturn]] void bug(MessageFormat<Args...> format, Args&&... args) {
  throw_bug(format, fmt::make_format_args(args...));
}

/// Throws `Error` unless `condition` holds.
template <class... Args>
void require(bool condition, MessageFormat<Args...> format, Args&&... args) {
  if (!condition) throw_error(format, fmt::make_format_args(args...));
}

/// Throws `Bug` unless `condition` holds.
template <class... Args>
void invariant(bool condition, MessageFormat<Args...> format, Args&&... args) {
  if (!condition) throw_bug(format, fmt::make_format_args(args...));
}

}  // namespace alpa
#pragma GCC visibility pop
