// tools/reduced_extents.cc — follows extents through the rules of all operators, and shrinks them
#include "tools/reduced_extents.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/rule.h"
#include "src/plan/facts/strategy.h"

namespace tools {

using namespace alpa;

namespace {

constexpr std::int64_t kPerPart = 2;
/// Elements, at least: norms over two would leave no gradients.
constexpr std::int64_t kLeast = 6;
constexpr int kMaxDepth = 16;

/// Which extents change.
enum class Reduce : std::uint8_t { all, batch };

/// Factors of the rules of all nodes of all stages, those of equal extents in one class.
class Extents {
 public:
  explicit Extents(const std::vector<StagePlan>& stages) : stages_(stages) {
    for (int s = 0; s < static_cast<int>(stages.size()); ++s) add_stage(s);
    for (int s = 0; s < static_cast<int>(stages.size()); ++s) equate_stage(s);
    equate_between_stages();
    equate_compounds();
    for (int s = 0; s < static_cast<int>(stages.size()); ++s) note_splits(s);
    for (const auto& [whole, parts] : compounds_) {
      split(parts.front(), parts_[root(whole)]);  // the major one is split
      for (const int part : parts) fixed_[root(part)] = fixed_[root(part)] || fixed_[root(whole)];
    }
  }

  /// The graph of a stage with smaller extents.
  Graph reduced(int s, Reduce reduce) {
    if (reduce == Reduce::batch) fix_all_but_batch();
    Graph graph = stages_[s].graph;
    for (int v = 0; v < static_cast<int>(graph.values.size()); ++v) {
      const std::vector<std::vector<int>> dims = dims_of(s, v);
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (!dims[d].empty()) graph.values[v].type.shape[d] = product(dims[d]);
    }
    for (Node& node : graph.nodes) set_extents(node, graph);
    return graph;
  }

 private:
  using List = std::vector<int>;  ///< factors of a dimension, by number among all

  void add_stage(int s) {
    rules_.emplace_back();
    first_.emplace_back();
    for (const Node& node : stages_[s].graph.nodes) {
      rules_.back().push_back(rule_of(stages_[s].graph, node));
      first_.back().push_back(static_cast<int>(sizes_.size()));
      for (const Factor& factor : rules_.back().back().factors) {
        parent_.push_back(static_cast<int>(parent_.size()));
        sizes_.push_back(factor.size);
        parts_.push_back(1);
        fixed_.push_back(false);
      }
    }
  }

  List numbered(int s, int node, const std::vector<int>& factors) const {
    List list;
    for (const int factor : factors) list.push_back(first_[s][node] + factor);
    return list;
  }

  std::vector<List> dims_of(int s, int value) const {
    const ValueInfo& info = stages_[s].graph.values[value];
    std::vector<List> dims;
    for (const std::vector<int>& factors : rules_[s][info.producer].results[info.index])
      dims.push_back(numbered(s, info.producer, factors));
    return dims;
  }

  void equate_stage(int s) {
    const Graph& graph = stages_[s].graph;
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
      for (std::size_t j = 0; j < graph.nodes[n].operands.size(); ++j) {
        std::vector<List> wanted;
        for (const std::vector<int>& factors : rules_[s][n].operands[j])
          wanted.push_back(numbered(s, n, factors));
        equate(dims_of(s, graph.nodes[n].operands[j]), wanted);
      }
    for (const Update& update : graph.updates)
      equate(dims_of(s, update.input), dims_of(s, update.value));
  }

  void equate_between_stages() {
    std::map<std::string, std::vector<List>> given;
    for (int s = 0; s < static_cast<int>(stages_.size()); ++s)
      for (const Output& output : stages_[s].graph.outputs)
        given[output.name] = dims_of(s, output.value);
    for (int s = 0; s < static_cast<int>(stages_.size()); ++s)
      for (const Input& input : stages_[s].graph.inputs)
        if (input.kind == InputKind::boundary)
          equate(given.at(input.name), dims_of(s, input.value));
  }

  void equate(const std::vector<List>& a, const std::vector<List>& b) {
    invariant(a.size() == b.size(), "dimensions of one tensor: {} and {}", a.size(), b.size());
    for (std::size_t d = 0; d < a.size(); ++d) equate(a[d], b[d]);
  }

  /// One dimension in two views: the same factors, or one factor that is several in the other.
  void equate(const List& a, const List& b) {
    const bool same =
        std::ranges::equal(a, b, [&](int x, int y) { return sizes_[x] == sizes_[y]; });
    if (same)
      for (std::size_t i = 0; i < a.size(); ++i) unite(a[i], b[i]);
    else if (a.size() == 1 && b.size() > 1)
      compounds_.emplace_back(a.front(), b);
    else if (b.size() == 1 && a.size() > 1)
      compounds_.emplace_back(b.front(), a);
    else
      for (const List* list : {&a, &b})
        for (const int factor : *list) fixed_[root(factor)] = true;
  }

