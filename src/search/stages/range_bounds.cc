// src/search/stages/range_bounds.cc — bounds of ranges of layers, found together on all cores
#include <algorithm>
#include <map>

#include "src/search/layers/layer_table.h"
#include "src/search/sharding/quick_bound.h"
#include "src/search/stages/range_costs.h"
#include "src/search/tuning.h"

namespace alpa {

bool RangeCosts::bound(const std::vector<RangeQuery>& queries) {
  std::vector<BoundOf> bounds;
  for (const RangeQuery& query : queries) append_bounds(query, bounds);
  find_together(bounds);
  bool any = false;
  for (const RangeQuery& query : queries) any |= bound(query);
  return any;
}

/// A plan of more micro-batches can run fewer of them, which are `times` as large, in no more than
/// so many times the seconds.
void RangeCosts::take_bounds(const RangeCosts& of_fewer) {
  const int times = graph_.num_micro_batches / of_fewer.graph_.num_micro_batches;
  if (times * of_fewer.graph_.num_micro_batches != graph_.num_micro_batches ||
      !ranges_.are_like(of_fewer.ranges_) || parts_ != of_fewer.parts_)
    return;
  for (int range = 0; range < ranges_.classes(); ++range) {
    const auto [first, last] = ranges_.example(range);
    const std::size_t at = of_fewer.ranges_.class_of(first, last) * meshes_.size();
    for (int mesh = 0; mesh < std::ssize(meshes_); ++mesh) {
      Known& own = known(range, mesh);
      const Known& other = of_fewer.known_[at + mesh];
      own.bound = std::max(own.bound, other.bound / times);
      own.level = std::max(own.level, std::min(other.level, Level::strategies));
    }
  }
  for (int mesh = 0; mesh < std::ssize(meshes_); ++mesh) {
    prices_[mesh].take(of_fewer.prices_[mesh], times);
    sum_prices(mesh);
  }
}

/// First, what strategies take at least on all meshes; then dual bounds on the best mesh of a part,
/// until it is the best with a dual bound.
void RangeCosts::bound_layers(double seconds) {
  std::map<int, int> layers;  // how often there is such a layer
  for (int layer = 0; layer < ranges_.layers(); ++layer) ++layers[ranges_.class_of(layer, layer)];
  std::erase_if(layers, [](const auto& of) { return of.second == 1; });
  for (const Level level : {Level::strategies, Level::dual})
    for (bool more = true; more && !time_.is_over();) {
      std::vector<BoundOf> bounds;
      for (const auto& [layer, times] : layers)
        for (int part = 0; part < std::ssize(parts_); ++part) {
          const RangeQuery query{layer, part};
          if (bound_of(query) >= seconds) continue;
          int mesh = first_mesh_[part], end = first_mesh_[part + 1];
          if (level == Level::dual) mesh = promising_mesh(query), end = mesh + 1;
          for (; mesh < end; ++mesh) append_unknown(ranges_.example(layer), 1, mesh, level, bounds);
        }
      find_together(bounds);
      more = false;
      for (const BoundOf& of : bounds) more |= bound_on(of.range, of.mesh, level);
    }
}

/// The bounds that the next step of this range asks for.
void RangeCosts::append_bounds(const RangeQuery& query, std::vector<BoundOf>& bounds) {
  if (!planned(query).plans.empty()) return;
  const inter_op::LayerRanges::Range range = ranges_.example(query.range);
  bool any = false;
  for (int mesh = first_mesh_[query.part]; mesh < first_mesh_[query.part + 1]; ++mesh)
    any |= append_unknown(range, 1, mesh, Level::strategies, bounds);
  if (any) return;
  const int mesh = promising_mesh(query);
  if (append_unknown(range, 1, mesh, Level::dual, bounds)) return;
  for (const BoundOf& of : priced_layers(query, mesh)) bounds.push_back(of), any = true;
  const int block = search::kTuning.range_costs.block, length = range.last - range.first + 1;
  if (length > block && is_bound_by_memory(query, mesh)) return;
  for (const int layers : {block, length})
    any = any || append_unknown(range, layers, mesh, Level::dual, bounds);
}

/// The layers of the range at the price that is to be found next; none: there is no such price.
std::vector<RangeCosts::BoundOf> RangeCosts::priced_layers(const RangeQuery& query, int mesh) {
  if (!recomputable_) return {};
  const std::optional<int> price = next_price(query, mesh);
  if (!price) return {};
  std::vector<BoundOf> layers = blocks_of(ranges_.example(query.range), 1, mesh, Level::dual);
  for (BoundOf& layer : layers) layer.price = *price;
  return layers;
}

/// False: there is no price left, or time is over.
bool RangeCosts::bound_priced(const RangeQuery& query, int mesh) {
  if (time_.is_over()) return false;
  int layer = ranges_.example(query.range).first;
  for (const BoundOf& of : priced_layers(query, mesh))
    prices_[mesh].set(of.price, layer++, relaxed_bound(of));
  sum_prices(mesh);
  return layer > ranges_.example(query.range).first;
}

/// Bounds of so many layers of the range at a time that are not known yet. False: there are none.
bool RangeCosts::append_unknown(inter_op::LayerRanges::Range range, int layers, int mesh,
                                Level level, std::vector<BoundOf>& bounds) {
  const std::size_t before = bounds.size();
  for (const BoundOf& of : blocks_of(range, layers, mesh, level))
    if (known(of.range, of.mesh).level < of.level) bounds.push_back(of);
  return bounds.size() > before;
}

/// For each mesh of the part, seconds of a step that the layers of the range take at least: most
/// meshes are dropped by these, and the layers of many ranges are the same.
std::vector<double> RangeCosts::mesh_bounds(const RangeQuery& query) {
  const inter_op::LayerRanges::Range range = ranges_.example(query.range);
  std::vector<BoundOf> layers;
  for (int mesh = first_mesh_[query.part]; mesh < first_mesh_[query.part + 1]; ++mesh)
    append_unknown(range, 1, mesh, Level::dual, layers);
  find_together(layers);
  std::vector<double> bounds;
  for (int mesh = first_mesh_[query.part]; mesh < first_mesh_[query.part + 1]; ++mesh) {
    bound_blocks(range, 1, mesh, Level::dual);
    bounds.push_back(known(query.range, mesh).bound * graph_.num_micro_batches);
  }
  return bounds;
}

/// So many layers of the range at a time.
std::vector<RangeCosts::BoundOf> RangeCosts::blocks_of(inter_op::LayerRanges::Range range,
                                                       int layers, int mesh, Level level) const {
  std::vector<BoundOf> blocks;
  for (int begin = range.first; begin <= range.last; begin += layers)
    blocks.push_back(
        {ranges_.class_of(begin, std::min(begin + layers - 1, range.last)), mesh, level});
  return blocks;
}

/// Finds those that are not known, as long as there is time, but at least one: on all cores, the
/// questions of each mesh one after the other, then the answers.
void RangeCosts::find_together(const std::vector<BoundOf>& bounds) {
  struct Unknown {
    double* answer;
    BoundOf of;
    const Relaxed* relaxed_range;
    std::function<double()> question = {};
  };
  std::map<intra_op::MeshFacts*, std::vector<Unknown>> by_mesh;  // equal meshes share them
  for (const BoundOf& of : bounds) {
    if (!by_mesh.empty() && time_.is_over()) break;
    const Relaxed& relaxed_range = relaxed(of.range);
    const auto [place, added] =
        relaxed_bounds_.try_emplace({relaxed_range.key, of.mesh, of.level, of.price});
    if (!added) continue;
    by_mesh[mesh_facts_[of.mesh]].push_back({&place->second, of, &relaxed_range});
    num_searches_ += of.level == Level::dual ? 1 : 0;
  }
  std::vector<std::vector<Unknown>*> meshes;
  std::vector<Unknown*> all;
  for (auto& [mesh, unknowns] : by_mesh) {
    meshes.push_back(&unknowns);
    for (Unknown& unknown : unknowns) all.push_back(&unknown);
  }
  parallel_work(team_, std::ssize(meshes), [&](std::int64_t at) {
    for (Unknown& unknown : *meshes[at])
      unknown.question = question_of(unknown.of, *unknown.relaxed_range);
  });
  parallel_work(team_, std::ssize(all), [&](std::int64_t at) {
    *all[at]->answer = all[at]->question() / graph_.num_micro_batches;
  });
}

bool RangeCosts::bound(const RangeQuery& query) {
  if (!planned(query).plans.empty()) return false;  // which has a bound of its own
  const inter_op::LayerRanges::Range range = ranges_.example(query.range);
  bool any = false;
  for (int mesh = first_mesh_[query.part]; mesh < first_mesh_[query.part + 1]; ++mesh)
    any |= bound_blocks(range, 1, mesh, Level::strategies);
  if (any) return true;
  const int mesh = promising_mesh(query);
  if (bound_blocks(range, 1, mesh, Level::dual)) return true;
  if (bound_priced(query, mesh)) return true;
  const int block = search::kTuning.range_costs.block;
  if (range.last - range.first >= block) {
    if (is_bound_by_memory(query, mesh)) return false;
    if (bound_blocks(range, block, mesh, Level::dual)) return true;
  }
  return bound_on(query.range, mesh, Level::dual);
}

/// Bounds so many layers of the range at a time. False: they were known, or time is over.
bool RangeCosts::bound_blocks(inter_op::LayerRanges::Range range, int layers, int mesh,
                              Level level) {
  bool any = false;
  double sum = 0;
  for (const BoundOf& block : blocks_of(range, layers, mesh, level)) {
    any |= bound_on(block.range, mesh, level);
    sum += known(block.range, mesh).bound;
  }
  double& bound = known(ranges_.class_of(range.first, range.last), mesh).bound;
  bound = std::max(bound, sum);
  return any;
}

bool RangeCosts::bound_on(int range, int mesh, Level level) {
  Known& of = known(range, mesh);
  if (of.level >= level || time_.is_over()) return false;
  of.level = level;
  of.bound = std::max(of.bound, relaxed_bound({range, mesh, level}));
  return true;
}

const RangeCosts::Relaxed& RangeCosts::relaxed(int range) {
  const auto [place, added] = relaxed_.try_emplace(range);
  Relaxed& of = place->second;
  if (!added) return of;
  of.range = ranges_.relaxed(ranges_.example(range));
  of.options = planning_.options;
  of.options.part.whole_boundary_inputs = false;
  of.options.allowed.batch_mesh_axis = {};  // only the whole graph tells the batch of a layer
  of.options.part.loops = &of.range.loops;
  of.key = intra_op::table_key({of.range.graph, {}, of.range.loops}, of.options);
  of.facts = std::make_shared<intra_op::GraphFacts>(of.range.graph, &planning_.cache.rules,
                                                    &of.range.loops);
  return of;
}

/// Lower bound on the seconds of a micro-batch for ranges of this class on the mesh, alone or
/// inside a longer range.
double RangeCosts::relaxed_bound(const BoundOf& of) {
  find_together({of});
  return relaxed_bounds_.at({relaxed(of.range).key, of.mesh, of.level, of.price});
}

/// Adds to the facts of its mesh.
std::function<double()> RangeCosts::question_of(const BoundOf& of, const Relaxed& relaxed) const {
  intra_op::BytePrice price{.budget = budget_};
  if (of.price != BytePrices::kFree)
    price.seconds =
        BytePrices::seconds_of(of.price) * graph_.num_micro_batches / static_cast<double>(budget_);
  return intra_op::quick_bound(relaxed.facts, relaxed.options, *mesh_facts_[of.mesh],
                               of.level == Level::strategies, price);
}

}  // namespace alpa
