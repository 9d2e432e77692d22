// src/search/stages/cluster_layers.cc — layers of balanced FLOPs with few bytes between them
//
// Two dynamic programs over (operators so far, layers so far): the first finds the least largest
// bytes M, the second the best cuts among those with at most M into every layer. One program over
// (largest, sum) would not be exact: a prefix with a larger maximum may have the smaller sum.
#include "src/search/stages/cluster_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/search/tuning.h"

namespace alpa::inter_op {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

struct Problem {
  const std::vector<ForwardOperator>& operators;
  std::vector<std::int64_t> bytes = {};  ///< per result
  std::vector<int> producer = {};        ///< per result
  std::vector<double> flops = {0};       ///< of the first n operators
  std::vector<int> heavy = {};           ///< operators, ascending
  std::vector<int> heavies = {0};        ///< that the first n of them consist of
  int layers = 1;
  int least_heavy = 1;        ///< heavy operators per layer
  bool counts_parts = false;  ///< a heavy operator counts as all that it consists of
  double flops_bound = 0;     ///< a layer has fewer FLOPs
  /// Per operator: a layer that begins there may read so many bytes, whatever the limit. Empty: 0.
  std::vector<std::int64_t> allowance = {};

  int size() const { return static_cast<int>(operators.size()); }
  std::int64_t allowed(int first) const { return allowance.empty() ? 0 : allowance[first]; }
};

/// Everything that does not depend on the number of layers.
Problem problem_of(const std::vector<ForwardOperator>& operators) {
  Problem problem{.operators = operators};
  for (int n = 0; n < problem.size(); ++n) {
    for (int result : operators[n].read)
      invariant(result >= 0 && result < static_cast<int>(problem.bytes.size()),
                "clustering: operator {} reads result {}, which no earlier operator has", n,
                result);
    for (std::int64_t bytes : operators[n].produced) {
      problem.bytes.push_back(bytes);
      problem.producer.push_back(n);
    }
    problem.flops.push_back(problem.flops.back() + operators[n].flops);
  }
  return problem;
}

/// Per operator the bytes that a cut before it may have: those of the best cut up to `reach`
/// heavy operators before it, or of the best one as near behind it, if these are more.
std::vector<std::int64_t> best_cuts_nearby(const Problem& problem, int reach) {
  std::vector<int> last_reader(problem.bytes.size(), -1);
  for (int n = 0; n < problem.size(); ++n)
    for (const int result : problem.operators[n].read) last_reader[result] = n;
  std::vector<std::int64_t> crossing(problem.size());  // the cut before each operator
  for (std::size_t result = 0; result < problem.bytes.size(); ++result)
    for (int n = problem.producer[result] + 1; n <= last_reader[result]; ++n)
      crossing[n] += problem.bytes[result];
  std::vector<int> heavies = {0};  // before each operator
  for (const ForwardOperator& each : problem.operators)
    heavies.push_back(heavies.back() + each.heavy);
  std::vector<std::int64_t> best(problem.size());
  for (int n = 1; n < problem.size(); ++n) {
    std::int64_t before = crossing[n], behind = crossing[n];
    for (int at = n - 1; at > 0 && heavies[n] - heavies[at] <= reach; --at)
      before = std::min(before, crossing[at]);
    for (int at = n + 1; at < problem.size() && heavies[at] - heavies[n] <= reach; ++at)
      behind = std::min(behind, crossing[at]);
    best[n] = std::max(before, behind);
  }
  return best;
}

/// How many layers have at least so many heavies each.
int most_layers(const std::vector<int>& heavies, int least) {
  int layers = 0, begin = 0;
  for (const int count : heavies)
    if (count - begin >= least) ++layers, begin = count;
  return layers;
}

void set_layers(Problem& problem, int layers, double tolerance) {
  problem.layers = layers;
  const auto count = [&](const ForwardOperator& o) { return o.heavy > 0; };
  const bool few =
      std::count_if(problem.operators.begin(), problem.operators.end(), count) < layers;
  problem.heavy.clear();
  problem.heavies = {0};
  for (int n = 0; n < problem.size(); ++n) {
    const int parts = problem.operators[n].heavy;
    const int heavy = few ? 1 : problem.counts_parts ? parts : std::min(parts, 1);
    if (heavy == 0) continue;
    problem.heavy.push_back(n);
    problem.heavies.push_back(problem.heavies.back() + heavy);
  }
  problem.least_heavy = search::kTuning.cluster_layers.least_heavy;
  while (most_layers(problem.heavies, problem.least_heavy) < layers) --problem.least_heavy;
  problem.flops_bound = problem.flops.back() / layers * (1 + tolerance);
}

/// Calls visit(end, bytes read from before `first`) for every layer [first, end) that balance
/// allows and that reads at most `limit` bytes.
template <class Visit>
void visit_layers(const Problem& problem, int first, std::int64_t limit,
                  std::vector<int>& last_reader, const Visit& visit) {
  const auto begin =
      std::lower_bound(problem.heavy.begin(), problem.heavy.end(), first) - problem.heavy.begin();
  std::int64_t crossing = 0;
  auto heavy = begin;
  const auto count = [&] { return problem.heavies[heavy] - problem.heavies[begin]; };
  for (int n = first; n < problem.size(); ++n) {
    for (int result : problem.operators[n].read) {
      if (problem.producer[result] >= first || last_reader[result] == first) continue;
      last_reader[result] = first;
      crossing += problem.bytes[result];
    }
    if (crossing > std::max(limit, problem.allowed(first))) return;
    const bool is_heavy = heavy < std::ssize(problem.heavy) && problem.heavy[heavy] == n;
    const bool full = problem.flops[n + 1] - problem.flops[first] >= problem.flops_bound;
    if (count() >= problem.least_heavy && full && is_heavy) return;
    if (is_heavy) ++heavy;
    if (count() < problem.least_heavy && !full) continue;
    visit(n + 1, crossing);
  }
}

/// Score of the first program: bytes that are allowed do not count.
struct LargestBytes {
  std::int64_t bytes = 0;
  bool operator<(const LargestBytes& other) const { return bytes < other.bytes; }
  LargestBytes with_layer(std::int64_t crossing, std::int64_t allowed, double) const {
    return {crossing <= allowed ? bytes : std::max(bytes, crossing)};
  }
};

/// Score of the second one.
struct SumAndBalance {
  std::int64_t bytes = 0;
  double squares = 0;
  bool operator<(const SumAndBalance& other) const {
    return std::tie(bytes, squares) < std::tie(other.bytes, other.squares);
  }
  SumAndBalance with_layer(std::int64_t crossing, std::int64_t, double flops) const {
    return {bytes + crossing, squares + flops * flops};
  }
};

/// The best way to have the first n operators in q layers.
template <class Score>
struct Entry {
  int previous = -1;  ///< where the last layer begins; -1: there is no way
  Score score = {};
};

/// Entries by n, then q; no layer reads more than `limit` bytes.
template <class Score>
std::vector<Entry<Score>> best_cuts(const Problem& problem, std::int64_t limit) {
  const int width = problem.layers + 1;
  std::vector<Entry<Score>> entries(static_cast<std::size_t>(problem.size() + 1) * width);
  std::vector<int> last_reader(problem.bytes.size(), -1);
  entries[0].previous = 0;
  for (int first = 0; first < problem.size(); ++first) {
    const Entry<Score>* from = &entries[static_cast<std::size_t>(first) * width];
    int least = 0, most = problem.layers - 1;
    while (least <= most && from[least].previous < 0) ++least;
    while (least <= most && from[most].previous < 0) --most;
    if (least > most) continue;
    visit_layers(problem, first, limit, last_reader, [&](int end, std::int64_t crossing) {
      Entry<Score>* to = &entries[static_cast<std::size_t>(end) * width];
      const double flops = problem.flops[end] - problem.flops[first];
      for (int q = least; q <= most; ++q) {
        if (from[q].previous < 0) continue;
        const Score score = from[q].score.with_layer(crossing, problem.allowed(first), flops);
        if (to[q + 1].previous < 0 || score < to[q + 1].score) to[q + 1] = {first, score};
      }
    });
  }
  return entries;
}

/// The least largest bytes, or kUnlimited if balance allows no clustering.
std::int64_t least_largest_bytes(const Problem& problem, std::int64_t limit = kUnlimited) {
  const auto entries = best_cuts<LargestBytes>(problem, limit);
  return entries.back().previous < 0 ? kUnlimited : entries.back().score.bytes;
}

/// The least bound on FLOPs at which there is a clustering: layers begin at heavy operators, the
/// first at the start, and end at the next ones.
double least_flops_bound(const Problem& problem) {
  const int heavies = static_cast<int>(problem.heavy.size());
  std::vector<double> best(heavies + 1, kInfinity);  // of the first n heavy operators in q layers
  best[0] = 0;
  for (int q = 0; q < problem.layers; ++q) {
    std::vector<double> next(heavies + 1, kInfinity);
    for (int end = 1; end <= heavies; ++end)
      for (int first = end - 1; first >= 0; --first) {
        const auto count = [&](int to) { return problem.heavies[to] - problem.heavies[first]; };
        if (count(end) < problem.least_heavy) continue;
        const int start = first == 0 ? 0 : problem.heavy[first];
        const double flops = problem.flops[problem.heavy[end - 1] + 1] - problem.flops[start];
        const double counted = count(end - 1) >= problem.least_heavy ? flops : 0;
        if (counted >= next[end]) break;
        next[end] = std::min(next[end], std::max(best[first], counted));
      }
    best = std::move(next);
  }
  return std::nextafter(best.back(), kInfinity);
}

/// Sets the layers, with a bound that allows a clustering. Returns the least largest bytes.
std::int64_t set_feasible_layers(Problem& problem, int layers, double tolerance) {
  set_layers(problem, layers, tolerance);
  const std::int64_t largest = least_largest_bytes(problem);
  if (largest < kUnlimited) return largest;
  problem.flops_bound = least_flops_bound(problem);
  return least_largest_bytes(problem);
}

/// Sets the largest number of layers within the tolerances. Returns its least largest bytes.
std::int64_t set_auto_layers(Problem& problem, const ClusteringOptions& options) {
  const std::int64_t of_two =
      set_feasible_layers(problem, std::min(2, problem.size()), options.tolerance);
  const Problem two = problem;
  problem.counts_parts = true;  // as many layers as there may be
  set_layers(problem, two.layers, options.tolerance);
  const auto& tuning = search::kTuning.cluster_layers;
  problem.allowance = best_cuts_nearby(problem, tuning.near_heavy);
  const int most =
      std::min(most_layers(problem.heavies, 1), problem.heavies.back() / tuning.least_heavy + 1);
  int found = 2;
  for (int times = 1; times <= tuning.most_bytes && found < tuning.few_layers; times *= 2) {
    if (times > 1)
      for (std::int64_t& bytes : problem.allowance) bytes *= 2;
    const int fewest = found;
    for (int layers = most; layers > fewest && found == fewest; --layers) {
      set_layers(problem, layers, options.tolerance);
      if (least_largest_bytes(problem, times * of_two) < kUnlimited) found = layers;
    }
  }
  if (found > 2) {
    set_layers(problem, found, options.tolerance);
    return least_largest_bytes(problem);
  }
  problem.counts_parts = false;
  problem.allowance.clear();
  set_layers(problem, two.layers, options.tolerance);
  problem.flops_bound = two.flops_bound;
  return of_two;
}

}  // namespace

