#include "src/cost/profile.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "alpa/base/error.h"

namespace profile_test {

using namespace alpa;

TEST_CASE("the measured rates are those at which the bytes were really copied") {
  for (int threads : {1, 2}) {
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t bytes = 1 << 22;
    const cost::CopyRate rate = cost::measure_copy(threads, bytes, 0.02);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(seconds >= 0.02);
    CHECK(rate.rounds >= 3);
    CHECK(rate.best_bytes_per_second >= rate.median_bytes_per_second);
    // All rounds fit into the time the call took, so the best one was at
    // least as fast as their mean.
    CHECK(rate.best_bytes_per_second >= rate.rounds * 2.0 * static_cast<double>(bytes) / seconds);
    // Half of the rounds were at least as slow as the median.
    CHECK(rate.rounds / 2 * 2.0 * static_cast<double>(bytes) / rate.median_bytes_per_second <=
          seconds);
  }
}

TEST_CASE("nothing cannot be copied, nor by nobody") {
  try {
    cost::measure_copy(1, 0);
    FAIL("0 bytes accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "measure_copy: 0 bytes; copy at least 1");
  }
  CHECK_THROWS_AS(cost::measure_copy(0, 1), Error);
}

}  // namespace profile_test
