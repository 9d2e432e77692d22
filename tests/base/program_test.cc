// Exit statuses: 0, 2 for the user's mistakes and the system's refusals, 3 for ours.
#include "src/base/program.h"

#include <doctest/doctest.h>

#include <new>
#include <system_error>

#include "alpa/base/error.h"

using namespace alpa;

TEST_CASE("the exit status says whose mistake it was") {
  char name[] = "program_test";
  char* argv[] = {name, nullptr};
  const auto status = [&](int (*body)(int, char**)) { return run_program(name, body, 1, argv); };
  CHECK(status([](int, char**) { return 0; }) == 0);
  CHECK(status([](int, char**) -> int { fail("a mistake"); }) == 2);
  CHECK(status([](int, char**) -> int { throw std::bad_alloc(); }) == 2);
  CHECK(status([](int, char**) -> int {
          throw std::system_error(EAGAIN, std::generic_category());
        }) == 2);
  CHECK(status([](int, char**) -> int { bug("ours"); }) == 3);
  CHECK(status([](int, char**) -> int { throw std::logic_error("ours"); }) == 3);
}
