#pragma once
/// The whole text of a user's mistake.
#include <alpa/base/error.h>

#include <string>

namespace alpa::testing {

/// What() of the Error that `call` throws; "no error" if it throws none.
/// Anything else passes through.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace alpa::testing
