#pragma once
/// Programs of several meshes made by hand: the layers of a traced training step,
/// each on a mesh of its own.
#include <algorithm>

#include "src/ir/recorder.h"
#include "src/spmd/program.h"
#include "support/steps.h"

namespace alpa::testing {

/// One mesh of such a program. Layouts are those of `following_plan`; what comes from another mesh
/// is called "cut0", "cut1", … in the order in which it is first read.
struct Stage {
  DeviceMesh mesh;
  Layouts layouts;
};

/// A mesh of these sizes whose devices have ids from `first` on.
inline DeviceMesh mesh_from(int first, const std::vector<int>& shape) {
  const DeviceMesh mesh = mesh_of(shape);
  std::vector<int> devices;
  for (int d = 0; d < mesh.num_devices(); ++d) devices.push_back(first + d);
  return DeviceMesh(mesh.axes(), devices);
}

/// Per node its mesh: its layer, or that of what it reads, or else of what reads it first.
inline std::vector<int> stages_of(const Graph& graph) {
  std::vector<int> stage;
  for (const Node& node : graph.nodes) {
    stage.push_back(node.layer);
    for (int value : node.operands)
      if (stage.back() < 0) stage.back() = stage[graph.values[value].producer];
  }
  const std::vector<std::vector<int>> readers = consumers(graph);
  for (int n = static_cast<int>(stage.size()) - 1; n >= 0; --n)
    for (int value : graph.nodes[n].results)
      for (int reader : readers[value])
        if (stage[n] < 0) stage[n] = stage[reader];
  return stage;
}

class Cutting {
 public:
  Cutting(const Graph& graph, const std::vector<Stage>& stages)
      : graph_(graph), stage_(stages_of(graph)) {
    for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
      parts_.push_back(part_of(s));
      parts_.back().program =
          spmd::partition(parts_.back().graph,
                          following_plan(parts_.back().graph, stages[s].mesh, stages[s].layouts));
      program_.meshes.push_back(stages[s].mesh);
    }
  }

