// Random training graphs under random valid plans on random meshes, with default
// threads, against one device.
//   ALPA_FUZZ_SEEDS=FIRST:COUNT test_fuzz --source-file='*random_plans_test.cc'     a campaign of COUNT
//   seeds
#include <doctest/doctest.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include <fmt/core.h>

#include "fuzz/random_model.h"

using namespace alpa;
using namespace alpa::fuzz;

namespace {

struct Seeds {
  std::uint64_t first = 1, count = 60;
};

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size(),
          "ALPA_FUZZ_SEEDS: found \"{}\", expected a number; write FIRST:COUNT, like 1000:500",
          text);
  return number;
}

Seeds seeds_from_environment() {
  const char* given = std::getenv("ALPA_FUZZ_SEEDS");
  if (given == nullptr) return {};
  const std::string_view text = given;
  const std::size_t colon = std::min(text.find(':'), text.size() - 1);
  return {number_of(text.substr(0, colon)), number_of(text.substr(colon + 1))};
}

}  // namespace

TEST_CASE("random plans of random training graphs compute what one device computes") {
  const Seeds seeds = seeds_from_environment();
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    fmt::print(stderr, "seed {}\n", seed);  // the last one, should the process end here
    INFO("seed " << seed << "; again with ALPA_FUZZ_SEEDS=" << seed << ":1");
    std::string failure;
    try {
      failure = difference_of(seed);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (!failure.empty()) FAIL_CHECK(failure);
  }
}

TEST_CASE("the sample covers what it is meant to cover") {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const Sample sample = random_sample(random);
    for (const Node& node : sample.graph.nodes) ++seen[std::string(node.op->name)];
    ++seen[sample.graph.num_micro_batches > 1 ? "micro-batches" : "one batch"];
  }
  for (const char* name :
       {"einsum", "reduce_sum", "reduce_max", "where", "cast", "reshape", "transpose", "rsqrt",
        "multi_tensor_adam", "micro-batches", "one batch", "random_normal", "iota"}) {
    CAPTURE(std::string(name));
    CHECK(seen[name] >= 5);
  }
}
