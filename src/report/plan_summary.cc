// A plan at a glance: where time and memory go, how tensors are split, the next best plan
#include "src/report/plan_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa {
namespace {

constexpr std::size_t kMaxLines = 10, kMaxKinds = 3, kMaxNames = 3, kMaxTried = 12;

/// Prices that differ by more than this belong to another cluster.
constexpr double kOtherPrices = 0.01;

std::string percent_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "0 %";
}

/// "einsum 120 ms, add 1.0 ms, 4 others 0.20 ms": the largest first.
std::string kinds_text(const std::map<std::string, double>& sums) {
  std::vector<std::pair<std::string, double>> kinds(sums.begin(), sums.end());
  std::ranges::stable_sort(kinds, std::greater<>(), [](const auto& kind) { return kind.second; });
  std::string text;
  double others = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const auto& [name, seconds] = kinds[i];
    if (i < kMaxKinds)
      text += fmt::format("{}{} {}", i > 0 ? ", " : "", name, seconds_text(seconds));
    else
      others += seconds;
  }
  return kinds.size() <= kMaxKinds
             ? text
             : text + fmt::format(", {} others {}", kinds.size() - kMaxKinds, seconds_text(others));
}

/// "dense0.kernel, dense2.kernel, dense4.kernel and 2 more".
std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kMaxNames, names.size()); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  return names.size() <= kMaxNames ? text
                                   : text + fmt::format(" and {} more", names.size() - kMaxNames);
}

class Summary {
 public:
  explicit Summary(const intra_op::PricedPlan& priced)
      : priced_(priced),
        plan_(priced.plan),
        graph_(priced.graph),
        seconds_(priced.seconds),
        compute_(std::accumulate(seconds_.nodes.begin(), seconds_.nodes.end(), 0.0)),
        communication_(std::accumulate(seconds_.reshards.begin(), seconds_.reshards.end(), 0.0)) {}

  std::string text(std::optional<std::int64_t> memory_bytes) {
    add("Plan", plan_text());
    add("Compute", compute_text());
    add("Communication", communication_text());
    add("Memory", memory_text(memory_bytes));
    if (const std::string again = recomputed_text(); !again.empty()) add("Recomputed", again);
    if (const std::string inputs = inputs_text(); !inputs.empty()) add("Batch", inputs);
    const std::string repeated = repeated_work_text(priced_);
    const std::size_t later = repeated.empty() ? 1 : 2;
    add_parameters(kMaxLines - lines_ - later);
    if (!repeated.empty()) add("Repeated work", repeated);
    add("Next best", next_best_text());
    return std::move(text_);
  }

 private:
  void add(std::string_view label, const std::string& words) {
    text_ += fmt::format("{:<15}{}\n", label, words);
    ++lines_;
  }

  double total() const { return compute_ + communication_; }

  std::string plan_text() const {
    const bool as_planned =
        std::abs(total() - plan_.cost.objective_seconds) <= kOtherPrices * total();
    const std::string proof = as_planned ? intra_op::proof_text(plan_.method, plan_.cost)
                                         : fmt::format("for a cluster where it was planned {}",
                                                       seconds_text(plan_.cost.objective_seconds));
    return fmt::format("{} on mesh {} ({} devices): {} per step predicted, {}", plan_.method,
                       shape_text(plan_.mesh), plan_.mesh.num_devices(), seconds_text(total()),
                       proof);
  }

  std::string compute_text() const {
    std::map<std::string, double> kinds;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (seconds_.nodes[n] > 0) kinds[std::string(graph_.nodes[n].op->name)] += seconds_.nodes[n];
    return fmt::format("{} ({}): {}", seconds_text(compute_), percent_text(compute_, total()),
                       kinds_text(kinds));
  }

  /// Each resharding is counted under the name of its slowest step, which communicates.
  std::string communication_text() const {
    if (communication_ <= 0) return "none";
    std::map<std::string, double> kinds;
    for (std::size_t r = 0; r < plan_.reshards.size(); ++r) {
      const auto slowest =
          std::ranges::max_element(plan_.reshards[r].path.steps, {}, &ReshardStep::seconds);
      if (seconds_.reshards[r] > 0)
        kinds[std::string(name_of(slowest->kind))] += seconds_.reshards[r];
    }
    return fmt::format("{} ({}): {}", seconds_text(communication_),
                       percent_text(communication_, total()), kinds_text(kinds));
  }

  double device_bytes(const Input& input) const {
    return static_cast<double>(
        shard_bytes(graph_.type(input.value), plan_.specs[input.value], plan_.mesh));
  }

  std::string memory_text(std::optional<std::int64_t> exact) const {
    double parameters = 0, optimizer = 0;
    for (const Input& input : graph_.inputs)
      if (input.kind == InputKind::state)
        (input.of.empty() || is_copy(graph_, input) ? parameters : optimizer) +=
            device_bytes(input);
    const auto bytes =
        static_cast<double>(exact ? *exact : intra_op::peak_memory(plan_, priced_.facts).bytes);
    return fmt::format("{}{} per device: parameters {}, optimizer state {}, values of the step {}",
                       exact ? "" : "about ", bytes_text(bytes), bytes_text(parameters),
                       bytes_text(optimizer),
                       bytes_text(std::max(0.0, bytes - parameters - optimizer)));
  }

  std::string recomputed_text() const {
    return intra_op::recomputed_text(intra_op::price_recomputed(plan_, graph_, priced_.model),
                                     remat_layers(graph_).size());
  }

  std::string layout_text(const Input& input) const {
    return describe(plan_.specs[input.value], graph_.type(input.value).rank(), plan_.mesh);
  }

