// src/base/error.cc — formats the messages of failures
#include "alpa/base/error.h"

namespace alpa {

void throw_error(fmt::string_view format, fmt::format_args args) {
  throw Error(fmt::vformat(format, args));
}

void throw_bug(fmt::string_view format, fmt::format_args args) {
  throw Bug(fmt::vformat(format, args));
}

}  // namespace alpa
