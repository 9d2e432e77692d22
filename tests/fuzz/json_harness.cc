// Plans, clusters and contest problems.
#include <alpa/alpa.h>
#include "src/base/file.h"
#include "tools/contest/contest.h"

#include <fstream>
#include <iterator>

#include "fuzz/harness.h"
#include "fuzz/small_graph.h"
#include "src/plan/cost/cost_model.h"
#include "src/spmd/program.h"
#include "support/gzip.h"

namespace alpa::fuzz {
namespace {

TrainingStep small_step(const Optimizer& optimizer = optim::Sgd{}) {
  const nn::Dense first(6), last(4, {.bias = false});
  const auto model = [=](const Batch& b) {
    return nn::mean_squared_error(last(relu(first(b["x"]))), b["y"]);
  };
  return training_step({{"x", {f32, {8, 6}}}, {"y", {f32, {8, 4}}}}, model, optimizer);
}

/// What a problem says of a few choices: enough to see that two problems are the same.
std::string described(const ilp::Contest& contest) {
  std::string text =
      fmt::format("{} {}", contest.num_nodes, contest.problem.usage_limit.value_or(-1));
  for (int shift : {0, 1, 7}) {
    std::vector<int> choice;
    for (const ilp::Node& node : contest.problem.nodes)
      choice.push_back(static_cast<int>((choice.size() + shift) % node.costs.size()));
    const ilp::Evaluation value = evaluate(contest.problem, choice);
    text += fmt::format("; {} {} {}", value.cost, value.peak_usage, value.feasible);
  }
  return text;
}

void check_contest(const std::string& text) {
  std::string before;
  if (accepts([&] { before = described(ilp::parse_contest(text, "problem.json")); }))
    expect_same(before, described(ilp::parse_contest(text, "problem.json")));
}

}  // namespace

Graph small_graph() {
  static const Graph graph = small_step().trace(1);
  return graph;
}

Graph adam_graph() { return small_step(optim::Adam{}).trace(2); }

int fuzz_plan(const std::uint8_t* data, std::size_t size) {
  const Graph graph = small_graph();
  std::string printed;
  const bool accepted = accepts([&] {
    const ShardingPlan plan = plan_from_json(input_text(data, size), graph, "plan.json");
    printed = to_json(plan, graph);
    verify(spmd::partition(graph, plan));
  });
  if (accepted) expect_same(printed, to_json(plan_from_json(printed, graph, "plan.json"), graph));
  accepts([&] {  // as `alpa explain` does, with the graph of the file
    const Graph own = graph_from_plan_json(input_text(data, size), "plan.json");
    explain(plan_from_json(input_text(data, size), own, "plan.json"), own, cost::CostModel{},
            Detail::full);
  });
  return 0;
}

std::vector<std::string> plan_seeds() {
  std::vector<std::string> seeds;
  const Method methods[] = {DataParallel{}, Zero3Parallel{}, ShardParallel{.mesh_shape = {2, 2}},
                            Serial{}};
  for (const Method& method : methods)
    seeds.push_back(
        to_json(plan_only(small_step(), method, Cluster::local(4)).plan.sharding(), small_graph()));
  return seeds;
}

int fuzz_cluster(const std::uint8_t* data, std::size_t size) {
  std::string printed;
  if (accepts(
          [&] { printed = Cluster::from_json(input_text(data, size), "cluster.json").to_json(); }))
    expect_same(printed, Cluster::from_json(printed, "cluster.json").to_json());
  return 0;
}

std::vector<std::string> cluster_seeds() {
  Cluster two = Cluster::local(4);
  two.num_hosts = 2;
  two.between_hosts = {1e-5, 1e-10};
  two.device.flops_per_second = {{f32, 1e13}, {bf16, 1e14}};
  return {Cluster::local(2).to_json(), two.to_json(),
          R"({"num_hosts": 1, "devices_per_host": 2, "device":
{"memory_bytes": 1e9, "flops_per_second": {"f32": 1}, "memory_bytes_per_second": 1e9}, "description": "x",
"within_host": {"alpha_seconds": 1e-6, "bytes_per_second": 1e10}})"};
}

int fuzz_contest(const std::uint8_t* data, std::size_t size) {
  check_contest(input_text(data, size));
  return 0;
}

std::vector<std::string> contest_seeds() {
  std::ifstream file(ALPA_SOURCE_DIR "/tests/ilp/data/example.json");
  return {std::string(std::istreambuf_iterator<char>(file), {}),
          R"({"problem": {"nodes": {"intervals": [[0, 2], [1, 3],
[2, 2]], "costs": [[1, 2], [3, 1000000000000000000], [0, 5, 6]], "usages": [[1, 2], [3, 4], [0, 0, 0]]}, "edges":
{"nodes": [[0, 1], [1], [0, 1, 2]], "costs": [[0, 1, 2, 3], [7, 8], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]]},
"usage_limit": 5}})"};
}

int fuzz_contest_gz(const std::uint8_t* data, std::size_t size) {
  constexpr FileKind kFile{"", 1 << 24};
  std::string text;
  if (accepts([&] { text = unpack(input_text(data, size), "problem.json.gz", kFile); }))
    check_contest(text);
  return 0;
}

std::vector<std::string> contest_gz_seeds() {
  std::vector<std::string> seeds;
  for (const std::string& seed : contest_seeds()) seeds.push_back(testing::gzipped(seed));
  seeds.push_back(seeds[0] + testing::gzipped(" "));
  seeds.push_back(testing::gzipped(std::string(1 << 22, ' ')));
  return seeds;
}

}  // namespace alpa::fuzz
