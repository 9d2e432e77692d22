// Layer clustering: published examples, every cut by brute force, and the layers of traced models.
#include "src/search/stages/cluster_layers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <tuple>

#include "src/ir/op_def.h"
#include "support/error_text.h"
#include "support/gpt_stack.h"
#include "support/mlp_step.h"

namespace cluster_layers_test {

using namespace alpa;
using namespace alpa::testing;
using inter_op::cluster;
using inter_op::Clustering;
using inter_op::ForwardOperator;

namespace {

/// Operator n reads only the result of operator n - 1.
std::vector<ForwardOperator> chain(int size, const auto& operator_at) {
  std::vector<ForwardOperator> operators;
  for (int n = 0; n < size; ++n) {
    operators.push_back(operator_at(n));
    if (n > 0) operators.back().read = {n - 1};
  }
  return operators;
}

std::vector<ForwardOperator> equal_operators(int size) {
  return chain(size, [](int) { return ForwardOperator{1, true, {100}}; });
}

/// "(0-2)(3-5); 100": layers and the largest bytes between them.
std::string text(const Clustering& clustering) {
  std::string text;
  for (const inter_op::LayerRange& layer : clustering.layers)
    text += fmt::format("({}-{})", layer.first, layer.last);
  return text + fmt::format("; {}", clustering.largest_bytes);
}

// ---- brute force

using Score = std::tuple<std::int64_t, std::int64_t, double>;  // largest, sum, squared FLOPs

struct Layer {
  std::int64_t bytes = 0;
  double flops = 0, flops_to_last_heavy = 0;
  int heavy = 0, heavy_before_last = 0;
};

Layer layer_of(const std::vector<ForwardOperator>& operators, int first, int last) {
  std::vector<std::pair<int, std::int64_t>> results;  // producer, bytes
  for (int n = 0; n < static_cast<int>(operators.size()); ++n)
    for (std::int64_t bytes : operators[n].produced) results.push_back({n, bytes});
  Layer layer;
  std::set<int> read;
  for (int n = first; n <= last; ++n) {
    layer.flops += operators[n].flops;
    if (operators[n].heavy > 0) {
      layer.heavy_before_last = layer.heavy;
      layer.heavy += operators[n].heavy;
      layer.flops_to_last_heavy = layer.flops;
    }
    read.insert(operators[n].read.begin(), operators[n].read.end());
  }
  for (int result : read)
    if (results[result].first < first) layer.bytes += results[result].second;
  return layer;
}

/// All ways to have `size` operators in `layers` layers, as the last operators of layers.
void for_each_cut(int size, int layers, std::vector<int>& lasts, const auto& visit) {
  if (layers == 1) {
    lasts.push_back(size - 1);
    visit(lasts);
    lasts.pop_back();
    return;
  }
  for (int last = lasts.empty() ? 0 : lasts.back() + 1; last <= size - layers; ++last) {
    lasts.push_back(last);
    for_each_cut(size, layers - 1, lasts, visit);
    lasts.pop_back();
  }
}

struct Best {
  Score score = {std::numeric_limits<std::int64_t>::max(), 0, 0};
  double bound = 0;
};

/// The largest number up to three that all of so many layers can have.
int least_heavy_of(const std::vector<ForwardOperator>& operators, int layers) {
  int possible = 0;
  std::vector<int> lasts;
  for_each_cut(static_cast<int>(operators.size()), layers, lasts, [&](const auto& cut) {
    int least = 3;
    for (std::size_t i = 0; i < cut.size(); ++i)
      least = std::min(least, layer_of(operators, i == 0 ? 0 : cut[i - 1] + 1, cut[i]).heavy);
    possible = std::max(possible, least);
  });
  return possible;
}

Best brute_force(std::vector<ForwardOperator> operators, int layers, double tolerance) {
  double flops = 0;
  for (const ForwardOperator& o : operators) flops += o.flops;
  if (std::count_if(operators.begin(), operators.end(),
                    [](const ForwardOperator& o) { return o.heavy > 0; }) < layers)
    for (ForwardOperator& o : operators) o.heavy = 1;
  const int least_heavy = least_heavy_of(operators, layers);
  const auto best_below = [&](double bound, double& least_bound) {
    Score best{std::numeric_limits<std::int64_t>::max(), 0, 0};
    std::vector<int> lasts;
    for_each_cut(static_cast<int>(operators.size()), layers, lasts, [&](const auto& cut) {
      Score score{0, 0, 0};
      double needed = 0;
      bool allowed = true, enough = true;
      for (std::size_t i = 0; i < cut.size(); ++i) {
        const Layer layer = layer_of(operators, i == 0 ? 0 : cut[i - 1] + 1, cut[i]);
        if (layer.heavy < least_heavy) allowed = allowed && layer.flops >= bound, enough = false;
        if (layer.heavy_before_last >= least_heavy) {
          allowed = allowed && layer.flops_to_last_heavy < bound;
          needed = std::max(needed, layer.flops_to_last_heavy);
        }
        std::get<0>(score) = std::max(std::get<0>(score), layer.bytes);
        std::get<1>(score) += layer.bytes;
        std::get<2>(score) += layer.flops * layer.flops;
      }
      if (allowed) best = std::min(best, score);
      if (enough) least_bound = std::min(least_bound, needed);
    });
    return best;
  };
  double least = std::numeric_limits<double>::infinity(), unused = least;
  const double bound = flops / layers * (1 + tolerance);
  const Score best = best_below(bound, least);
  if (std::get<0>(best) < std::numeric_limits<std::int64_t>::max()) return {best, bound};
  least = std::nextafter(least, unused);
  return {best_below(least, unused), least};
}

std::vector<ForwardOperator> random_operators(std::mt19937& random, int size) {
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  std::vector<ForwardOperator> operators;
  int results = 0;
  for (int n = 0; n < size; ++n) {
    ForwardOperator next{.flops = static_cast<double>(below(6)), .heavy = below(3) > 0 ? 1 : 0};
    for (int reads = below(3); reads >= 0 && results > 0; --reads)
      next.read.push_back(results - 1 - below(std::min(results, 5)));
    for (int produced = below(3); produced >= 0; --produced, ++results)
      next.produced.push_back(10 * below(5));
    operators.push_back(next);
  }
  return operators;
}

Score score_of(const std::vector<ForwardOperator>& operators, const Clustering& clustering) {
  double squares = 0;
  int next = 0;
  for (const inter_op::LayerRange& range : clustering.layers) {
    CHECK(range.first == next);
    next = range.last + 1;
    squares += std::pow(layer_of(operators, range.first, range.last).flops, 2);
  }
  CHECK(next == static_cast<int>(operators.size()));
  return {clustering.largest_bytes, clustering.sum_of_bytes, squares};
}

}  // namespace

// Source: Alpa's clustering, executed on these inputs (layer_construction.py).
TEST_CASE("clustering cuts published chains as Alpa does") {
  CHECK(text(cluster(equal_operators(12), {4})) == "(0-2)(3-5)(6-8)(9-11); 100");
  CHECK(text(cluster(equal_operators(12), {3})) == "(0-3)(4-7)(8-11); 100");
  CHECK(text(cluster(equal_operators(12), {2})) == "(0-5)(6-11); 100");
  const auto alternating = chain(24, [](int n) {
    return n % 2 == 0 ? ForwardOperator{1, true, {100}} : ForwardOperator{0, false, {10}};
  });
  for (double tolerance : {0.5, 0.1})
    CHECK(text(cluster(alternating, {4, tolerance})) == "(0-5)(6-11)(12-17)(18-23); 10");
  const auto waist = chain(16, [](int n) {
    return ForwardOperator{1, true, {200 + 100 * std::abs(n - 8)}};
  });
  CHECK(text(cluster(waist, {4})) == "(0-4)(5-8)(9-11)(12-15); 600");
}

TEST_CASE("clustering equals brute force over all cuts: bytes, sum, balance and bound") {
  std::mt19937 random(5);
  int relaxed = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    CAPTURE(trial);
    const auto operators = random_operators(random, 2 + static_cast<int>(random() % 10));
    const int layers = 1 + static_cast<int>(random() % std::min<std::size_t>(4, operators.size()));
    const double tolerance = 0.25 * static_cast<double>(random() % 4);
    const Best best = brute_force(operators, layers, tolerance);
    const Clustering clustering = cluster(operators, {layers, tolerance});
    CHECK(clustering.layers.size() == static_cast<std::size_t>(layers));
    CHECK(score_of(operators, clustering) == best.score);
    CHECK(clustering.flops_bound == best.bound);
    double flops = 0;
    for (const ForwardOperator& o : operators) flops += o.flops;
    relaxed += best.bound > flops / layers * (1 + tolerance);
  }
  CHECK(relaxed > 20);
}

