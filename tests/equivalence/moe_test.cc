// A decoder with experts as users write it, spread over 1 to 8 devices, against one device. Uneven
// on most meshes: 6 experts, 12 sequences of 5 tokens in groups of 15, 11 words. The whole product
// is in zoo_test.cc.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "equivalence/zoo.h"

namespace moe_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

void check(const Method& method, int devices, int micro_batches) {
  check_like_one_device(zoo_model("moe"), method, Cluster::local(devices), micro_batches);
}

}  // namespace

TEST_CASE("spread over devices, a decoder with experts gives what one device gives") {
  for (int micro_batches : {1, 4}) {
    check(DataParallel{}, 3, micro_batches);
    check(ShardParallel{}, 4, micro_batches);
  }
  for (int devices : {2, 3, 8}) check(ShardParallel{}, devices, 1);
  check(ShardParallel{.mesh_shape = {2, 2}}, 4, 1);
}

TEST_CASE(
    "where moving tokens is cheaper than reducing experts, four all_to_alls a layer and step") {
  Cluster cluster = Cluster::local(2);
  cluster.within_host = {1e-9, 1e-6};  // of what is sent, bytes decide
  cluster.device.flops_per_second = {{f32, 1e6}};
  const ZooModel& model = zoo_model("moe");
  check_like_one_device(model, ShardParallel{}, cluster);
  const Executable executable =
      parallelize(training_step(model.inputs, model.model, optim::Sgd{.momentum = 0.9}),
                  ShardParallel{}, cluster);
  CHECK(to_string(executable.sharding_of("blocks.1.experts.up")) == "S0@0");
  TrainState state = executable.init(3);
  executable.run(state, model.batch);
  CHECK(executable.measured_traffic().at("all_to_all").count == 4);
}

TEST_CASE("in two stages, and in three dimensions, too") {
  for (int micro_batches : {1, 4}) {
    check(PipeshardParallel{}, 3, micro_batches);
    check(parallel_3d(2, 2, 2), 8, micro_batches);
  }
}

}  // namespace moe_test