Clustering cluster(const std::vector<ForwardOperator>& operators,
                   const ClusteringOptions& options) {
  const int size = static_cast<int>(operators.size());
  require(options.tolerance >= 0, "layer clustering: tolerance {}; give a number of at least 0",
          options.tolerance);
  require(options.layers >= 0 && options.layers <= size && size > 0,
          "layer clustering: {} layers of a forward pass with {} operators; give between 1 and {}, "
          "or auto",
          options.layers, size, size);
  Problem problem = problem_of(operators);
  const std::int64_t largest =
      options.layers == kAutoLayers
          ? set_auto_layers(problem, options)
          : set_feasible_layers(problem, options.layers, options.tolerance);
  const auto entries = best_cuts<SumAndBalance>(problem, largest);
  Clustering result{.sum_of_bytes = entries.back().score.bytes, .flops_bound = problem.flops_bound};
  const auto entry = [&](int end, int layers) -> const Entry<SumAndBalance>& {
    return entries[static_cast<std::size_t>(end) * (problem.layers + 1) + layers];
  };
  for (int end = size, q = problem.layers; q > 0; --q) {
    const int first = entry(end, q).previous;
    invariant(first >= 0, "clustering: no way to have {} operators in {} layers", end, q);
    result.layers.insert(result.layers.begin(), {first, end - 1});
    result.largest_bytes =
        std::max(result.largest_bytes, entry(end, q).score.bytes - entry(first, q - 1).score.bytes);
    end = first;
  }
  return result;
}

