// src/spmd/fuse_elementwise.cc — fuses elementwise nodes of one iteration space into one node
#include <algorithm>
#include <map>
#include <numeric>

#include "alpa/base/error.h"
#include "kernels/elementwise.h"
#include "rewrite.h"
#include "src/base/half.h"
#include "src/ir/rewrite.h"
#include "src/ops/all_ops.h"
#include "src/plan/facts/fusion.h"
#include "src/tensor/elementwise_program.h"

namespace alpa::spmd {
namespace {

/// A number as a tensor of type `dtype` holds it.
double stored(double value, DType dtype) {
  switch (dtype) {
    case DType::f32: return static_cast<float>(value);
    case DType::bf16: return to_float(to_bf16(static_cast<float>(value)));
    case DType::f16: return to_float(to_f16(static_cast<float>(value)));
    default: return value;
  }
}

ElementwiseOp rounding_to(DType dtype) {
  return static_cast<ElementwiseOp>(ops::cast.elementwise_of({{"to", dtype}}));
}

/// An operand of a step; registers are numbered once all inputs and constants are known.
struct Source {
  enum class Kind : std::uint8_t { input, constant, step } kind;
  int index;
};

/// Reading a value: the tensor behind a broadcast, and the dimension of the iteration space
/// each of its dimensions is.
struct Reading {
  int value;
  std::vector<std::int64_t> dims;
  bool operator==(const Reading&) const = default;
};

/// The attributes of a fused node whose results have this shape and these element types.
Attributes fused_attributes(const ElementwiseProgram& program, const Shape& shape,
                            const std::vector<DType>& dtypes) {
  Attributes attributes = to_attributes(program);
  std::string names;
  for (DType dtype : dtypes) names += (names.empty() ? "" : " ") + std::string(name_of(dtype));
  attributes.set("shape", shape);
  attributes.set("dtypes", names);
  return attributes;
}

/// The fused node of a group of elementwise nodes (ascending, one iteration space); nothing if the
/// group is a single node that gains nothing. Constants become immediates; broadcasts in the same
/// region are read through.
class GroupFusion {
 public:
  GroupFusion(const SpmdProgram& program, const std::vector<bool>& taken,
              const std::vector<int>& group)
      : graph_(program.graph),
        group_(group),
        shape_(graph_.type(graph_.nodes[group[0]].results[0]).shape),
        taken_(taken) {}

  std::optional<Node> run(const std::vector<std::vector<int>>& readers) {
    for (int n : group_) wide_ |= is_wide(graph_.nodes[n]);
    for (int n : group_) add_member(graph_.nodes[n]);
    if (group_.size() == 1 && !simplified_) return std::nullopt;
    Node node = graph_.nodes[group_.back()];
    node.op = &ops::fused;
    node.name = name();
    node.operands.clear();
    node.results.clear();
    for (const Reading& reading : inputs_) node.operands.push_back(reading.value);
    std::vector<DType> dtypes;
    ElementwiseProgram program = registers();
    for (int n : group_) {
      const int value = graph_.nodes[n].results[0];
      if (!read_outside(value, readers)) continue;
      node.results.push_back(value);
      program.outputs.push_back(number(results_.at(value)));
      dtypes.push_back(graph_.type(value).dtype);
    }
    node.attributes = fused_attributes(program, shape_, dtypes);
    return node;
  }

 private:
  bool is_wide(const Node& node) const {
    const auto wide = [&](int value) { return needs_double(graph_.type(value).dtype); };
    return wide(node.results[0]) || std::any_of(node.operands.begin(), node.operands.end(), wide);
  }

  bool read_outside(int value, const std::vector<std::vector<int>>& readers) const {
    const auto inside = [&](int n) { return std::binary_search(group_.begin(), group_.end(), n); };
    return !std::all_of(readers[value].begin(), readers[value].end(), inside) || taken_[value];
  }

  void add_member(const Node& node) {
    const int code = elementwise_code(node);
    const auto op = static_cast<ElementwiseOp>(code);
    const DType dtype = graph_.type(node.results[0]).dtype;
    std::vector<Source> sources;
    for (int value : node.operands) sources.push_back(source_of(value, node.region));
    const bool same =
        op == ElementwiseOp::copy || (op == rounding_to(dtype) && is_computed_in(dtype));
    if (same && sources[0].kind == Source::Kind::step) {
      results_.insert_or_assign(node.results[0], sources[0]);
      return;
    }
    Source result = add_step(code, sources);
    if (!is_computed_in(dtype) && rounds(op) && op != rounding_to(dtype))
      result = add_step(static_cast<int>(rounding_to(dtype)), {result});
    results_.insert_or_assign(node.results[0], result);
  }

  bool is_computed_in(DType dtype) const { return dtype == (wide_ ? f64 : f32); }

