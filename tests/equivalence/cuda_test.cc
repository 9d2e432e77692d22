// The covering set on CUDA devices: logical ones if there is one card.
#include <doctest/doctest.h>

#include "equivalence/covering.h"
#include "support/cuda.h"

namespace cuda_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

int devices_of(int mesh) {
  int devices = 1;
  for (int size : kMeshes[mesh]) devices *= size;
  return devices;
}

}  // namespace

TEST_CASE("one to four CUDA devices compute what one CPU device computes") {
  if (testing::no_cuda()) return;
  for (int mesh = 0; mesh < 5; ++mesh)
    if (!testing::no_cuda(devices_of(mesh))) check_mesh(mesh, "cuda");
}

TEST_CASE("five to seven CUDA devices compute what one CPU device computes") {
  if (testing::no_cuda()) return;
  for (int mesh = 5; mesh < 10; ++mesh)
    if (!testing::no_cuda(devices_of(mesh))) check_mesh(mesh, "cuda");
}

TEST_CASE("eight CUDA devices compute what one CPU device computes") {
  if (testing::no_cuda()) return;
  for (int mesh = 10; mesh < 13; ++mesh)
    if (!testing::no_cuda(devices_of(mesh))) check_mesh(mesh, "cuda");
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