  spmd::SpmdProgram run() && {
    program_.graph.num_micro_batches = graph_.num_micro_batches;
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < static_cast<int>(parts_.size()); ++s)
        while (append_next(s)) moved = true;
    }
    for (int s = 0; s < static_cast<int>(parts_.size()); ++s) append_outputs(s);
    verify(program_);
    return std::move(program_);
  }

 private:
  struct Part {
    Graph graph;               ///< the nodes of one mesh
    std::vector<int> whole;    ///< per value of `graph`: its value in the whole graph
    std::vector<bool> is_cut;  ///< per node of `graph`: stands for a value of another mesh
    spmd::SpmdProgram program;
    std::size_t next = 0;       ///< node of `program` that has not been appended
    int next_of_graph = 0;      ///< node of `graph` that it stands for, if it is not a reshard
    std::vector<int> appended;  ///< per value of `program`: its value in the result, or -1
  };

  static bool is_reshard(const Node& node) { return node.op->reshard.has_value(); }

  // ---- the nodes of one mesh as a graph of its own

  Part part_of(int stage) const {
    Part part;
    part.graph.num_micro_batches = graph_.num_micro_batches;
    std::map<int, int> here;  // values of the whole graph
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      if (stage_[n] == stage) add_node(part, n, here);
    for (const Input& input : graph_.inputs)
      if (const auto at = here.find(input.value);
          at != here.end() && stage_[producer(input.value)] == stage)
        part.graph.inputs.push_back({at->second, input.kind, input.name});
    std::sort(part.graph.inputs.begin(), part.graph.inputs.end(),
              [](const Input& a, const Input& b) { return a.value < b.value; });
    for (const Update& update : graph_.updates)
      if (stage_[producer(update.input)] == stage)
        part.graph.updates.push_back({here.at(update.input), here.at(update.value)});
    for (const Metric& metric : graph_.metrics)
      if (stage_[producer(metric.value)] == stage)
        part.graph.metrics.push_back({metric.name, here.at(metric.value)});
    for (const Output& output : graph_.outputs)
      if (stage_[producer(output.value)] == stage)
        part.graph.outputs.push_back({output.name, here.at(output.value)});
    return part;
  }

  int producer(int value) const { return graph_.values[value].producer; }

  void add_node(Part& part, int n, std::map<int, int>& here) const {
    Node node = graph_.nodes[n];
    for (int& value : node.operands) {
      if (!here.count(value)) bring(part, value, here);
      value = here.at(value);
    }
    append(part, std::move(node), here, false);
  }

  /// Constants are made anew, everything else becomes an input.
  void bring(Part& part, int value, std::map<int, int>& here) const {
    Node node = graph_.producer(value);
    const bool constant = node.operands.empty() && node.op != &ops::input;
    if (constant) return append(part, std::move(node), here, false);
    const TensorType& type = graph_.type(value);
    const bool once = node.region == Region::apply || kind_of(value) == InputKind::scalar;
    const InputKind kind = once ? InputKind::scalar : InputKind::batch;
    Node input;
    input.op = &ops::input;
    input.name = fmt::format("cut{}", std::count(part.is_cut.begin(), part.is_cut.end(), true));
    input.attributes = {{"kind", std::string(name_of(kind))},
                        {"dtype", std::string(name_of(type.dtype))},
                        {"shape", std::vector<std::int64_t>(type.shape.begin(), type.shape.end())}};
    input.results = {value};
    append(part, std::move(input), here, true);
    part.graph.inputs.push_back({here.at(value), kind, part.graph.nodes.back().name});
  }

  InputKind kind_of(int value) const {
    const Input* input = find_input(graph_, value);
    return input ? input->kind : InputKind::batch;
  }

  void append(Part& part, Node node, std::map<int, int>& here, bool cut) const {
    for (int i = 0; i < static_cast<int>(node.results.size()); ++i) {
      const int value = node.results[i];
      node.results[i] = here[value] = static_cast<int>(part.graph.values.size());
      part.graph.values.push_back(
          {graph_.type(value), static_cast<int>(part.graph.nodes.size()), i});
      part.whole.push_back(value);
    }
    part.graph.nodes.push_back(std::move(node));
    part.is_cut.push_back(cut);
  }

  // ---- the partitioned parts as one program

  /// False if the part is at its end, or waits for a value of another one.
  bool append_next(int s) {
    Part& part = parts_[s];
    if (part.next == part.program.graph.nodes.size()) return false;
    part.appended.resize(part.program.graph.values.size(), -1);
    Node node = part.program.graph.nodes[part.next];
    const bool reshard = is_reshard(node);
    const Node* whole = reshard ? nullptr : &part.graph.nodes[part.next_of_graph];
    const int value = node.results[0];
    if (whole && part.is_cut[part.next_of_graph]) {
      const auto source = made_.find(part.whole[whole->results[0]]);
      if (source == made_.end()) return false;
      part.appended[value] = transferred(source->second, s, part.program.specs[value]);
    } else {
      for (int& operand : node.operands) operand = part.appended[operand];
      const std::vector<int> results = node.results;
      std::vector<ShardingSpec> specs;
      for (int result : results) specs.push_back(part.program.specs[result]);
      std::vector<TensorType> types;
      for (int result : results) types.push_back(part.program.graph.type(result));
      const std::vector<int> numbers = append(std::move(node), types, specs, s);
      for (std::size_t i = 0; i < results.size(); ++i) {
        part.appended[results[i]] = numbers[i];
        if (whole) made_[part.whole[whole->results[i]]] = numbers[i];
      }
      if (const Input* input = find_input(part.program.graph, value))
        program_.graph.inputs.push_back({numbers[0], input->kind, input->name});
    }
    ++part.next;
    part.next_of_graph += reshard ? 0 : 1;
    return true;
  }

  std::vector<int> append(Node node, const std::vector<TensorType>& types,
                          const std::vector<ShardingSpec>& specs, int mesh) {
    Graph& graph = program_.graph;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      node.results[i] = static_cast<int>(graph.values.size());
      graph.values.push_back({types[i], static_cast<int>(graph.nodes.size()), static_cast<int>(i)});
      program_.specs.push_back(specs[i]);
      program_.mesh_of_value.push_back(mesh);
    }
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back().results;
  }

  /// A transfer of the value, reduced first where it is a partial sum.
  int transferred(int value, int mesh, const ShardingSpec& spec) {
    const Node from = program_.graph.producer(value);
    const TensorType type = program_.graph.type(value);
    Node node;
    node.results = {-1};
    node.region = from.region;
    if (const auto* input = find_input(program_.graph, value);
        input && input->kind == InputKind::scalar)
      node.region = Region::apply;
    ShardingSpec whole = program_.specs[value];
    std::vector<std::int64_t> axes;
    for (int axis = 0; axis < kMaxMeshAxes; ++axis)
      if (whole.axes[axis].kind == AxisPlacement::Kind::partial)
        axes.push_back(axis), whole = whole.without(axis);
    if (!axes.empty()) {
      node.op = &ops::all_reduce;
      node.attributes = {{"axes", axes}};
      node.operands = {value};
      node.name = from.name + ".all_reduce";
      value = append(node, {type}, {whole}, program_.mesh_of_value[value])[0];
    }
    node.op = &ops::transfer;
    node.attributes = {};
    node.operands = {value};
    node.name = from.name + ".transfer";
    return append(node, {type}, {spec}, mesh)[0];
  }

  void append_outputs(int s) {
    const Part& part = parts_[s];
    const Graph& graph = part.program.graph;
    for (const Update& update : graph.updates)
      program_.graph.updates.push_back({part.appended[update.input], part.appended[update.value]});
    for (const Metric& metric : graph.metrics)
      program_.graph.metrics.push_back({metric.name, part.appended[metric.value]});
    for (const Output& output : graph.outputs)
      program_.graph.outputs.push_back({output.name, part.appended[output.value]});
  }

  const Graph& graph_;
  std::vector<int> stage_;  ///< per node
  std::vector<Part> parts_;
  /// by value of the whole graph: value of the program, as its mesh produced it
  std::map<int, int> made_;
  spmd::SpmdProgram program_;
};

