// src/plan/cost/reshard.cc — cheapest sequences of collectives between layouts
#include "src/plan/cost/reshard.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>

#include "src/base/infinity.h"
#include "src/plan/cost/spec_graph.h"

namespace alpa::cost {
namespace {

/// Best known way to one spec.
struct Label {
  double seconds = kInfinity;
  int steps = 0;
  int move = -1;  ///< the last one; -1 at the source and where unreached
};

/// Dijkstra from one spec. Among equally cheap ways the one with the fewest steps wins, then the
/// one whose last step comes first in the order of CollectiveKind, axes and dimensions; so the
/// answer does not depend on the order of the search. Reductions run over axes that are partial in
/// the source alone, so that partial specs lead to no other: the answer does not depend on which of
/// them the graph holds either.
class Search {
 public:
  explicit Search(const SpecGraph& graph) : graph_(graph), labels_(graph.list.specs.size()) {
    queue_.reserve(graph.moves.size());
  }

  void run(int source) {
    std::fill(labels_.begin(), labels_.end(), Label{});
    labels_[source] = {.seconds = 0};
    combiners_ = graph_.list.partials[source];
    partial_axes_ = partial_axes(graph_.list.specs[source]);
    queue_.assign(1, {0, 0, source});
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
      const auto [seconds, steps, spec] = queue_.back();
      queue_.pop_back();
      if (labels_[spec].seconds == seconds && labels_[spec].steps == steps) relax_from(spec);
    }
  }

  const Label& label(int spec) const { return labels_[spec]; }

 private:
  static std::uint32_t partial_axes(const ShardingSpec& spec) {
    std::uint32_t axes = 0;
    for (int axis = 0; axis < kMaxMeshAxes; ++axis)
      axes |= static_cast<std::uint32_t>(spec.axes[axis].kind == AxisPlacement::Kind::partial)
              << axis;
    return axes;
  }

  bool allowed(const Move& move) const {
    if (reduces(move.kind) && (move.axes & ~partial_axes_)) return false;
    // never from one combiner to another
    return !combiners_ || !(graph_.list.partials[move.to] & ~combiners_);
  }

  void relax_from(int spec) {
    for (int m = graph_.first_move[spec]; m < graph_.first_move[spec + 1]; ++m) {
      const Move& move = graph_.moves[m];
      if (!allowed(move)) continue;
      const Label way{labels_[spec].seconds + move.seconds, labels_[spec].steps + 1, m};
      Label& best = labels_[move.to];
      const bool shorter = std::tie(way.seconds, way.steps) < std::tie(best.seconds, best.steps);
      if (!shorter && !ties_in_favour(way, best)) continue;
      best = way;
      if (!shorter) continue;
      queue_.emplace_back(way.seconds, way.steps, move.to);
      std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
    }
  }

  bool ties_in_favour(const Label& way, const Label& best) const {
    if (best.move < 0 || way.seconds != best.seconds || way.steps != best.steps) return false;
    const Move &a = graph_.moves[way.move], &b = graph_.moves[best.move];
    return std::tie(a.kind, a.axes, a.dim, a.from_dim, a.from) <
           std::tie(b.kind, b.axes, b.dim, b.from_dim, b.from);
  }

  const SpecGraph& graph_;
  std::vector<Label> labels_;
  std::uint32_t combiners_ = 0, partial_axes_ = 0;   ///< of the source
  std::vector<std::tuple<double, int, int>> queue_;  ///< heap of (seconds, steps, spec)
};

ReshardStep step_of(const Move& move, const SpecGraph& graph) {
  ReshardStep step{.kind = move.kind,
                   .axes = {},
                   .dim = move.dim,
                   .from_dim = move.from_dim,
                   .to = graph.list.specs[move.to],
                   .seconds = move.seconds};
  for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
    if (move.axes >> axis & 1) step.axes.push_back(axis);
  }
  return step;
}

