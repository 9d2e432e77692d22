// Random training graphs under random valid plans on random meshes, with default
// threads, against one device.
//   ALPA_FUZZ_SEEDS=FIRST:COUNT test_fuzz --source-file='*random_plans_test.cc'     a campaign of COUNT
//   seeds
#include <doctest/doctest.h>

#include "fuzz/random_model.h"
#include "fuzz/seeds.h"

namespace random_plans_test {

using namespace alpa;
using namespace alpa::fuzz;

TEST_CASE("random plans of random training graphs compute what one device computes") {
  check_seeds(seeds_or(60), difference_of);
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

}  // namespace random_plans_test