  std::string inputs_text() const {
    std::vector<intra_op::LayoutGroup> groups;
    for (const Input& input : graph_.inputs)
      if (input.kind == InputKind::batch) add_to_group(groups, layout_text(input), input.name, 0);
    std::string text;
    for (const intra_op::LayoutGroup& group : groups)
      text +=
          fmt::format("{}{}: {}", text.empty() ? "" : "; ", names_text(group.names), group.layout);
    return text;
  }

  /// The layout of a parameter; with that of its copy or optimizer state if it is another one.
  std::string parameter_text(const Input& parameter) const {
    const std::string layout = layout_text(parameter);
    for (const Input& input : graph_.inputs) {
      if (input.kind != InputKind::state || input.of != parameter.name ||
          graph_.type(input.value).shape != graph_.type(parameter.value).shape)
        continue;
      if (const std::string other = layout_text(input); other != layout)
        return fmt::format("{}; {} {}", layout,
                           is_copy(graph_, input)
                               ? fmt::format("as {}", name_of(graph_.type(input.value).dtype))
                               : "optimizer state",
                           other);
    }
    return layout;
  }

  /// One line per layout, those that take most memory first, in at most `lines` lines.
  void add_parameters(std::size_t lines) {
    std::vector<intra_op::LayoutGroup> groups;
    for (const Input& input : graph_.inputs)
      if (input.kind == InputKind::state && input.of.empty())
        add_to_group(groups, parameter_text(input), input.name, device_bytes(input));
    std::ranges::stable_sort(groups, std::greater<>(), &intra_op::LayoutGroup::bytes);
    const std::size_t shown = groups.size() <= lines ? groups.size() : lines - 1;
    for (std::size_t i = 0; i < shown; ++i)
      add(i == 0 ? "Split" : "",
          fmt::format("{}: {}", names_text(groups[i].names), groups[i].layout));
    std::size_t hidden = 0;
    for (std::size_t i = shown; i < groups.size(); ++i) hidden += groups[i].names.size();
    if (hidden > 0)
      add("", fmt::format("{} more parameters in {} other layouts", hidden, groups.size() - shown));
  }

  /// The cheapest plan that differs in the strategy of one of the most expensive nodes.
  std::string next_best_text() const {
    const std::vector<int> nodes = intra_op::slowest(seconds_.nodes, kMaxTried, [&](int n) {
      return !graph_.nodes[n].operands.empty() && seconds_.nodes[n] > 0;
    });
    const auto alternatives = intra_op::next_best(nodes, priced_);
    int best = -1;
    for (int i = 0; i < static_cast<int>(nodes.size()); ++i)
      if (alternatives[i] &&
          (best < 0 || alternatives[i]->extra_seconds < alternatives[best]->extra_seconds))
        best = i;
    if (best < 0) return "none: its most expensive operators can be done in one way only";
    const double extra = alternatives[best]->extra_seconds;
    const int node = nodes[best];
    return fmt::format(
        "{} ({:+.1f} %): {} with {}, all else equal{}", intra_op::extra_text(extra),
        100 * extra / total(), intra_op::use_text(graph_, {UseKind::node, node}),
        intra_op::strategy_text(priced_, node, alternatives[best]->strategy),
        extra < 0 ? "; excluded by the method, the memory budget or the time for planning" : "");
  }

  const intra_op::PricedPlan& priced_;
  const ShardingPlan& plan_;
  const Graph& graph_;
  const intra_op::PartSeconds& seconds_;
  const double compute_, communication_;
  std::string text_;
  std::size_t lines_ = 0;
};

}  // namespace

std::string intra_op::proof_words(const PlanCost& cost) {
  constexpr double kRounding = 1e-9;
  if (cost.lower_bound_seconds <= 0 && cost.objective_seconds > 0)
    return "not proven to be optimal";
  if (cost.gap() <= kRounding) return "proven optimal";
  return fmt::format("within {} % of optimal", two_digits(100 * cost.gap()));
}

std::string intra_op::proof_text(std::string_view method, const PlanCost& cost) {
  if (method == kFollow) return "along the plan of another step";
  const std::string words = intra_op::proof_words(cost);
  if (!words.starts_with("within")) return words;
  return fmt::format("{} (no plan takes less than {})", words,
                     seconds_text(cost.lower_bound_seconds));
}

void intra_op::add_to_group(std::vector<LayoutGroup>& groups, const std::string& layout,
                            const std::string& name, double bytes) {
  auto group = std::ranges::find(groups, layout, &LayoutGroup::layout);
  if (group == groups.end()) group = groups.insert(groups.end(), {layout, {}, 0});
  group->names.push_back(name);
  group->bytes += bytes;
}

std::vector<int> intra_op::slowest(const std::vector<double>& seconds, std::size_t most,
                                   const std::function<bool(int)>& counts) {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(seconds.size()); ++i)
    if (counts(i)) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return seconds[a] > seconds[b]; });
  order.resize(std::min(order.size(), most));
  return order;
}

std::string intra_op::extra_text(double seconds) {
  return (seconds < 0 ? "" : "+") + seconds_text(seconds);
}

std::string intra_op::plan_summary(const intra_op::PricedPlan& priced,
                                   std::optional<std::int64_t> memory_bytes) {
  return Summary(priced).text(memory_bytes);
}

std::string to_string(const ShardingPlan& plan) {
  return fmt::format("{} on mesh {}: {} per step predicted ({} compute, {} communication), {}",
                     plan.method, shape_text(plan.mesh), seconds_text(plan.cost.objective_seconds),
                     seconds_text(plan.cost.compute_seconds),
                     seconds_text(plan.cost.communication_seconds),
                     intra_op::proof_text(plan.method, plan.cost));
}

}  // namespace alpa
