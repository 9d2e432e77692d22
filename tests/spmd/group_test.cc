// Which products of one operand become one node, that it changes no bit of what the CPU computes,
// and where its tensors lie.
#include <doctest/doctest.h>

#include "kernels/plan/einsum_group.h"
#include "src/ir/recorder.h"
#include "src/lower/memory_plan.h"
#include "src/lower/side_by_side.h"
#include "src/ops/all_ops.h"
#include "src/runtime/executor.h"
#include "src/spmd/einsum_group.h"
#include "support/cuda_epilogues.h"
#include "support/steps.h"

namespace group_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kExamples = 12, kTokens = 4, kWide = 32, kHeadWidth = 16, kRows = 8;

spmd::SpmdProgram grouped(const spmd::SpmdProgram& program, std::int64_t slack = 1 << 20) {
  const spmd::SpmdProgram result =
      spmd::group_einsums(program, lower::find_backend("cuda").groups_einsums, slack);
  verify(result);
  return result;
}

/// "[bias] x3" of every group, in order.
std::string groups_of(const spmd::SpmdProgram& program) {
  std::string text;
  for (const Node& node : program.graph.nodes)
    if (spmd::is_einsum_group(node))
      text +=
          (text.empty() ? "" : " ") + fmt::format("[{}] x{}", node.attributes.string("epilogue"),
                                                  node.attributes.integer("members"));
  return text;
}

struct Heads {
  DType dtype = f32;
  int micro_batches = 1;
  std::int64_t key_width = kWide;
  bool bias = true;
};

/// A training step of attention over two heads.
Graph heads_step(const Heads& heads) {
  const TensorType batch{heads.dtype, {kExamples, kTokens, kWide}};
  return training_graph(
      batch, batch,
      [&](Recorder& g, Value x, Value y) {
        const auto dense = [&](const std::string& name, std::int64_t width) {
          const Initializer random = Initializer::normal(0, 0.1);
          const Value w = g.parameter(name + "/w", {heads.dtype, {kWide, width}}, random),
                      product = einsum("btc,cd->btd", x, w);
          const Value z = heads.bias
                              ? product + g.parameter(name + "/b", {heads.dtype, {width}}, random)
                              : product;
          return reshape(z, {x.dim(0), kTokens, width / kHeadWidth, kHeadWidth});
        };
        const Value q = dense("q", kWide), k = dense("k", heads.key_width),
                    v = dense("v", heads.key_width);
        const Value attended = reshape(attention(q, k, v, {.causal = true}), x.type().shape);
        return mean(cast(square(attended - y), f32));
      },
      {.num_micro_batches = heads.micro_batches, .dtype = heads.dtype});
}

spmd::SpmdProgram apart_of(const Graph& graph, const Layouts& layouts = {},
                           const std::vector<int>& mesh = {2}) {
  return spmd::fuse_elementwise(with_cuda_epilogues(
      spmd::partition(graph, layouts.empty() ? replicated_plan(graph, mesh_of(mesh))
                                             : following_plan(graph, mesh_of(mesh), layouts))));
}

StepOutcome run(const spmd::SpmdProgram& program) {
  runtime::Executor executor(program);
  return run_steps(executor, 2);
}

}  // namespace

TEST_CASE("queries, keys and values are one node, and so are the gradients of their weights") {
  CHECK(groups_of(grouped(apart_of(heads_step({})))) == "[bias] x3 [sums1] x3");
  CHECK(groups_of(grouped(apart_of(heads_step({.bias = false})))) == "[] x3 [] x3");
  CHECK(groups_of(grouped(apart_of(heads_step({.micro_batches = 2})))) ==
        "[bias] x3 [sums1 add] x3");
}

TEST_CASE("of grouped queries keys and values are one node") {
  CHECK(groups_of(grouped(apart_of(heads_step({.key_width = 16})))) == "[bias] x2 [sums1] x2");
}

