// tools/compared_step.cc — runs a plan's program and that of one device, and compares
#include "tools/compared_step.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "src/ir/input.h"
#include "src/lower/backend.h"
#include "src/ops/custom_ops.h"
#include "src/report/pipeline_forecast.h"
#include "src/runtime/executor.h"
#include "src/search/program/assemble_plan.h"
#include "src/search/stages/whole_graph.h"
#include "src/spmd/join_stages.h"

namespace tools {

using namespace alpa;

namespace {

constexpr std::uint64_t kSeed = 1;
/// Of the largest element; elements below the second count as this large, because gradients that
/// cancel out are rounding alone.
constexpr double kRounding = 1e-9, kSmall = 1e-4;
constexpr double kParameter = 0.5;  ///< so that gradients of all layers are far above rounding
constexpr double kScalar = 1e-3;    ///< learning rates and the like

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

/// Graph text with f64 for the other floating types, names left alone.
std::string in_f64(const std::string& text) {
  std::string result;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    std::size_t end = i + 1;
    while (is_word(text[i]) && end < text.size() && is_word(text[end])) ++end;
    const std::string word = text.substr(i, end - i);
    const bool is_type = word == "f32" || word == "bf16" || word == "f16";
    result += is_type && !quoted ? "f64" : word;
    i = end;
  }
  return result;
}

Array random_array(TensorType type, std::mt19937_64& random, double largest = 1) {
  Array array(std::move(type));
  const auto fill = [&](auto span, auto&& number) {
    for (auto& element : span) element = number();
  };
  std::uniform_real_distribution<double> around_zero(-largest, largest);
  switch (array.dtype()) {
    case DType::f64:
      fill(array.mutable_elements_as<double>(), [&] { return around_zero(random); });
      break;
    // classes and tokens: every model has two
    case DType::i32:
      fill(array.mutable_elements_as<std::int32_t>(), [&] { return random() % 2; });
      break;
    case DType::u8:
      fill(array.mutable_elements_as<std::uint8_t>(), [&] { return random() % 256; });
      break;
    default: bug("an input of type {}", name_of(array.dtype()));
  }
  return array;
}

/// Random batch and shared inputs: dimension 0 of the first is the whole batch.
BatchData random_batch(const Graph& graph) {
  std::mt19937_64 random(kSeed);
  BatchData batch;
  for (const Input& input : graph.inputs) {
    TensorType type = graph.type(input.value);
    if (input.kind == InputKind::batch) type.shape[0] *= graph.num_micro_batches;
    if (input.kind == InputKind::batch || input.kind == InputKind::shared)
      batch.emplace(input.name, random_array(type, random));
  }
  return batch;
}

std::map<std::string, double> scalars_of(const Graph& graph) {
  std::map<std::string, double> scalars;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::scalar) scalars[input.name] = input.name == "step" ? 1 : kScalar;
  return scalars;
}

/// State, metrics and outputs after one step of `program` from random parameters.
BatchData after_a_step(const spmd::SpmdProgram& program, const Graph& graph,
                       const pipeline::PipelineSchedule& schedule) {
  runtime::Executor executor(spmd::bucket_collectives(fuse_elementwise(program),
                                                      lower::find_backend("cpu").bucket_bytes, 0),
                             {}, "cpu", schedule);
  const std::shared_ptr<runtime::DeviceState> state = executor.make_state(kSeed);
  std::mt19937_64 random(kSeed);
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state && role_of(input) == StateRole::parameter)
      executor.write(*state, input.name, random_array(graph.type(input.value), random, kParameter));
  const runtime::RunningStep step = executor.start(*state, random_batch(graph), scalars_of(graph));
  BatchData tensors = step.outputs();
  for (const auto& [name, value] : step.metrics()) tensors.emplace("metric " + name, Array(value));
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state && !is_copy(graph, input))
      tensors.emplace(input.name, executor.read(*state, input.name));
  return tensors;
}

/// Everything on one device.
spmd::SpmdProgram program_of_one_device(const Graph& graph) {
  const DeviceMesh one(std::vector<MeshAxis>{{"x", 1, 0, 0}});
  cost::ReshardPrices prices(one, {});
  const intra_op::GraphFacts facts(graph);
  return spmd::partition(
      graph, plan_of_strategies(facts, one, std::vector<Strategy>(graph.nodes.size()), prices));
}

}  // namespace

bool TensorDifference::is_rounding() const {
  return largest <= kRounding * std::max(scale, kSmall);  // false for NaN
}

TensorDifference difference_of(const std::string& name, const Array& found, const Array& expected) {
  require(found.type() == expected.type(), "\"{}\" is {}, but {} on one device", name,
          to_string(found.type()), to_string(expected.type()));
  TensorDifference difference{name};
  if (found.dtype() != DType::f64) {
    const bool same = std::equal(found.data(), found.data() + found.bytes(), expected.data());
    difference.largest = same ? 0 : 1;
    return difference;
  }
  const auto a = found.elements_as<double>(), b = expected.elements_as<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(a[i] - b[i]);
    difference.largest = std::isnan(error) ? error : std::max(difference.largest, error);
    if (std::isnan(error)) break;
    difference.scale = std::max(difference.scale, std::abs(b[i]));
  }
  return difference;
}

std::vector<StagePlan> stages_in_f64(const Plan& plan) {
  std::vector<StagePlan> stages = plan.stages;
  for (StagePlan& stage : stages) {
    stage.graph = parse_graph(in_f64(to_string(stage.graph)), known_ops());
    verify(stage.plan, stage.graph);
  }
  return stages;
}

std::vector<TensorDifference> compared_step(const Plan& plan, const Cluster& cluster) {
  const Graph whole = whole_graph(plan.stages);
  const BatchData found =
      after_a_step(spmd::partition(whole, plan, cluster), whole, schedule_of(plan));
  const BatchData expected = after_a_step(program_of_one_device(whole), whole, {});
  std::vector<TensorDifference> differences;
  for (const auto& [name, array] : expected)
    differences.push_back(difference_of(name, found.at(name), array));
  std::ranges::stable_sort(differences, [](const auto& a, const auto& b) {
    return std::isnan(a.largest) > std::isnan(b.largest) || a.largest > b.largest;
  });
  return differences;
}

}  // namespace tools