/// `graph` with the nodes of layer s on the mesh of stage s, fused.
inline spmd::SpmdProgram on_meshes(const Graph& graph, const std::vector<Stage>& stages,
                                   std::int64_t bucket_bytes = 1 << 20) {
  const spmd::SpmdProgram fused = spmd::fuse_elementwise(Cutting(graph, stages).run());
  verify(fused);
  spmd::SpmdProgram program = spmd::bucket_collectives(fused, bucket_bytes);
  verify(program);
  return program;
}

/// `run_steps` with the batches that it draws for `graph`, whose inputs may come in another order.
inline StepOutcome run_steps_of(const Graph& graph, runtime::Executor& executor, int steps) {
  const auto state = executor.make_state(1);
  StepOutcome outcome;
  for (int step = 1; step <= steps; ++step)
    outcome.losses.push_back(
        executor.run(*state, random_batch(graph, step), scalars_of(executor.program().graph, step))
            .at("loss"));
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state)
      outcome.state[input.name] = executor.read(*state, input.name).to_doubles();
  return outcome;
}

/// A model of one layer per stage: tanh(x·w + b), the last one without bias and
/// the mean of squared errors.
inline Model one_layer_per_stage(int stages, std::int64_t width) {
  return [=](Recorder& g, Value x, Value y) {
    for (int s = 0; s < stages; ++s) {
      g.set_layer(s);
      const std::int64_t in = x.type().shape[1], out = s + 1 < stages ? width : y.type().shape[1];
      const Value w =
          g.parameter(fmt::format("w{}", s), {f32, {in, out}}, Initializer::normal(0, 0.3));
      x = matmul(x, w);
      if (s + 1 < stages)
        x = tanh(x + g.parameter(fmt::format("b{}", s), {f32, {out}}, Initializer::normal(0, 0.3)));
    }
    const Value loss = mean(square(x - y));
    g.set_layer(-1);
    return loss;
  };
}

}  // namespace alpa::testing
