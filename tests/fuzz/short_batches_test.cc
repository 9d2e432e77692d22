// Random steps on batches of every size under every method and schedule, against one device with
// as many micro-batches.
//   ALPA_FUZZ_SEEDS=FIRST:COUNT test_fuzz --source-file='*short_batches_test.cc'     a campaign
//   … with ALPA_FUZZ_BACKEND=cuda ALPA_CUDA_LIBRARY=…/libalpa_cuda_emulated.so       on CUDA devices
#include <doctest/doctest.h>

#include "fuzz/random_steps.h"
#include "fuzz/seeds.h"

namespace short_batches_test {

using namespace alpa;
using namespace alpa::fuzz;

TEST_CASE("whole and short batches have the same numbers under random methods as on one device") {
  check_seeds(seeds_or(12), short_batch_difference_of);
}

}  // namespace short_batches_test