TEST_CASE("grouped or not, two training steps give the same bits, on every layout") {
  for (const Heads& heads :
       {Heads{}, Heads{bf16, 2}, Heads{f32, 2, 16}, Heads{bf16, 1, kWide, false}})
    for (const Layouts& layouts :
         {Layouts{}, Layouts{{"x", "S0@0"}},
          Layouts{{"q/w", "S1@0"}, {"k/w", "S1@0"}, {"v/w", "S1@0"}}, Layouts{{"q/w", "S0@0"}}}) {
      CAPTURE(name_of(heads.dtype));
      CAPTURE(heads.micro_batches);
      CAPTURE(layouts.empty() ? "" : layouts.begin()->second);
      const spmd::SpmdProgram apart = apart_of(heads_step(heads), layouts),
                              program = grouped(apart);
      CHECK(groups_of(program) != "");
      const StepOutcome a = run(apart), b = run(program);
      CHECK(a.losses == b.losses);
      CHECK(a.state == b.state);
    }
}

TEST_CASE("a group's rule has the FLOPs of its members and reads the shared operand once") {
  const spmd::SpmdProgram program = grouped(apart_of(heads_step({})));
  int groups = 0;
  for (const Node& node : program.graph.nodes) {
    if (!spmd::is_einsum_group(node)) continue;
    ++groups;
    const Rule rule = rule_of(program.graph, node);
    CHECK_NOTHROW(verify(rule));
    CHECK(flops(rule) == 3.0 * 2 * kExamples * kTokens * kWide * kWide);
    for (const Node& member : spmd::members_of_group(node)) {
      CHECK(member.operands[0] == node.operands[0]);
      CHECK(flops(rule_of(program.graph, member)) == 2.0 * kExamples * kTokens * kWide * kWide);
    }
  }
  CHECK(groups == 2);
}

TEST_CASE("products that need each other, of other operands, types or layouts stay apart") {
  const auto program_of = [](const std::function<Value(Recorder&, Value x)>& model,
                             const Layouts& layouts = {}, DType dtype = f32) {
    Recorder g(1);
    const Value x = g.input(InputKind::batch, "x", {dtype, {kRows, kWide}}), z = model(g, x);
    g.update(g.input(InputKind::state, "out", z.type()), z);
    return groups_of(grouped(apart_of(g.finish(), layouts)));
  };
  int weights = 0;
  const auto weight = [&](Recorder& g, DType dtype = f32) {
    return g.parameter("w" + std::to_string(weights++), {dtype, {kWide, kWide}},
                       Initializer::normal(0, 0.1));
  };
  const auto two = [&](DType dtype) {
    return [&weight, dtype](Recorder& g, Value x) {
      const Value a = matmul(x, weight(g, dtype));
      return tanh(a) * tanh(matmul(x, weight(g, dtype)));
    };
  };
  CHECK(program_of(two(f32)) == "[] x2");
  CHECK(program_of(two(f64), {}, f64) == "");
  weights = 0;
  CHECK(program_of(two(f32), {{"w0", "S1@0"}}) == "");
  CHECK(program_of([&](Recorder& g, Value x) {
          const Value a = matmul(x, weight(g));
          return matmul(x, einsum("mk,mn->kn", a, tanh(a)) * weight(g));
        }) == "");
  CHECK(program_of([&](Recorder& g, Value x) {
          g.set_layer(0);
          const Value a = tanh(matmul(x, weight(g)));
          g.set_layer(1);
          return a * tanh(matmul(x, weight(g)));
        }) == "");
  CHECK(program_of([&](Recorder& g, Value x) {
          return tanh(matmul(x, weight(g))) * tanh(matmul(tanh(x), weight(g)));
        }) == "");
}

