// Small collectives travel together, none later than it is needed or earlier than memory allows.
#include <doctest/doctest.h>

#include "alpa/alpa.h"
#include "parallel_steps.h"
#include "src/ir/recorder.h"
#include "src/lower/memory_plan.h"
#include "src/ops/all_ops.h"

namespace bucket_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

std::vector<std::size_t> sorted(std::vector<std::size_t> sizes) {
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

/// Tensors per collective of a kind, in program order.
std::vector<std::size_t> bucket_sizes(const spmd::SpmdProgram& program,
                                      const OpDef& op = ops::all_reduce) {
  std::vector<std::size_t> sizes;
  for (const Node& node : program.graph.nodes)
    if (node.op == &op) sizes.push_back(node.operands.size());
  return sizes;
}

}  // namespace

TEST_CASE("buckets hold as many gradients as fit") {
  const spmd::SpmdProgram program = data_parallel(5);
  CHECK(bucket_sizes(program) == std::vector<std::size_t>(6, 1));
  CHECK(bucket_sizes(spmd::bucket_collectives(program, 0)) == std::vector<std::size_t>(6, 1));
  // The loss goes along with the first gradients.
  CHECK(bucket_sizes(spmd::bucket_collectives(program, 600)) == std::vector<std::size_t>{3, 2, 1});
  CHECK(bucket_sizes(spmd::bucket_collectives(program, 1 << 20)) == std::vector<std::size_t>{6});
}

TEST_CASE("joining changes the number of calls, not the bytes") {
  const spmd::SpmdProgram program = data_parallel(5),
                          joined = spmd::bucket_collectives(program, 1 << 20);
  verify(joined);
  CHECK(spmd::traffic(program).at("all_reduce").count == 6);
  CHECK(spmd::traffic(joined).at("all_reduce").count == 1);
  CHECK(spmd::traffic(program).at("all_reduce").bytes ==
        spmd::traffic(joined).at("all_reduce").bytes);
}

TEST_CASE("an all_reduce that is needed before the next one is ready stays alone") {
  // Two row-split layers: the second all_reduce depends on the first.
  const auto model = [](Recorder& g, Value x, Value y) {
    for (int i = 0; i < 2; ++i)
      x = tanh(
          matmul(x, g.parameter(fmt::format("w{}", i), {f32, {8, 8}}, Initializer::normal(0, 1))));
    return mean(square(x - y));
  };
  const Graph graph = training_graph({f32, {8, 8}}, {f32, {8, 8}}, model, {});
  const ShardingPlan plan = laid_out_plan(
      graph, mesh_of({2}), {{"w0", "S0@0"}, {"w1", "S0@0"}, {"%5", "P+@0"}, {"%8", "P+@0"}});
  const spmd::SpmdProgram program = spmd::bucket_collectives(spmd::partition(graph, plan), 1 << 20);
  verify(program);
  const std::vector<std::size_t> sizes = bucket_sizes(program);
  REQUIRE(sizes.size() >= 2);
  CHECK(sizes[0] == 1);
  CHECK(sizes[1] == 1);
}

TEST_CASE(
    "gradients are reduced where they are made, so that the rest of the backward pass overlaps") {
  const spmd::SpmdProgram program = spmd::bucket_collectives(data_parallel(3), 0);
  verify(program);
  const std::vector<Node>& nodes = program.graph.nodes;
  int reductions = 0;
  for (std::size_t n = 1; n < nodes.size(); ++n) {
    const bool is_loss = nodes[n].results[0] == program.graph.metrics.at(0).value;
    if (nodes[n].op != &ops::all_reduce || nodes[n].region != Region::backward || is_loss) continue;
    ++reductions;
    CHECK(nodes[n - 1].results[0] == nodes[n].operands[0]);
  }
  CHECK(reductions == 3);
}

TEST_CASE("ZeRO's small reduce_scatters and all_gathers share calls, and send the same bytes") {
  using Sizes = std::vector<std::size_t>;
  for (const Zero stage : {Zero::two, Zero::three})
    for (const int micro_batches : {1, 2}) {
      CAPTURE(static_cast<int>(stage));
      CAPTURE(micro_batches);
      const spmd::SpmdProgram program = zero(stage, dense_layers(4, 64, 8, micro_batches));
      const auto before = spmd::traffic(program);
      for (const OpDef* op : {&ops::reduce_scatter, &ops::all_gather}) {
        // Kernels of 256 bytes and biases of 32, of four layers.
        const auto sizes = [&](std::int64_t bytes) {
          return bucket_sizes(spmd::bucket_collectives(program, bytes), *op);
        };
        CHECK(sizes(0) == Sizes(8, 1));
        CHECK(sorted(sizes(100)) == Sizes{1, 1, 1, 1, 1, 3});
        CHECK(sizes(300) == Sizes(4, 2));
        CHECK(sizes(600) == Sizes(2, 4));
        CHECK(sizes(1 << 20) == Sizes{8});
        const auto after = spmd::traffic(spmd::bucket_collectives(program, 1 << 20));
        CHECK(after.at(std::string(op->name)).bytes == before.at(std::string(op->name)).bytes);
        CHECK(after.at(std::string(op->name)).count * 8 == before.at(std::string(op->name)).count);
      }
    }
}

