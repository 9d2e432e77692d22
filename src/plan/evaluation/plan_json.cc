// Reads and writes plans as JSON
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/plan/sharding_plan.h"
#include "src/base/json.h"
#include "src/ops/custom_ops.h"
#include "src/plan/evaluation/plan_file.h"

namespace alpa {
namespace {

using Json = nlohmann::ordered_json;  // as it is written
using Place = JsonPlace;

constexpr const char* kSchema = "alpa.plan/1";

constexpr UseKind kUseKinds[] = {UseKind::node, UseKind::update, UseKind::metric, UseKind::output};

// A file numbers uses: nodes, then updates, metrics and outputs.

int number_of(UseId use, const Graph& graph) {
  for (UseKind kind : kUseKinds)
    if (kind < use.kind) use.index += intra_op::count_of(graph, kind);
  return use.index;
}

Json lines_of(const std::string& text) {
  Json lines = Json::array();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end == text.npos ? text.size() : end + 1;
  }
  return lines;
}

Json json_of(const DeviceMesh& mesh) {
  Json axes = Json::array();
  for (const MeshAxis& axis : mesh.axes()) {
    axes.push_back({{"name", axis.name},
                    {"size", axis.size},
                    {"alpha_seconds", axis.alpha_seconds},
                    {"beta_seconds_per_byte", axis.beta_seconds_per_byte}});
  }
  return {{"axes", std::move(axes)}, {"devices", mesh.devices()}};
}

Json json_of(const ReshardStep& step) {
  Json json = {{"kind", name_of(step.kind)}, {"axes", step.axes}};
  if (step.from_dim >= 0) json["from_dim"] = step.from_dim;
  if (step.dim >= 0) json["dim"] = step.dim;
  json["to"] = to_string(step.to);
  json["seconds"] = step.seconds;
  return json;
}

Json json_of(const PlannedReshard& reshard, const Graph& graph) {
  Json steps = Json::array();
  for (const ReshardStep& step : reshard.path.steps) steps.push_back(json_of(step));
  Json uses = Json::array();
  for (UseId use : reshard.uses) uses.push_back(number_of(use, graph));
  Json json = {{"value", reshard.value}, {"uses", std::move(uses)}, {"steps", std::move(steps)}};
  if (reshard.once) json["once"] = true;
  return json;
}

/// An object of these fields of `of`.
template <class Fields, class Of>
Json json_of(const Fields& fields, const Of& of) {
  Json json;
  for (const auto& [name, field] : fields) json[name] = of.*field;
  return json;
}

Json json_of(const std::vector<RecomputedLayer>& layers) {
  Json list = Json::array();
  for (const RecomputedLayer& layer : layers)
    list.push_back({{"layer", layer.number},
                    {"nodes", layer.nodes},
                    {"seconds", layer.seconds},
                    {"bytes", layer.bytes}});
  return list;
}

std::vector<RecomputedLayer> read_recomputed(const Place& place) {
  std::vector<RecomputedLayer> layers;
  for (const Place& layer : place.items())
    layers.push_back({layer.at("layer").integer(), layer.at("nodes").text(),
                      layer.at("seconds").number(),
                      static_cast<std::int64_t>(std::clamp(layer.at("bytes").number(), 0.0,
                                                           static_cast<double>(kMaxGraphBytes)))});
  return layers;
}

DeviceMesh read_mesh(const Place& place) {
  std::vector<MeshAxis> axes;
  for (const Place& axis : place.at("axes").items()) {
    axes.push_back({axis.at("name").text(), axis.at("size").integer(),
                    axis.at("alpha_seconds").number(), axis.at("beta_seconds_per_byte").number()});
  }
  const Place devices = place.at("devices");
  return place.checked([&] { return DeviceMesh(std::move(axes), devices.integers()); });
}

CollectiveKind read_kind(const Place& place) {
  for (const CollectiveDef& def : kCollectives) {
    if (place.text() == def.name) return def.kind;
  }
  place.bad("all_reduce, reduce_scatter, all_gather, all_to_all, slice or to_partial");
}

ReshardStep read_step(const Place& place) {
  ReshardStep step{.kind = read_kind(place.at("kind")),
                   .axes = place.at("axes").integers(),
                   .dim = place.contains("dim") ? place.at("dim").integer() : -1,
                   .from_dim = place.contains("from_dim") ? place.at("from_dim").integer() : -1,
                   .to = place.at("to").parsed(parse_spec),
                   .seconds = place.at("seconds").number()};
  return step;
}

/// Uses ascend; that is checked with the plan.
UseId read_use(const Place& place, const Graph& graph) {
  int number = place.integer(), all = 0;
  for (UseKind kind : kUseKinds) {
    const int count = intra_op::count_of(graph, kind);
    if (number >= 0 && number < count) return {kind, number};
    number -= count;
    all += count;
  }
  place.refuse(fmt::format("found {}; uses ascend from 0 to {}", place.integer(), all - 1));
}

PlannedReshard read_reshard(const Place& place, const Graph& graph) {
  PlannedReshard reshard;
  reshard.value = place.at("value").integer();
  for (const Place& use : place.at("uses").items()) reshard.uses.push_back(read_use(use, graph));
  for (const Place& step : place.at("steps").items()) {
    reshard.path.steps.push_back(read_step(step));
    reshard.path.seconds += reshard.path.steps.back().seconds;
  }
  reshard.once = place.contains("once") && place.at("once").boolean();
  return reshard;
}

void check_header(const Place& file, const Graph& graph) {
  const std::string schema = file.at("schema").text();
  require(schema == kSchema, "{}: schema \"{}\"; this version reads \"{}\"; plan again",
          file.origin(), excerpt(schema), kSchema);
  intra_op::check_graph(file, graph);
}

}  // namespace

