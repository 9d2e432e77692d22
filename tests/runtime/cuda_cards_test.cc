// More devices than cards: shared by all if there is one card, refused before
// anything is planned if several.
#include <doctest/doctest.h>

#include "alpa/alpa.h"
#include "support/cuda.h"
#include "support/error_text.h"
#include "support/steps.h"

namespace cuda_cards_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("one card more than there are") {
  if (no_cuda()) return;
  const int cards = cuda_support().devices, devices = cards + 1;
  const auto plans = std::make_shared<int>(0);
  const TrainingStep step = training_step(
      {{"x", {f32, {24, 10}}}, {"y", {f32, {24, 6}}}},
      [plans](const Batch& batch) {
        ++*plans;
        return small_mlp(recorder(batch["x"]), batch["x"], batch["y"]);
      },
      optim::Sgd{});
  Cluster cluster = Cluster::local(cards, "cuda");
  cluster.devices_per_host = devices;
  const DataParallel method{.executor = {.tune = false}};
  if (cards == 1) {
    CHECK(Cluster::local(devices, "cuda").num_devices() == devices);
    CHECK(parallelize(step, method, cluster).program().meshes.front().num_devices() == devices);
    return;
  }
  const std::string mistake = fmt::format(
      ": {} devices, but the machine has {} cards; take at most {}, "
      "or leave one card visible (CUDA_VISIBLE_DEVICES=0), "
      "which any number of devices may share",
      devices, cards, cards);
  CHECK(error_of([&] { Cluster::local(devices, "cuda"); }) == "Cluster::local" + mistake);
  *plans = 0;
  CHECK(error_of([&] { parallelize(step, method, cluster); }) == "backend \"cuda\"" + mistake);
  CHECK(*plans == 0);
  CHECK(plan_only(step, method, cluster).plan.sharding().mesh.num_devices() == devices);
}

}  // namespace cuda_cards_test
