// The covering set on CUDA devices: logical ones if there are fewer cards.
#include <doctest/doctest.h>

#include "equivalence/covering.h"
#include "support/cuda.h"

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("one to four CUDA devices compute what one CPU device computes") {
  if (test::no_cuda()) return;
  for (int mesh = 0; mesh < 5; ++mesh) check_mesh(mesh, "cuda");
}

TEST_CASE("five to seven CUDA devices compute what one CPU device computes") {
  if (test::no_cuda()) return;
  for (int mesh = 5; mesh < 10; ++mesh) check_mesh(mesh, "cuda");
}

TEST_CASE("eight CUDA devices compute what one CPU device computes") {
  if (test::no_cuda()) return;
  for (int mesh = 10; mesh < 13; ++mesh) check_mesh(mesh, "cuda");
}

TEST_CASE("on CUDA, a run gives the same bits every time") {
  if (test::no_cuda()) return;
  const MlpCase model{Trait::residual, 4, true, f32};
  for (const char* method : {"zero2", "shard"})
    CHECK(run_spread(model, {method, {2, 2}, 4}, "cuda") == run_spread(model, {method, {2, 2}, 4}, "cuda"));
}