TEST_CASE("four equal operators make three layers, though none of two keeps the tolerance") {
  const Clustering clustering = cluster(equal_operators(4), {3});
  CHECK(text(clustering) == "(0-0)(1-1)(2-3); 100");
  CHECK(clustering.flops_bound == doctest::Approx(2));
}

TEST_CASE("the automatic number of layers is the largest that reads no more than two do") {
  CHECK(cluster(equal_operators(12), {}).layers.size() == 5);
  CHECK(cluster(equal_operators(2), {}).layers.size() == 2);
  // Bytes between groups of four operators: 100; within a group 200.
  const auto groups = [](int operators) {
    return chain(operators, [](int n) {
      return ForwardOperator{1, true, {n % 4 == 3 ? 100 : 200}};
    });
  };
  CHECK(text(cluster(groups(32), {})) ==
        "(0-3)(4-7)(8-11)(12-15)(16-19)(20-23)(24-27)(28-31); 100");
  // Where these are few, layers begin within groups, too.
  CHECK(text(cluster(groups(12), {})) == "(0-1)(2-3)(4-5)(6-8)(9-11); 200");
}

TEST_CASE("where operators pass on more, layers are cut at the best places nearby") {
  // Blocks of four operators with 100 bytes between them, of which the first have eight times that.
  const auto shrinking = chain(64, [](int n) {
    const int bytes = n % 4 == 3 ? 100 : 200;
    return ForwardOperator{1, true, {n < 16 ? 8 * bytes : bytes}};
  });
  const Clustering clustering = cluster(shrinking, {});
  CHECK(text(clustering) ==
        "(0-3)(4-7)(8-11)(12-16)(17-19)(20-23)(24-27)(28-31)(32-35)(36-39)(40-43)(44-47)(48-51)"
        "(52-55)(56-59)(60-63); 800");
}