TEST_CASE("a group whose members' layouts differ is refused") {
  spmd::SpmdProgram program = grouped(apart_of(heads_step({})));
  for (const Node& node : program.graph.nodes)
    if (spmd::is_einsum_group(node)) {
      program.specs[node.operands[2]] = program.specs[node.operands[2]].split(0, 1);
      break;
    }
  CHECK_THROWS(verify(program));
}

namespace {

/// Per group of a device program, whether all of its tensors lie side by side.
std::vector<bool> are_side_by_side(const spmd::SpmdProgram& program,
                                   const lower::DeviceProgram& device) {
  std::vector<bool> result;
  for (const lower::InstructionList& list : device.lists)
    for (const lower::Instruction& instruction : list.instructions)
      if (instruction.kind == lower::Instruction::Kind::compute &&
          spmd::is_einsum_group(program.graph.nodes[instruction.node])) {
        result.push_back(lower::lie_side_by_side(device, program.graph, instruction));
        CHECK(lower::launches_of(device, program.graph, instruction) == (result.back() ? 1 : 3));
      }
  return result;
}

}  // namespace

TEST_CASE("weights, biases, results and gradients of a group lie side by side in the CUDA plan") {
  for (int micro_batches : {1, 3}) {
    const spmd::SpmdProgram program = grouped(apart_of(heads_step({bf16, micro_batches})));
    for (int device : {0, 1})
      CHECK(are_side_by_side(program,
                             lower::lower(program, device, true, lower::memory_rules("cuda"))) ==
            std::vector<bool>{true, true});
    lower::MemoryRules anywhere = lower::memory_rules("cuda");
    anywhere.side_by_side = false;
    CHECK(are_side_by_side(program, lower::lower(program, 0, true, anywhere)) !=
          std::vector<bool>{true, true});
  }
}

TEST_CASE("state keeps the place that another program gave it, whatever a group wants") {
  const spmd::SpmdProgram apart = apart_of(heads_step({})), program = grouped(apart);
  const lower::MemoryRules rules = lower::memory_rules("cuda");
  lower::StateLayout state;
  // in reverse, so that no group lies side by side
  const lower::DeviceProgram leader = lower::lower(apart, 0, true, rules);
  std::map<std::string, lower::StatePlace>& places = state.of_device[0];
  places = lower::state_places(leader, apart);
  std::int64_t end = 0;
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    place->second.arena_offset = end;
    end += (place->second.bytes + 255) / 256 * 256 + 256 * static_cast<std::int64_t>(end % 3);
  }
  const lower::DeviceProgram device = lower::lower(program, 0, true, rules, {}, &state);
  CHECK(lower::state_places(device, program) == places);
  CHECK(are_side_by_side(program, device) == std::vector<bool>{false, true});
}

TEST_CASE("a weight in two groups lies beside its neighbours in the first") {
  Recorder g(1);
  const TensorType rows{f32, {kRows, kWide}};
  const Value x = g.input(InputKind::batch, "x", rows), y = g.input(InputKind::batch, "y", rows);
  std::vector<Value> w;
  for (const char* name : {"a", "b", "c"})
    w.push_back(g.parameter(name, {f32, {kWide, kWide}}, Initializer::normal(0, 0.1)));
  const Value z =
      tanh(matmul(x, w[0])) * tanh(matmul(x, w[1])) + tanh(matmul(y, w[1])) * tanh(matmul(y, w[2]));
  g.update(g.input(InputKind::state, "out", z.type()), z);
  const spmd::SpmdProgram program = grouped(apart_of(g.finish()));
  CHECK(groups_of(program) == "[] x2 [] x2");
  const lower::DeviceProgram device = lower::lower(program, 0, true, lower::memory_rules("cuda"));
  int launches = 0;
  for (const lower::Instruction& instruction : device.lists[0].instructions)
    if (spmd::is_einsum_group(program.graph.nodes[instruction.node]))
      launches += lower::launches_of(device, program.graph, instruction);
  CHECK(launches <= 3);  // side by side by chance counts, too
  CHECK(launches >= 2);
}

}  // namespace group_test
