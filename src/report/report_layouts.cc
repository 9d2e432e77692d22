// src/report/report_layouts.cc — layouts, memory and communication of a stage in a report
#include <algorithm>
#include <map>
#include <numeric>

#include "plan_summary.h"
#include "report_parts.h"
#include "src/base/json.h"
#include "src/ir/op_def.h"

namespace alpa::page {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kMostPoints = 240, kMostCommunications = 15;
/// Results of operators with less of the step's FLOPs are not shown.
constexpr double kLeastShare = 1e-3;

/// "blocks.5" and "attention.query.kernel" of "blocks.5.attention.query.kernel"; "tokens" and
/// "table" of "tokens.table".
std::pair<std::string, std::string> layer_and_rest(const std::string& name) {
  std::size_t end = name.find_first_of("./");
  while (end != std::string::npos && end + 1 < name.size() && name[end] == '.' &&
         name[end + 1] >= '0' && name[end + 1] <= '9')
    end = name.find_first_of("./", end + 1);
  if (end == std::string::npos) return {name, name};
  return {name.substr(0, end), name.substr(end + 1)};
}

Json layout_json(const intra_op::PricedPlan& priced, int value) {
  const DeviceMesh& mesh = priced.plan.mesh;
  const ShardingSpec& spec = priced.plan.specs[value];
  const TensorType& type = priced.graph.type(value);
  Json dims = Json::array(), partial = Json::array();
  for (int d = 0; d < type.rank(); ++d) {
    Json axes = Json::array();
    for (int axis : spec.axes_of(d)) axes.push_back(mesh.axes()[axis].name);
    dims.push_back(std::move(axes));
  }
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (spec.axes[axis].kind == AxisPlacement::Kind::partial)
      partial.push_back(mesh.axes()[axis].name);
  return {{"type", to_string(type)},
          {"layout", describe(spec, type.rank(), mesh)},
          {"bytes", shard_bytes(type, spec, mesh)},
          {"split", std::move(dims)},
          {"partial", std::move(partial)}};
}

/// The tensors of a layer, in order.
struct Layer {
  std::string name;
  Json tensors = Json::array();
};

void add_tensor(std::vector<Layer>& layers, const std::string& name, const char* kind,
                Json layout) {
  const auto [layer, rest] = layer_and_rest(name);
  auto found = std::ranges::find(layers, layer, &Layer::name);
  if (found == layers.end()) found = layers.insert(layers.end(), {layer});
  layout["name"] = rest;
  layout["kind"] = kind;
  found->tensors.push_back(std::move(layout));
}

std::vector<Layer> layers_of(const intra_op::PricedPlan& priced) {
  const Graph& graph = priced.graph;
  double all = 0;
  std::vector<double> flops_of;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    all += flops_of.emplace_back(flops(priced.facts.classes.of(n).rule));
  std::vector<Layer> layers;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state && input.of.empty())
      add_tensor(layers, input.name, "parameter", layout_json(priced, input.value));
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.region != Region::forward || flops_of[n] < kLeastShare * all || node.results.empty())
      continue;
    add_tensor(layers, node.name, "result", layout_json(priced, node.results.front()));
  }
  return layers;
}

/// Adds to fields of `sum`, which are 0 before the first call.
void add_to_sums(Json& sum, int count, double bytes, double seconds) {
  sum["count"] = sum.value("count", 0) + count;
  sum["bytes"] = sum.value("bytes", 0.0) + bytes;
  sum["seconds"] = sum.value("seconds", 0.0) + seconds;
}

/// Communications that are alike in all layers count as one: those that take the most seconds.
Json largest_json(const intra_op::PricedPlan& priced, int stage) {
  std::map<std::string, Json> alike;
  for (const intra_op::Communication& of : intra_op::communications(priced)) {
    if (of.seconds <= 0) continue;
    Json one = {{"stage", stage},
                {"what", of.path},
                {"type", of.type},
                {"from", pattern_of(of.from)},
                {"for", pattern_of(of.target)},
                {"left", of.left},
                {"wanted", of.wanted}};
    Json& sum = alike.try_emplace(json_text(one), std::move(one)).first->second;
    add_to_sums(sum, of.runs, of.bytes, of.seconds);
  }
  std::vector<Json> sorted;
  for (auto& [key, sum] : alike) sorted.push_back(std::move(sum));
  std::ranges::stable_sort(sorted, [](const Json& a, const Json& b) {
    return a["seconds"].get<double>() > b["seconds"].get<double>();
  });
  if (sorted.size() > kMostCommunications) sorted.resize(kMostCommunications);
  return sorted;
}

