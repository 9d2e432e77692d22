// The machine measured, and plans for what was measured.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "support/error_text.h"

namespace profile_test {

using namespace alpa;

TEST_CASE("profile measures every rate, the cluster file keeps them, and plans follow them") {
  const Cluster cluster = profile(2, 0.01);
  const MeasuredRates& measured = cluster.device.measured;
  for (DType dtype : {f32, f64, bf16}) {
    const std::size_t sizes = measured.products.at(dtype).sizes.size();
    CHECK(measured.products.at(dtype).flops_per_second.size() == sizes * sizes * sizes);
    for (double rate : measured.products.at(dtype).flops_per_second) CHECK(rate > 0);
  }
  CHECK(measured.loop_bytes.size() == 6);
  for (double rate : measured.loop_bytes_per_second) CHECK(std::isnormal(rate));
  CHECK(cluster.device.launch_seconds > 0);
  CHECK(cluster.device.launch_seconds < 1e-3);
  CHECK(cluster.within_host.alpha_seconds + cluster.within_host.beta_seconds_per_byte > 0);
  CHECK(Cluster::from_json(cluster.to_json(), "c.json") == cluster);

  const TrainingStep step = training_step(
      {{"x", {f32, {32, 64}}}},
      [](const Batch& b) { return mean(square(nn::Dense(64)(relu(nn::Dense(256)(b["x"]))))); },
      optim::Adam{});
  const auto seconds = [&](const Cluster& on) {
    return plan_only(step, DataParallel{}, on).plan.cost.compute_seconds;
  };
  Cluster slower = cluster;
  for (auto& [dtype, products] : slower.device.measured.products)
    for (double& rate : products.flops_per_second) rate /= 1000;
  CHECK(std::isnormal(seconds(cluster)));
  CHECK(seconds(slower) > 10 * seconds(cluster));
  CHECK(testing::error_of([] { profile(0); }) == "Cluster::local: 0 devices; ask for at least 1");
}

}  // namespace profile_test
