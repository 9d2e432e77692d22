// Every model of models/ under some methods and devices against one device, at night under all.
// Extents that meshes do not divide.
#include "equivalence/zoo.h"

#include <doctest/doctest.h>

#include "alpa/models/gpt.h"
#include "src/ops/all_ops.h"
#include "support/nightly.h"

namespace zoo_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

void check_some_ways(const std::string& name) {
  const ZooModel& model = zoo_model(name);
  check_like_one_device(model, DataParallel{}, Cluster::local(3));
  check_like_one_device(model, Zero3Parallel{}, Cluster::local(8));
  check_like_one_device(model, ShardParallel{}, Cluster::local(3));
  check_like_one_device(model, ShardParallel{.mesh_shape = {2, 2}}, Cluster::local(4), 4);
  check_like_one_device(model, PipeshardParallel{}, Cluster::local(3), 4);
  check_like_one_device(model, ShardParallel{}, Cluster::local(3), 1, bf16_mixed);
}

void check_all_ways(const std::string& name, Precision precision) {
  const ZooModel& model = zoo_model(name);
  for (int micro_batches : {1, 4})
    for (int devices = 1; devices <= 8; ++devices) {
      const auto check = [&](const Method& method) {
        check_like_one_device(model, method, Cluster::local(devices), micro_batches, precision);
      };
      const int rows = 12 / micro_batches;
      for (const char* method : {"data", "zero2", "zero3"})
        if (devices <= rows) check(parse_method(method));
      check(ShardParallel{});
      if (devices > 1) check(PipeshardParallel{});
      for (int pipeline : {1, 2})
        for (int tensor : {1, 2, 4})
          if (const int data = devices / (pipeline * tensor);
              data * pipeline * tensor == devices && data <= rows)
            check(parallel_3d(data, tensor, pipeline));
    }
}

/// A GPT of one block on one sequence, so that a plan has other extents to split than the batch.
ZooModel on_one_sequence(const std::string& name, std::int64_t hidden, std::int64_t heads,
                         std::int64_t vocabulary) {
  constexpr std::int64_t kSequence = 5;
  const models::Decoder decoder({.layers = 1,
                                 .hidden = hidden,
                                 .heads = heads,
                                 .sequence = kSequence,
                                 .vocabulary = vocabulary});
  const TensorType type{i32, {1, kSequence}};
  return {name,
          {{"tokens", type}, {"labels", type}},
          [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
          token_batch(1, kSequence, vocabulary)};
}

/// Devices that calculate slowly, so that plans split what they can.
Cluster slow_devices(int devices) {
  Cluster cluster = Cluster::local(devices);
  cluster.within_host = {1e-9, 1e-7};
  cluster.device.flops_per_second = {{f32, 1e6}};
  return cluster;
}

CompiledStep planned(const ZooModel& model, const Method& method, const Cluster& cluster) {
  return plan_only(training_step(model.inputs, model.model, optim::Sgd{.momentum = 0.9}), method,
                   cluster);
}

/// Layout of a parameter.
std::string layout(const CompiledStep& step, const std::string& name) {
  for (const Input& input : step.graph.inputs)
    if (input.name == name) return to_string(step.plan.sharding().specs[input.value]);
  return "no " + name;
}

/// Layout of what attention gives, [B, T, heads, width of a head].
std::string attention_layout(const CompiledStep& step) {
  for (const Node& node : step.graph.nodes)
    if (node.op == &ops::attention) return to_string(step.plan.sharding().specs[node.results[0]]);
  return "no attention";
}

}  // namespace

TEST_CASE("a vocabulary of 50257 is split over 8 devices, and gives one device's numbers") {
  const ZooModel model = on_one_sequence("vocabulary", 4, 1, 50257);
  const ShardParallel method{.mesh_shape = {8}};
  const CompiledStep step = planned(model, method, slow_devices(8));
  CHECK(layout(step, "tokens.table") == "S0@0");
  CHECK(layout(step, "head.bias") == "S0@0");
  check_like_one_device(model, method, slow_devices(8));
}

TEST_CASE("12 heads are split over 8 devices, and give one device's numbers") {
  const ZooModel model = on_one_sequence("heads", 24, 12, 7);
  const ShardParallel method{.mesh_shape = {8}};
  const CompiledStep step = planned(model, method, slow_devices(8));
  for (const char* name : {"blocks.0.attention.query.kernel", "blocks.0.attention.key.kernel",
                           "blocks.0.attention.value.kernel"})
    CHECK(layout(step, name) == "S1@0");
  CHECK(attention_layout(step) == "S2@0");
  check_like_one_device(model, method, slow_devices(8));
  check_like_one_device(model, ShardParallel{.mesh_shape = {2, 4}}, slow_devices(8));
}

TEST_CASE("6 rows are split over 4 devices, of which the last has none") {
  ZooModel model = on_one_sequence("rows", 12, 3, 11);
  for (BatchInput& input : model.inputs) input.type.shape[0] = 6;
  model.batch = token_batch(6, 5, 11);
  check_like_one_device(model, DataParallel{}, Cluster::local(4));
  check_like_one_device(model, Zero3Parallel{}, Cluster::local(4));
  const ShardParallel shard{.mesh_shape = {4}, .batch_mesh_axis = 0};
  CHECK(attention_layout(planned(model, shard, Cluster::local(4))) == "S0@0");
  check_like_one_device(model, shard, Cluster::local(4));
  check_like_one_device(model, PipeshardParallel{.layers = AutoLayers{2}, .batch_mesh_axis = 0},
                        Cluster::local(8));
}

TEST_CASE("a GPT with dropout trains as on one device") { check_some_ways("gpt"); }
TEST_CASE("a Llama with grouped queries trains as on one device") { check_some_ways("llama"); }
TEST_CASE("BERT with ignored labels and dropout trains as on one device") {
  check_some_ways("bert");
}
TEST_CASE("ViT trains as on one device") { check_some_ways("vit"); }
TEST_CASE("a Wide-ResNet trains as on one device") { check_some_ways("wide_resnet"); }

TEST_CASE("all ways to train a model" * doctest::skip(!is_nightly())) {
  for (const char* name : {"gpt", "llama", "moe", "bert", "vit", "wide_resnet"})
    for (const Precision precision : {Precision::as_written, bf16_mixed}) {
      CAPTURE(name);
      check_all_ways(name, precision);
    }
}

}  // namespace zoo_test
