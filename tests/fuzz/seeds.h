#pragma once
/// Which random cases a run tries.
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "alpa/base/error.h"

namespace alpa::fuzz {

struct Seeds {
  std::uint64_t first = 1, count = 1;
};

inline std::uint64_t seed_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size(),
          "ALPA_FUZZ_SEEDS: found \"{}\", expected a number; write FIRST:COUNT, like 1000:500",
          text);
  return number;
}

/// ALPA_FUZZ_SEEDS=FIRST:COUNT, or else the first `count`.
inline Seeds seeds_or(std::uint64_t count) {
  const char* given = std::getenv("ALPA_FUZZ_SEEDS");
  if (given == nullptr) return {1, count};
  const std::string_view text = given;
  const std::size_t colon = std::min(text.find(':'), text.size() - 1);
  return {seed_number(text.substr(0, colon)), seed_number(text.substr(colon + 1))};
}

/// Fails the test for every seed of which `difference_of` has something to tell, or throws.
inline void check_seeds(const Seeds& seeds,
                        const std::function<std::string(std::uint64_t)>& difference_of) {
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    fmt::print(stderr, "seed {}\n", seed);  // the last one, should the process end here
    INFO("seed " << seed << "; again with ALPA_FUZZ_SEEDS=" << seed << ":1");
    std::string failure;
    try {
      failure = difference_of(seed);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    CHECK(failure == "");
  }
}

}  // namespace alpa::fuzz