TEST_CASE(
    "a bucket of gathers is made for its first reader if the shards are there, else for its last") {
  const auto gather_of = [](Zero stage) {
    const spmd::SpmdProgram program =
        spmd::bucket_collectives(zero(stage, dense_layers(3, 64, 8, 1)), 1 << 20);
    const std::vector<Node>& nodes = program.graph.nodes;
    const auto is_gather = [](const Node& node) { return node.op == &ops::all_gather; };
    const auto gather = std::find_if(nodes.begin(), nodes.end(), is_gather);
    REQUIRE(gather != nodes.end());
    CHECK(gather->attributes.integers("dims") == std::vector<std::int64_t>{1, 0, 1, 0, 1, 0});
    std::pair<int, int> updates_and_products{0, 0};  // before the gather
    for (auto node = nodes.begin(); node != gather; ++node) {
      updates_and_products.first += node->op == &ops::multi_tensor_adam;
      updates_and_products.second += node->op == &ops::einsum;
    }
    return updates_and_products;
  };
  CHECK(gather_of(Zero::two) == std::pair(6, 3 + 2 * 3 - 1));  // no gradient of x
  CHECK(gather_of(Zero::three) == std::pair(0, 0));
}

TEST_CASE("buckets wait where holding their tensors would raise the peak of what lives at once") {
  for (const Zero stage : {Zero::two, Zero::three})
    for (const int micro_batches : {1, 2}) {
      CAPTURE(static_cast<int>(stage));
      CAPTURE(micro_batches);
      // With four rows, gradients are most of what lives.
      const spmd::SpmdProgram program = zero(stage, dense_layers(6, 4, 16, micro_batches)),
                              joined = spmd::bucket_collectives(program, 1 << 20);
      const std::size_t calls = bucket_sizes(joined, ops::reduce_scatter).size();
      CHECK(calls > 1);
      CHECK(calls < bucket_sizes(program, ops::reduce_scatter).size());
      const auto arena = [](const spmd::SpmdProgram& p) {
        return static_cast<double>(lower::lower(p, 0, false).arena_bytes);
      };
      CHECK(arena(joined) <=
            1.01 * arena(spmd::bucket_collectives(program, 0)));  // but for padding
    }
}

TEST_CASE("buckets change no bit of the result, and run as often as planned") {
  for (const Zero stage : {Zero::two, Zero::three})
    for (const int micro_batches : {1, 2}) {
      // Seven columns on three devices: 3, 3 and 1; a bias of seven likewise.
      const spmd::SpmdProgram program = zero(stage, dense_layers(3, 24, 7, micro_batches), 3);
      runtime::Executor alone(spmd::bucket_collectives(program, 0));
      const StepOutcome expected = run_steps(alone, 2);
      for (const Overlap overlap : {Overlap::never, Overlap::always})
        for (const std::int64_t bytes : {60, 400, 1 << 20}) {
          const spmd::SpmdProgram joined = spmd::bucket_collectives(program, bytes);
          verify(joined);
          CHECK(spmd::traffic(joined).at("reduce_scatter").count <
                spmd::traffic(program).at("reduce_scatter").count);
          runtime::Executor executor(joined, {.overlap = overlap});
          CHECK(largest_difference(expected, run_steps(executor, 2)) == 0);
          for (const auto& [kind, planned] : spmd::traffic(joined)) {
            const Traffic measured = executor.measured_traffic().at(kind);
            CHECK(measured.count == planned.count);
            // sums of thirds
            CHECK(measured.bytes == doctest::Approx(planned.bytes).epsilon(1e-12));
          }
        }
    }
}

TEST_CASE("the verifier sees a bucket whose dimensions are mixed up") {
  spmd::SpmdProgram program =
      spmd::bucket_collectives(zero(Zero::three, dense_layers(2, 64, 8, 1)), 1 << 20);
  for (const OpDef* op : {&ops::reduce_scatter, &ops::all_gather}) {
    spmd::SpmdProgram wrong = program;
    for (Node& node : wrong.graph.nodes) {
      if (node.op != op) continue;
      std::vector<std::int64_t> dims = node.attributes.integers("dims");
      std::reverse(dims.begin(), dims.end());
      node.attributes.set("dims", dims);
    }
    CHECK_NOTHROW(verify(program));
    CHECK_THROWS_AS(verify(wrong), Bug);
  }
}