  /// Several views of one factor have the same parts.
  void equate_compounds() {
    for (std::size_t before = 0; before != united_;) {
      before = united_;
      std::map<int, List> parts;
      const auto known_now = compounds_;  // comparing two may add one
      for (const auto& [whole, list] : known_now) {
        const auto [known, is_new] = parts.emplace(root(whole), list);
        if (!is_new) equate(known->second, list);
      }
    }
  }

  int root(int factor) const {
    while (parent_[factor] != factor) factor = parent_[factor];
    return factor;
  }

  void unite(int a, int b) {
    a = root(a), b = root(b);
    if (a == b) return;
    parent_[b] = a;
    fixed_[a] = fixed_[a] || fixed_[b];
    ++united_;
  }

  void split(int factor, std::int64_t parts) {
    std::int64_t& known = parts_[root(factor)];
    known = std::lcm(known, parts);
  }

  void note_splits(int s) {
    const ShardingPlan& plan = stages_[s].plan;
    for (std::size_t n = 0; n < plan.strategies.size(); ++n) {
      std::map<int, std::int64_t> parts;
      for (int axis = 0; axis < plan.mesh.num_axes(); ++axis)
        if (const AxisRole& role = plan.strategies[n].axes[axis];
            role.kind == AxisRole::Kind::factor)
          parts.try_emplace(role.index, 1).first->second *= plan.mesh.size(axis);
      for (const auto& [factor, count] : parts) split(first_[s][n] + factor, count);
    }
  }

  void fix_all_but_batch() {
    std::vector<bool> is_batch(parent_.size(), false);
    for (int s = 0; s < static_cast<int>(stages_.size()); ++s)
      for (const Input& input : stages_[s].graph.inputs) {
        if (input.kind != InputKind::batch) continue;
        const std::vector<List> dims = dims_of(s, input.value);
        for (const int factor : dims.front()) is_batch[root(factor)] = true;
      }
    for (std::size_t f = 0; f < parent_.size(); ++f)
      if (parent_[f] == static_cast<int>(f)) fixed_[f] = fixed_[f] || !is_batch[f];
  }

  std::int64_t product(const List& factors, int depth = 0) const {
    std::int64_t size = 1;
    for (const int factor : factors) size *= size_of(factor, depth);
    return size;
  }

  /// That of its parts, or so many elements per part of the plan and the rest of uneven ones.
  std::int64_t size_of(int factor, int depth) const {
    require(depth < kMaxDepth, "an extent is a part of itself");
    const int own = root(factor);
    for (const auto& [whole, parts] : compounds_)
      if (root(whole) == own) return product(parts, depth + 1);
    const std::int64_t size = sizes_[own], parts = parts_[own];
    const std::int64_t per_part = std::max(kPerPart, (kLeast + parts - 1) / parts);
    return fixed_[own] ? size : std::min(size, per_part * parts + size % parts);
  }

  /// Attributes that are extents of the result.
  static void set_extents(Node& node, const Graph& graph) {
    const Shape& shape = graph.type(node.results[0]).shape;
    const auto has = [&](const char* name) { return node.attributes.contains(name); };
    if (has("shape")) node.attributes.set("shape", shape);
    if (has("rows")) node.attributes.set("rows", shape.front());
    if (has("extent") && has("axis"))
      node.attributes.set("extent",
                          shape[static_cast<std::size_t>(node.attributes.integer("axis"))]);
  }

  const std::vector<StagePlan>& stages_;
  std::vector<std::vector<Rule>> rules_;  ///< by stage and node
  std::vector<std::vector<int>> first_;   ///< number of the first factor, by stage and node
  // by factor, the latter three of the first of a class
  std::vector<int> parent_;
  std::vector<std::int64_t> sizes_, parts_;
  std::vector<bool> fixed_;
  std::size_t united_ = 0;
  std::vector<std::pair<int, List>> compounds_;
};

/// Nothing if an operator does not allow these extents.
std::optional<std::vector<StagePlan>> tried(const std::vector<StagePlan>& stages, Reduce reduce) {
  std::vector<StagePlan> result = stages;
  try {
    Extents extents(stages);
    for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
      result[s].graph = extents.reduced(s, reduce);
      verify(result[s].graph);
      verify(result[s].plan, result[s].graph);
    }
  } catch (const Error&) {
    return std::nullopt;
  } catch (const Bug&) {  // a type is not that of the operator's rule
    return std::nullopt;
  }
  return result;
}

}  // namespace

std::vector<StagePlan> with_reduced_extents(const std::vector<StagePlan>& stages) {
  if (auto all = tried(stages, Reduce::all)) return *std::move(all);
  if (auto batch = tried(stages, Reduce::batch)) return *std::move(batch);
  return stages;
}

}  // namespace tools