  /// False for formulas whose results are whole small numbers: exact in every type.
  static bool rounds(ElementwiseOp op) {
    return !(op >= ElementwiseOp::eq && op <= ElementwiseOp::ge) && op != ElementwiseOp::step &&
           op != ElementwiseOp::sign;
  }

  Source add_step(int code, const std::vector<Source>& sources) {
    steps_.push_back({code, sources});
    return {Source::Kind::step, static_cast<int>(steps_.size()) - 1};
  }

  Source source_of(int value, Region region) {
    if (const auto made = results_.find(value); made != results_.end()) return made->second;
    std::vector<std::int64_t> dims(graph_.type(value).rank());
    std::iota(dims.begin(), dims.end(), static_cast<std::int64_t>(shape_.size() - dims.size()));
    // Through broadcasts, innermost last.
    while (graph_.producer(value).op == &ops::broadcast &&
           graph_.producer(value).region == region) {
      const Node& node = graph_.producer(value);
      std::vector<std::int64_t> through;
      for (std::int64_t d : node.attributes.integers("dims")) through.push_back(dims[d]);
      dims = std::move(through);
      value = node.operands[0];
      simplified_ = true;
    }
    if (graph_.producer(value).op == &ops::constant) {
      simplified_ = true;
      return constant(
          stored(graph_.producer(value).attributes.real("value"), graph_.type(value).dtype));
    }
    return input({value, std::move(dims)});
  }

  Source constant(double value) {
    auto at = std::find(constants_.begin(), constants_.end(), value);
    if (at == constants_.end()) at = constants_.insert(at, value);
    return {Source::Kind::constant, static_cast<int>(at - constants_.begin())};
  }

  Source input(Reading reading) {
    auto at = std::find(inputs_.begin(), inputs_.end(), reading);
    if (at == inputs_.end()) at = inputs_.insert(at, std::move(reading));
    return {Source::Kind::input, static_cast<int>(at - inputs_.begin())};
  }

  int number(const Source& source) const {
    const int inputs = static_cast<int>(inputs_.size()),
              constants = static_cast<int>(constants_.size());
    switch (source.kind) {
      case Source::Kind::input: return source.index;
      case Source::Kind::constant: return inputs + source.index;
      case Source::Kind::step: return inputs + constants + source.index;
    }
    bug("unknown source");
  }

  ElementwiseProgram registers() const {
    ElementwiseProgram program;
    program.num_inputs = static_cast<int>(inputs_.size());
    program.constants = constants_;
    for (const auto& [code, sources] : steps_) {
      const auto operand = [&, &sources = sources](std::size_t i) {
        return i < sources.size() ? number(sources[i]) : -1;
      };
      program.steps.push_back({code, operand(0), operand(1), operand(2)});
    }
    if (!aligned_at_last())
      for (const Reading& reading : inputs_)
        program.dims.insert(program.dims.end(), reading.dims.begin(), reading.dims.end());
    return program;
  }

  bool aligned_at_last() const {
    return std::all_of(inputs_.begin(), inputs_.end(), [&](const Reading& reading) {
      const std::int64_t first = static_cast<std::int64_t>(shape_.size() - reading.dims.size());
      for (std::size_t d = 0; d < reading.dims.size(); ++d)
        if (reading.dims[d] != first + static_cast<std::int64_t>(d)) return false;
      return true;
    });
  }

  std::string name() const {
    const auto name_of = [&](int n) { return graph_.nodes[n].name; };
    if (group_.size() == 1) return name_of(group_[0]);
    return name_of(group_.front()) +
           (group_.size() > 2 ? fmt::format("+{}+", group_.size() - 2) : "+") +
           name_of(group_.back());
  }

  const Graph& graph_;
  const std::vector<int>& group_;
  Shape shape_;
  bool wide_ = false, simplified_ = false;
  const std::vector<bool>& taken_;  ///< by value: updates, metrics and outputs read it
  std::vector<Reading> inputs_;
  std::vector<double> constants_;
  std::vector<std::pair<int, std::vector<Source>>> steps_;
  std::map<int, Source> results_;  ///< by value made in the group
};

}  // namespace

SpmdProgram fuse_elementwise(const SpmdProgram& program) {
  std::vector<Node> nodes = program.graph.nodes;
  const std::vector<std::vector<int>> readers = consumers(program.graph);
  const std::vector<bool> taken = externally_used_values(program.graph);
  for (const std::vector<int>& group : intra_op::fusion_groups(program.graph, &program.specs)) {
    std::optional<Node> fused = GroupFusion(program, taken, group).run(readers);
    if (!fused) continue;
    for (int member : group) nodes[member].op = nullptr;
    nodes[group.back()] = std::move(*fused);
  }
  return with_nodes(program, std::move(nodes));
}

}  // namespace alpa::spmd