TEST_CASE("a result that is read in several later layers crosses into each of them once") {
  std::vector<ForwardOperator> operators = equal_operators(12);
  for (int n : {4, 5, 7, 8}) operators[n].read.push_back(0);  // a skip connection
  const Clustering clustering = cluster(operators, {4});
  CHECK(text(clustering) == "(0-2)(3-5)(6-8)(9-11); 200");
  CHECK(clustering.sum_of_bytes == 200 + 200 + 100);
}

TEST_CASE("5000 operators in blocks of 50 are cut between blocks, for few and many layers") {
  const auto blocks = chain(5000, [](int n) {
    return ForwardOperator{n % 10 == 0 ? 100.0 : 1.0, n % 10 == 0, {n % 50 == 49 ? 10 : 40}};
  });
  for (int layers : {2, 20, 100}) {
    const Clustering clustering = cluster(blocks, {layers});
    CHECK(clustering.largest_bytes == 10);
    for (int i = 0; i < layers; ++i)
      CHECK(clustering.layers[i] ==
            inter_op::LayerRange{i * 5000 / layers, (i + 1) * 5000 / layers - 1});
  }
}

TEST_CASE("layers of a traced MLP: every forward node has one, no other node") {
  const Graph graph = dense_mlp_step<nn::ReLU>(f32, 8).trace(2);
  const std::vector<int> layer = inter_op::cluster_layers(graph, 4, 0.5);
  std::vector<int> products(4);
  int last = 0;
  REQUIRE(layer.size() == graph.nodes.size());
  for (std::size_t n = 0; n < layer.size(); ++n) {
    const Node& node = graph.nodes[n];
    const bool forward = node.region == Region::forward && node.op->name != "input";
    CHECK((layer[n] >= 0) == forward);
    if (!forward) continue;
    CHECK(layer[n] >= last);
    last = layer[n];
    products[layer[n]] += node.op->name == "einsum";
  }
  CHECK(products == std::vector<int>{2, 2, 2, 2});
}

TEST_CASE("layers of a GPT-like stack are cut between its blocks") {
  const Graph graph =
      gpt_graph({.layers = 8, .batch = 8, .sequence = 16, .hidden = 32, .heads = 4});
  const std::vector<int> layer = inter_op::cluster_layers(graph, 4, 0.5);
  for (std::size_t n = 0; n < layer.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (layer[n] < 0 || node.layer < 0) continue;  // the last norm and the loss follow block 7
    CAPTURE(to_string(graph, node));
    CHECK(layer[n] == node.layer / 2);
  }
}

TEST_CASE("layers that cannot be had are errors") {
  CHECK(error_of([] { cluster(equal_operators(3), {4}); }) ==
        "layer clustering: 4 layers of a forward pass with 3 operators; give between 1 and 3, or "
        "auto");
  CHECK(error_of([] { cluster(equal_operators(3), {-1}); }) ==
        "layer clustering: -1 layers of a forward pass with 3 operators; give between 1 and 3, or "
        "auto");
  CHECK(error_of([] {
          cluster(equal_operators(3), {2, -0.5});
        }) == "layer clustering: tolerance -0.5; give a number of at least 0");
}

}  // namespace cluster_layers_test