/// nullopt if the search has not reached `spec`.
std::optional<ReshardPath> path_to(int spec, int source, const Search& search,
                                   const SpecGraph& graph) {
  ReshardPath path{.steps = {}, .seconds = search.label(spec).seconds};
  if (path.seconds == kInfinity) return std::nullopt;
  for (; spec != source; spec = graph.moves[search.label(spec).move].from)
    path.steps.push_back(step_of(graph.moves[search.label(spec).move], graph));
  std::reverse(path.steps.begin(), path.steps.end());
  return path;
}

}  // namespace

std::vector<ShardingSpec> all_specs(const TensorType& type, const DeviceMesh& mesh,
                                    std::uint32_t partials) {
  return enumerate_specs(type, mesh, {.partials = partials, .unit_axes = 0}).specs;
}

std::optional<ReshardPath> find_reshard(const TensorType& type, const ShardingSpec& from,
                                        const ShardingSpec& to, const DeviceMesh& mesh,
                                        const ReshardModel& model) {
  return ReshardPrices(mesh, model).path(type, from, to);
}

/// The specs of one type, and the search results from each as a source.
struct ReshardPrices::OfType {
  SpecLimits limits;
  SpecGraph graph;
  std::vector<std::vector<double>> seconds;  ///< per source to every spec; empty: not asked yet
  std::map<std::pair<int, int>, std::optional<ReshardPath>> paths;
};

struct ReshardPrices::Types : std::unordered_map<TensorType, OfType> {};

ReshardPrices::ReshardPrices(const DeviceMesh& mesh, const ReshardModel& model)
    : mesh_(mesh), model_(model), types_(std::make_unique<Types>()) {}
ReshardPrices::~ReshardPrices() = default;

ReshardPrices::OfType& ReshardPrices::of(const TensorType& type, std::span<const ShardingSpec> from,
                                         std::span<const ShardingSpec> to) {
  const auto [place, added] = types_->try_emplace(type);
  OfType& known = place->second;
  const SpecLimits limits =
      limits_for(type, to, mesh_, limits_for(type, from, mesh_, known.limits));
  if (added || limits != known.limits) {
    SpecGraph graph = spec_graph(type, limits, mesh_, model_);
    const std::size_t specs = graph.list.specs.size();
    known = {limits, std::move(graph), std::vector<std::vector<double>>(specs), {}};
  }
  return known;
}

std::vector<double> ReshardPrices::seconds(const TensorType& type,
                                           const std::vector<ShardingSpec>& from,
                                           const std::vector<ShardingSpec>& to) {
  OfType& known = of(type, from, to);
  std::vector<int> targets;
  targets.reserve(to.size());
  for (const ShardingSpec& spec : to) targets.push_back(known.graph.index(spec));
  std::optional<Search> search;
  std::vector<double> result;
  result.reserve(from.size() * to.size());
  for (const ShardingSpec& spec : from) {
    const int source = known.graph.index(spec);
    std::vector<double>& row = known.seconds[source];
    if (row.empty()) {
      if (!search) search.emplace(known.graph);
      search->run(source);
      ++searches_;
      for (int s = 0; s < static_cast<int>(known.seconds.size()); ++s)
        row.push_back(search->label(s).seconds);
    }
    for (int target : targets) result.push_back(row[target]);
  }
  return result;
}

const std::optional<ReshardPath>& ReshardPrices::path(const TensorType& type,
                                                      const ShardingSpec& from,
                                                      const ShardingSpec& to) {
  OfType& known = of(type, {&from, 1}, {&to, 1});
  const int source = known.graph.index(from), target = known.graph.index(to);
  const auto [place, added] = known.paths.try_emplace({source, target});
  if (!added) return place->second;
  Search search(known.graph);
  search.run(source);
  ++searches_;
  return place->second = path_to(target, source, search, known.graph);
}

}  // namespace alpa::cost