/// Kinds of content that a value may hold; `kind_of` returns an index into them.
constexpr const char* kKinds[] = {"parameters", "optimizer", "accumulators", "activations",
                                  "temporaries"};
constexpr std::size_t kNumKinds = std::size(kKinds);

std::size_t kind_of(const Graph& graph, const intra_op::LiveBytes& live) {
  const Node& producer = graph.producer(live.value);
  if (const Input* input = find_input(graph, live.value); input && !live.is_copy) {
    if (input->kind == InputKind::state) return input->of.empty() ? 0 : 1;
    if (input->kind == InputKind::accumulator) return 2;
  }
  const auto last = static_cast<std::size_t>(std::max(0, live.points.to - 1));
  const bool read_later = last < graph.nodes.size() && graph.nodes[last].region == Region::backward;
  return producer.region == Region::forward && read_later ? 3 : 4;
}

}  // namespace

Json sharding_json(const intra_op::PricedPlan& priced, int stage) {
  Json json = Json::array();
  for (Layer& layer : layers_of(priced)) {
    if (!json.empty() && json.back()["tensors"] == layer.tensors &&
        pattern_of(json.back()["last"]) == pattern_of(layer.name)) {
      json.back()["last"] = layer.name;
      json.back()["count"] = json.back()["count"].get<int>() + 1;
    } else {
      json.push_back({{"stage", stage},
                      {"first", layer.name},
                      {"last", layer.name},
                      {"count", 1},
                      {"tensors", std::move(layer.tensors)}});
    }
  }
  return json;
}

Json memory_json(const intra_op::PricedPlan& priced, int in_flight) {
  const std::size_t points = priced.graph.nodes.size() + 1;
  const int apply = intra_op::first_apply(priced.graph);
  std::vector<std::array<double, kNumKinds>> live(points + 1);
  for (const intra_op::LiveBytes& of : intra_op::live_bytes(priced.plan, priced.facts)) {
    const bool kept = in_flight > 1 && of.is_kept;  // in places of each micro-batch's own
    const intra_op::LivePoints range = kept ? intra_op::LivePoints{0, apply} : of.points;
    const double bytes = static_cast<double>(of.bytes) * (kept ? in_flight : 1);
    const std::size_t kind = kept ? 3 : kind_of(priced.graph, of);
    live[range.from][kind] += bytes;
    live[range.to][kind] -= bytes;
  }
  for (std::size_t p = 1; p < points; ++p)
    for (std::size_t kind = 0; kind < kNumKinds; ++kind) live[p][kind] += live[p - 1][kind];
  const std::size_t stride = (points + kMostPoints - 1) / kMostPoints;
  Json series = Json::array();
  for (std::size_t begin = 0; begin < points; begin += stride) {
    const auto sum = [](const auto& kinds) {
      return std::accumulate(kinds.begin(), kinds.end(), 0.0);
    };
    const auto fullest =
        std::max_element(live.begin() + begin, live.begin() + std::min(begin + stride, points),
                         [&](const auto& a, const auto& b) { return sum(a) < sum(b); });
    series.push_back(*fullest);
  }
  return {{"kinds", kKinds}, {"points", std::move(series)}};
}

Json communication_json(const intra_op::PricedPlan& priced, int stage) {
  const ShardingPlan& plan = priced.plan;
  const std::vector<ShardingSpec> starts = intra_op::starts_of_reshards(plan, priced.facts);
  std::map<std::pair<std::string, std::string>, Json> sums;
  for (std::size_t r = 0; r < starts.size(); ++r) {
    const PlannedReshard& reshard = plan.reshards[r];
    const TensorType& type = priced.graph.type(reshard.value);
    const int runs = intra_op::runs_of(reshard, priced.graph);
    ShardingSpec spec = starts[r];
    for (const ReshardStep& step : reshard.path.steps) {
      const std::string axes = intra_op::axes_text(step, plan.mesh), kind(name_of(step.kind));
      Json& sum =
          sums.try_emplace({axes, kind}, Json{{"stage", stage}, {"axis", axes}, {"kind", kind}})
              .first->second;
      add_to_sums(sum, runs, runs * cost::step_sent_bytes(type, spec, step, plan.mesh),
                  runs * cost::step_seconds(type, spec, step, plan.mesh, priced.model.reshard));
      spec = step.to;
    }
  }
  Json kinds = Json::array();
  for (auto& [key, sum] : sums) kinds.push_back(std::move(sum));
  return {{"kinds", std::move(kinds)}, {"largest", largest_json(priced, stage)}};
}

}  // namespace alpa::page
