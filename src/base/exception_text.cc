// src/base/exception_text.cc — messages of caught exceptions of any type
#include "src/base/exception_text.h"

#include <new>

#include "alpa/base/error.h"

namespace alpa {

std::string text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown exception";
  }
}

void rethrow_at(std::string_view place, const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Bug& error) {
    bug("{}: {}", place, error.what());
  } catch (...) {
    fail("{}: {}", place, text_of(std::current_exception()));
  }
}

}  // namespace alpa
