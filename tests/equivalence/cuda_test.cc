// The covering set on CUDA devices: logical ones if there is one card.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string_view>

#include "equivalence/covering.h"
#include "support/cuda.h"
#include "support/nightly.h"

namespace cuda_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

int devices_of(int mesh) {
  int devices = 1;
  for (int size : kMeshes[mesh]) devices *= size;
  return devices;
}

/// Daily, the emulation of one card has every second mesh, that of several the others.
bool is_due(int mesh) {
  const char* const cards = std::getenv("ALPA_EMULATED_DEVICES");
  const bool is_daily = cards == nullptr || (mesh % 2 == 1) == (std::string_view(cards) == "1");
  return sampled(is_daily, true);
}

void check_meshes(int first, int end) {
  for (int mesh = first; mesh < end; ++mesh)
    if (is_due(mesh) && !testing::no_cuda(devices_of(mesh))) check_mesh(mesh, "cuda");
}

}  // namespace

TEST_CASE("one to four CUDA devices compute what one CPU device computes") {
  if (testing::no_cuda()) return;
  check_meshes(0, 5);
}

TEST_CASE("five to seven CUDA devices compute what one CPU device computes") {
  if (testing::no_cuda()) return;
  check_meshes(5, 10);
}

TEST_CASE("eight CUDA devices compute what one CPU device computes") {
  if (testing::no_cuda()) return;
  check_meshes(10, 13);
}

TEST_CASE("on CUDA, a run gives the same bits every time") {
  if (testing::no_cuda(4)) return;
  const MlpCase model{Trait::residual, 4, true, f32};
  for (const char* method : {"zero2", "shard"}) {
    const std::vector<Contents> runs = run_spread(model, {method, {2, 2}, 4}, "cuda", 2);
    CHECK(runs[0] == runs[1]);
  }
}

}  // namespace cuda_test
