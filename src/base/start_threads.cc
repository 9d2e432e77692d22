// src/base/start_threads.cc — the error text of threads that could not be started
#include "src/base/start_threads.h"

#include "alpa/base/error.h"
#include "src/base/exception_text.h"

namespace alpa {

void fail_to_start(std::string_view whose, int started, int wanted,
                   const std::exception_ptr& thrown) {
  fail(
      "{}: only {} of {} threads could be started ({}); use fewer devices or fewer threads per "
      "device, or allow more threads (ulimit -u) or memory (ulimit -v)",
      whose, started, wanted, text_of(thrown));
}

}  // namespace alpa
