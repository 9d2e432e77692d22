// Methods on several hosts, whose links are slower than those within.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

namespace hosts_test {

using namespace alpa;

namespace {

/// Two hosts of four devices: 10 TFLOP/s, 100 GB/s within a host, 2.5 GB/s between them.
Cluster two_hosts() {
  Cluster cluster;
  cluster.num_hosts = 2;
  cluster.devices_per_host = 4;
  cluster.device = {.memory_bytes = std::int64_t{16} << 30,
                    .flops_per_second = {{f32, 1e13}},
                    .memory_bytes_per_second = 6e11,
                    .launch_seconds = 3e-6};
  cluster.within_host = {5e-6, 1e-11};
  cluster.between_hosts = {2e-5, 4e-10};
  return cluster;
}

TrainingStep mlp_step() {
  nn::Sequential mlp;
  for (int i = 0; i < 3; ++i) mlp.add(nn::Dense(1024)).add(nn::ReLU());
  mlp.add(nn::Dense(512));
  const TensorType data{f32, {1024, 512}};
  return training_step(
      {{"x", data}, {"y", data}},
      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); }, optim::Adam{});
}

template <class Method>
double seconds_on(const std::vector<int>& mesh) {
  return plan_only(mlp_step(), Method{.mesh_shape = mesh}, two_hosts()).plan.cost.objective_seconds;
}

template <class Method>
void check_takes_the_best_mesh() {
  const double flat = seconds_on<Method>({8}), by_host = seconds_on<Method>({2, 4}),
               chosen = seconds_on<Method>({});
  CAPTURE(flat);
  CHECK(by_host < 0.8 * flat);  // the slow links carry a quarter of the bytes
  CHECK(chosen == std::min({flat, by_host, seconds_on<Method>({4, 2})}));
}

}  // namespace

TEST_CASE("data parallelism and ZeRO on several hosts take the mesh on which they cost least") {
  check_takes_the_best_mesh<DataParallel>();
  check_takes_the_best_mesh<Zero2Parallel>();
  check_takes_the_best_mesh<Zero3Parallel>();
}

}  // namespace hosts_test