namespace {

/// Per node its number among forward operators; -1: it is none. The nodes of a layer that is
/// computed again are one operator.
std::vector<int> operators_of_nodes(const Graph& graph) {
  const std::vector<int> again = recomputed_layers(graph);
  std::vector<int> numbers(graph.nodes.size(), -1);
  int last = -1, last_remat = -1;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.region != Region::forward || node.op == &ops::input) continue;
    const bool whole = std::binary_search(again.begin(), again.end(), node.remat);
    if (!whole || node.remat != last_remat) ++last;
    last_remat = whole ? node.remat : -1;
    numbers[n] = last;
  }
  return numbers;
}

}  // namespace

std::vector<ForwardOperator> forward_operators(const Graph& graph) {
  std::vector<ForwardOperator> operators;
  const std::vector<int> numbers = operators_of_nodes(graph);
  std::vector<int> number(graph.values.size(), -1);
  int results = 0;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (numbers[n] < 0) continue;
    const Node& node = graph.nodes[n];
    operators.resize(numbers[n] + 1);
    ForwardOperator& next = operators.back();
    const int own = results - static_cast<int>(next.produced.size());  // its first result
    next.flops += flops(rule_of(graph, node));
    next.heavy += node.op->work == Work::heavy ? 1 : 0;
    for (int value : node.operands)
      if (number[value] >= 0 && number[value] < own) next.read.push_back(number[value]);
    for (int value : node.results) {
      number[value] = results++;
      next.produced.push_back(graph.type(value).bytes());
    }
  }
  return operators;
}

std::vector<int> cluster_layers(const Graph& graph, int layers, double tolerance) {
  const Clustering clustering =
      cluster(forward_operators(graph), {.layers = layers, .tolerance = tolerance});
  const std::vector<int> numbers = operators_of_nodes(graph);
  std::vector<int> layer(graph.nodes.size(), -1);
  int current = 0;
  for (std::size_t n = 0; n < layer.size(); ++n) {
    if (numbers[n] < 0) continue;
    if (numbers[n] > clustering.layers[current].last) ++current;
    layer[n] = current;
  }
  return layer;
}

}  // namespace alpa::inter_op