std::string intra_op::hash_text(const Graph& graph) {
  return fmt::format("{:016x}", structural_hash(graph));
}

void intra_op::check_graph(const Place& file, const Graph& graph) {
  const std::string hash = file.at("graph").text();
  require(hash == hash_text(graph),
          "{}: it was made for the graph {} but this one is {}; "
          "model, batch, optimizer or number of micro-batches differ, so plan again",
          file.origin(), excerpt(hash), hash_text(graph));
}

Json intra_op::plan_json(const ShardingPlan& plan, const Graph& graph) {
  verify(plan, graph);
  Json nodes = Json::array(), specs = Json::array(), reshards = Json::array();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    nodes.push_back({{"name", graph.nodes[n].name}, {"strategy", to_string(plan.strategies[n])}});
  for (const ShardingSpec& spec : plan.specs) specs.push_back(to_string(spec));
  for (const PlannedReshard& reshard : plan.reshards) reshards.push_back(json_of(reshard, graph));
  Json file = {{"schema", kSchema},
               {"graph", intra_op::hash_text(graph)},
               {"method", plan.method},
               {"mesh", json_of(plan.mesh)},
               {"cost", json_of(intra_op::kCostFields, plan.cost)},
               {"statistics", json_of(intra_op::kStatisticsFields, plan.statistics)},
               {"nodes", std::move(nodes)},
               {"specs", std::move(specs)},
               {"reshards", std::move(reshards)}};
  if (!plan.recomputed.empty()) file["recomputed"] = json_of(plan.recomputed);
  file["graph_text"] = lines_of(to_string(graph));
  return file;
}

std::string to_json(const ShardingPlan& plan, const Graph& graph) {
  return json_text(intra_op::plan_json(plan, graph), 1) + "\n";
}

Graph graph_from_plan_json(const std::string& text, const std::string& origin) {
  const std::string title = "plan " + origin;
  const nlohmann::json json = parse_json(text, title);
  const Place file(json, title);
  std::string graph_text;
  for (const Place& line : file.at("graph_text").items()) graph_text += line.text() + "\n";
  Graph graph = file.at("graph_text").checked([&] { return parse_graph(graph_text, known_ops()); });
  check_header(file, graph);
  return graph;
}

ShardingPlan plan_from_json(const std::string& text, const Graph& graph,
                            const std::string& origin) {
  const std::string title = "plan " + origin;
  const nlohmann::json json = parse_json(text, title);
  const Place file(json, title);
  check_header(file, graph);
  ShardingPlan plan;
  plan.method = file.at("method").text();
  plan.mesh = read_mesh(file.at("mesh"));
  for (const auto& [name, field] : intra_op::kCostFields)
    plan.cost.*field = file.at("cost").at(name).number();
  for (const auto& [name, field] : intra_op::kStatisticsFields)
    plan.statistics.*field = file.at("statistics").at(name).integer();
  for (const Place& node : file.at("nodes").items())
    plan.strategies.push_back(node.at("strategy").parsed(parse_strategy));
  for (const Place& spec : file.at("specs").items()) plan.specs.push_back(spec.parsed(parse_spec));
  for (const Place& reshard : file.at("reshards").items())
    plan.reshards.push_back(read_reshard(reshard, graph));
  if (file.contains("recomputed")) plan.recomputed = read_recomputed(file.at("recomputed"));
  verify(plan, graph, title);
  return plan;
}

}  // namespace alpa
