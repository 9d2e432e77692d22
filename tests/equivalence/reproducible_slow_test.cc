// Fifty steps of reproducible_test.cc. Run it with `ctest --test-dir build/release -L slow`.
#include <doctest/doctest.h>

#include "equivalence/reproducible_case.h"

namespace reproducible_slow_test {

TEST_CASE("twelve plans train to the same bits for fifty steps") {
  alpa::testing::check_twelve_plans(50);
}

}  // namespace reproducible_slow_test