TEST_CASE("slack buys fewer collectives, and no more memory than it is") {
  for (const Zero stage : {Zero::two, Zero::three}) {
    CAPTURE(static_cast<int>(stage));
    const spmd::SpmdProgram program = zero(stage, dense_layers(6, 4, 16, 1));
    std::size_t calls = 0;
    std::int64_t bytes = 0;
    for (const std::int64_t slack : {0, 1024, 4096, 1 << 20}) {
      CAPTURE(slack);
      const spmd::SpmdProgram joined = spmd::bucket_collectives(program, 1 << 20, slack);
      verify(joined);
      const std::size_t now = bucket_sizes(joined, ops::reduce_scatter).size();
      if (slack > 0) CHECK(now <= calls);
      if (slack == 1 << 20 && stage == Zero::two) CHECK(now == 1);
      CHECK(spmd::estimated_bytes(joined) <= spmd::estimated_bytes(program) + slack);
      CHECK(spmd::estimated_bytes(joined) >= bytes);
      calls = now;
      bytes = spmd::estimated_bytes(joined);
    }
  }
}

TEST_CASE("a reduction runs beside the next two where memory does not let it wait for all") {
  const spmd::SpmdProgram program = zero(Zero::two, dense_layers(12, 8, 32, 2));
  // Per reduction of backward, how many others stand before what reads it.
  const auto passed = [](const spmd::SpmdProgram& moved) {
    const Graph& graph = moved.graph;
    const std::vector<std::vector<int>> readers = consumers(graph);
    std::vector<int> counts;
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
      const Node& node = graph.nodes[n];
      if (node.op != &ops::reduce_scatter || node.region != Region::backward) continue;
      counts.push_back(0);
      for (int at = n + 1; at < readers[node.results[0]].front(); ++at)
        counts.back() += graph.nodes[at].op == &ops::reduce_scatter;
    }
    return counts;
  };
  const std::vector<int> with_room = passed(spmd::bucket_collectives(program, 0, 1 << 30)),
                         without = passed(spmd::bucket_collectives(program, 0, 0));
  REQUIRE(with_room.size() == 24);  // of kernels and biases
  for (std::size_t i = 0; i < with_room.size(); ++i)
    CHECK(with_room[i] == static_cast<int>(with_room.size() - i) - 1);
  const auto beside_few = std::ranges::count_if(without, [](int c) { return c == 1 || c == 2; });
  CHECK(beside_few >= 11);  // kernels; biases find room
}

TEST_CASE("plans spend a far budget on joint collectives, and keep a near one to the byte") {
  const TensorType type{f32, {16, 48}};
  const auto model = [](const Batch& b) {
    nn::Sequential mlp;
    for (int i = 0; i < 9; ++i) mlp.add(nn::Dense(48)).add(nn::Tanh());
    return nn::mean_squared_error(mlp(b["x"]), b["y"]);
  };
  const TrainingStep step = training_step({{"x", type}, {"y", type}}, model, optim::Adam{});
  const auto calls = [](const CompiledStep& planned) {
    std::int64_t count = 0;
    for (const auto& [kind, traffic] : planned.traffic()) count += traffic.count;
    return count;
  };
  const auto planned = [&](std::int64_t bucket_bytes, std::optional<std::int64_t> budget = {}) {
    Zero2Parallel method;
    method.executor.bucket_bytes = bucket_bytes;
    method.memory_budget_bytes = budget;
    return plan_only(step, method, Cluster::local(4));
  };
  const CompiledStep alone = planned(0), free = planned(1 << 20);
  const std::int64_t near = alone.memory_bytes + 128;  // packing may lose an alignment or two
  const CompiledStep tight = planned(1 << 20, near);
  CHECK(tight.memory_bytes <= near);
  CHECK(free.memory_bytes > alone.memory_bytes);
  CHECK(free.memory_bytes <= alone.memory_bytes + (1 << 20));
  CHECK(calls(free) < calls(tight));
  CHECK(calls(tight) < calls(alone));
  // Between them, the budget is kept whatever the slack was.
  for (int part = 1; part < 4; ++part) {
    const std::int64_t budget =
        alone.memory_bytes + part * (free.memory_bytes - alone.memory_bytes) / 4;
    const CompiledStep between = planned(1 << 20, budget);
    CHECK(between.memory_bytes <= budget);
    CHECK(calls(between) <= calls(tight));
  }
}

TEST_CASE("buckets have up to 25 MiB on CUDA, and 1 MiB on CPUs") {
  const TensorType type{f32, {64, 1024}};
  const TrainingStep step = training_step(
      {{"x", type}, {"y", type}},
      [](const Batch& b) {
        nn::Sequential mlp;
        for (int i = 0; i < 8; ++i) mlp.add(nn::Dense(1024)).add(nn::Tanh());
        return nn::mean_squared_error(mlp(b["x"]), b["y"]);
      },
      optim::Sgd{});
  const auto calls = [&](const Cluster& cluster) {
    return plan_only(step, DataParallel{}, cluster).traffic().at("all_reduce").count;
  };
  CHECK(calls(Cluster::named("hgx-h200")) == 2);  // six kernels of 4 MiB in one
  CHECK(calls(Cluster::local(8)) >= 9);           // each alone; biases and loss
}

}  // namespace bucket_test
