// Every parser on inputs made from valid ones by random changes, the same in every run.
//   ALPA_FUZZ_RUNS=COUNT or FIRST:COUNT   which inputs, of each harness; by default the first 500, at night 3000
#include <alpa/base/error.h>
#include <alpa/base/text.h>
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string>

#include "fuzz/harness.h"
#include "fuzz/mutate.h"
#include "support/nightly.h"

namespace parsers_test {

using namespace alpa;
using namespace alpa::fuzz;

namespace {

struct Runs {
  std::uint64_t first = 0, count = testing::sampled(500, 3000);
};

Runs runs_from_environment() {
  const char* const text = std::getenv("ALPA_FUZZ_RUNS");
  Runs runs;
  if (text == nullptr) return runs;
  char rest = 0;
  if (std::sscanf(text, "%lu:%lu%c", &runs.first, &runs.count, &rest) == 2) return runs;
  runs.first = 0;
  const bool read = std::sscanf(text, "%lu%c", &runs.count, &rest) == 1;
  require(read, "ALPA_FUZZ_RUNS is '{}'; write COUNT or FIRST:COUNT", text);
  return runs;
}

/// Seconds of this thread: what else the machine does is not counted.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The most memory this process ever had.
long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// What every input may take, of at most 64 KiB; sanitizers multiply both.
constexpr double kMaxSeconds = 5;
constexpr long kMaxKilobytes = 256 << 10;

/// What is wrong with how `harness` takes `input`; "" if nothing.
std::string defect(const Harness& harness, const std::string& input) {
  const double start = processor_seconds();
  const long before = peak_kilobytes();
  try {
    harness.run(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is no std::exception";
  }
  if (processor_seconds() - start > kMaxSeconds) return "it takes too long";
  return peak_kilobytes() - before > kMaxKilobytes ? "it takes too much memory" : "";
}

}  // namespace

TEST_CASE("parsers accept or refuse, whatever they are given") {
  const Runs runs = runs_from_environment();
  for (const Harness& harness : harnesses()) {
    const std::vector<std::string> seeds = harness.seeds();
    std::uint64_t defects = 0;
    for (std::uint64_t i = runs.first; i < runs.first + runs.count && defects < 5; ++i) {
      if (i % harness.every != 0 && runs.count > 1) continue;
      const std::string input = mutated(seeds, harness.tokens, i);
      const std::string what = defect(harness, input);
      if (what.empty()) continue;
      ++defects;
      std::ofstream("fuzz_" + std::string(harness.name), std::ios::binary) << input;
      FAIL_CHECK(std::string(harness.name)
                 << ", input " << i << ": " << excerpt(what, 500) << "; again with ALPA_FUZZ_RUNS="
                 << i << ":1; the input is in ./fuzz_" << std::string(harness.name));
    }
  }
}

TEST_CASE("every seed is accepted, and some inputs made from them") {
  for (const Harness& harness : harnesses()) {
    CAPTURE(harness.name);
    const std::vector<std::string> seeds = harness.seeds();
    for (const std::string& seed : seeds) {
      const std::uint64_t before = accepted();
      CHECK(defect(harness, seed) == "");
      CHECK_MESSAGE(accepted() > before, excerpt(seed));
    }
    const std::uint64_t before = accepted();
    for (std::uint64_t i = 0; i < 300; i += harness.every)
      defect(harness, mutated(seeds, harness.tokens, 100 + i));
    CHECK(accepted() > before);
    CHECK(accepted() < before + 2 * 300);
  }
}

TEST_CASE("a harness reports what a parser must not do") {
  CHECK_FALSE(accepts([] { fail("x: not a number"); }));
  CHECK(accepts([] {}));
  CHECK_THROWS_AS(accepts([] { fail("two\nlines"); }), std::logic_error);
  CHECK_THROWS_AS(accepts([] { fail("{}", std::string(2000, 'x')); }), std::logic_error);
  CHECK_THROWS_AS(accepts([] { bug("ours"); }), Bug);
  CHECK_THROWS_AS(expect_same("a b", "a c"), std::logic_error);
  const Harness slow{"slow",
                     [](const std::uint8_t*, std::size_t) { return std::string().at(1), 0; },
                     csv_seeds,
                     {}};
  CHECK(defect(slow, "") != "");
}

}  // namespace parsers_test
