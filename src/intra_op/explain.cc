// src/intra_op/explain.cc — a plan in words
#include <algorithm>
#include <map>
#include <numeric>

#include "alpa/base/error.h"
#include "alpa/intra_op/plan.h"
#include "alternatives.h"
#include "path_cost.h"
#include "uses.h"

namespace alpa {
namespace {

constexpr std::size_t kMaxRows = 10, kMaxChoices = 5;

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0";
  const double size = std::abs(seconds);
  if (size >= 1) return fmt::format("{:.4g} s", seconds);
  return size >= 1e-3 ? fmt::format("{:.4g} ms", seconds * 1e3) : fmt::format("{:.4g} us", seconds * 1e6);
}

std::string bytes_text(double bytes) {
  if (bytes >= 1 << 30) return fmt::format("{:.2f} GiB", bytes / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  return bytes >= 1 << 10 ? fmt::format("{:.1f} KiB", bytes / (1 << 10))
                          : fmt::format("{:.0f} bytes", bytes);
}

std::string dim_name(int dim, int rank) {
  if (rank == 1) return "elements";
  if (rank == 2) return dim == 0 ? "rows" : "columns";
  return fmt::format("dimension {}", dim);
}

std::string axes_text(const std::vector<int>& axes, const DeviceMesh& mesh) {
  std::string names;
  int devices = 1;
  for (int axis : axes) {
    names += (names.empty() ? "" : ", ") + mesh.axes()[axis].name;
    devices *= mesh.size(axis);
  }
  return fmt::format("{} ({} devices)", names, devices);
}

/// "columns split over y (4 devices), a copy for each place along x".
std::string spec_text(const ShardingSpec& spec, int rank, const DeviceMesh& mesh) {
  std::string text;
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  std::vector<int> idle, partial;
  for (int d = 0; d < rank; ++d) {
    if (const std::vector<int> axes = spec.axes_of(d); !axes.empty())
      add(fmt::format("{} split over {}", dim_name(d, rank), axes_text(axes, mesh)));
  }
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.size(axis) == 1) continue;
    if (spec.axes[axis].kind == AxisPlacement::Kind::replicated) idle.push_back(axis);
    if (spec.axes[axis].kind == AxisPlacement::Kind::partial) partial.push_back(axis);
  }
  if (!partial.empty()) add("partial over " + axes_text(partial, mesh));
  if (text.empty()) return "a copy on every device";
  if (!idle.empty()) add("copies along " + axes_text(idle, mesh));
  return text;
}

/// "reduce_scatter over x, all_gather over y".
std::string path_text(const ReshardPath& path, const DeviceMesh& mesh) {
  std::string text;
  for (const ReshardStep& step : path.steps) {
    std::string axes;
    for (int axis : step.axes) axes += (axes.empty() ? "" : "+") + mesh.axes()[axis].name;
    text += fmt::format("{}{} over {}", text.empty() ? "" : ", then ", name_of(step.kind), axes);
  }
  return text;
}

/// "splits columns of the result over y" for the factors of a strategy.
std::string strategy_text(const Rule& rule, const Strategy& strategy, const DeviceMesh& mesh) {
  std::string text;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const AxisRole& role = strategy.axes[axis];
    if (role.kind == AxisRole::Kind::none) continue;
    std::string what = role.kind == AxisRole::Kind::linear ? "on partial sums" : "";
    if (what.empty()) {
      for (std::size_t d = 0; !rule.results.empty() && d < rule.results[0].size(); ++d) {
        const std::vector<int>& factors = rule.results[0][d];
        if (std::find(factors.begin(), factors.end(), role.index) != factors.end())
          what = dim_name(static_cast<int>(d), static_cast<int>(rule.results[0].size())) +
                 " of the result split";
      }
      if (what.empty())
        what = is_reduced(rule, role.index) ? "the reduced dimension split" : "operands split";
    }
    text += fmt::format("{}{} over {}", text.empty() ? "" : ", ", what, mesh.axes()[axis].name);
  }
  return text.empty() ? "the whole on every device" : text;
}

class Explanation {
 public:
  Explanation(const ShardingPlan& plan, const Graph& graph, const CostModel& model)
      : plan_(plan),
        graph_(graph),
        model_(model),
        classes_(classify(graph)),
        cost_(evaluate(plan, graph, model)),
        starts_(starts_of_reshards(plan, graph)) {
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      const PlannedReshard& r = plan.reshards[i];
      seconds_.push_back(runs_of(r, graph) *
                         path_seconds(graph.type(r.value), starts_[i], r.path, plan.mesh, model.reshard));
    }
  }

  std::string text() {
    add_total();
    add_parameters();
    add_communications();
    add_choices();
    return std::move(text_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void add_total() {
    line("Plan \"{}\" on a {} mesh ({} devices): {} per step predicted, {} computing and {} communicating.",
         plan_.method, shape_text(plan_.mesh), plan_.mesh.num_devices(),
         seconds_text(cost_.objective_seconds), seconds_text(cost_.compute_seconds),
         seconds_text(cost_.communication_seconds));
    if (plan_.cost.gap() <= 0)
      line("Proven: no plan of this method costs less.");
    else
      line(
          "Proven: no plan of this method costs less than {}, so this one is at most {:.2g} % above the "
          "best.",
          seconds_text(plan_.cost.lower_bound_seconds), 100 * plan_.cost.gap());
    if (const std::string repeated = repeated_work_text(plan_, graph_); !repeated.empty())
      line("Repeated work: {}.", repeated);
  }

  void add_parameters() {
    line("\nState");
    std::size_t width = 0;
    for (const Input& input : graph_.inputs) {
      if (input.kind == InputKind::state) width = std::max(width, input.name.size());
    }
    for (const Input& input : graph_.inputs) {
      if (input.kind != InputKind::state) continue;
      line("  {:<{}} {}: {}{}", input.name, width, to_string(graph_.type(input.value)),
           spec_text(plan_.specs[input.value], graph_.type(input.value).rank(), plan_.mesh),
           update_text(input));
    }
  }

  std::string update_text(const Input& input) const {
    const auto update = std::find_if(graph_.updates.begin(), graph_.updates.end(),
                                     [&](const Update& u) { return u.input == input.value; });
    if (update == graph_.updates.end()) return "; never updated";
    const UseId use{UseKind::update, static_cast<int>(update - graph_.updates.begin())};
    for (const PlannedReshard& r : plan_.reshards) {
      if (r.value == update->value && std::binary_search(r.uses.begin(), r.uses.end(), use))
        return fmt::format(
            "; updated as {}, then {}",
            spec_text(plan_.specs[update->value], graph_.type(update->value).rank(), plan_.mesh),
            path_text(r.path, plan_.mesh));
    }
    const ShardingSpec& spec = plan_.specs[input.value];
    if (spec.is_replicated()) return "; every device updates its copy";
    return "; updated in place, each device its part";
  }

  void add_communications() {
    std::vector<int> order(plan_.reshards.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return seconds_[a] > seconds_[b]; });
    const std::size_t rows = std::min(order.size(), kMaxRows);
    line("\nLargest communications ({} of {}; seconds and bytes sent per step and device)", rows,
         order.size());
    for (std::size_t i = 0; i < rows; ++i) add_communication(order[i]);
  }

  void add_communication(int r) {
    const PlannedReshard& reshard = plan_.reshards[r];
    const TensorType& type = graph_.type(reshard.value);
    const double bytes =
        runs_of(reshard, graph_) * path_sent_bytes(type, starts_[r], reshard.path, plan_.mesh);
    const std::string more =
        reshard.uses.size() > 1 ? fmt::format(" and {} more", reshard.uses.size() - 1) : "";
    line("  {:>9} {:>10}  {} of {} from {} for {}{}", seconds_text(seconds_[r]), bytes_text(bytes),
         path_text(reshard.path, plan_.mesh), to_string(type),
         use_text(graph_, {UseKind::node, graph_.values[reshard.value].producer}),
         use_text(graph_, reshard.uses.front()), more);
    line("  {:>20}  because it is left with {} and wanted with {}", "",
         spec_text(starts_[r], type.rank(), plan_.mesh),
         spec_text(reshard.path.steps.back().to, type.rank(), plan_.mesh));
  }

  /// Seconds of a node and of the communication of what it leaves.
  std::vector<double> seconds_by_node() const {
    std::vector<double> seconds;
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      seconds.push_back(
          runs_per_step(graph_, graph_.nodes[n]) *
          (node_seconds(classes_.of(n), classes_.share_of(n), plan_.strategies[n], plan_.mesh, model_) +
           cuts_before(n, graph_, classes_, plan_.strategies, plan_.mesh, model_)));
    for (std::size_t r = 0; r < plan_.reshards.size(); ++r)
      seconds[graph_.values[plan_.reshards[r].value].producer] += seconds_[r];
    return seconds;
  }

  void add_choices() {
    const std::vector<double> seconds = seconds_by_node();
    std::vector<int> order;
    for (int n = 0; n < static_cast<int>(seconds.size()); ++n) {
      if (!graph_.nodes[n].operands.empty() && seconds[n] > 0) order.push_back(n);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return seconds[a] > seconds[b]; });
    order.resize(std::min(order.size(), kMaxChoices));
    line("\nMost expensive choices, with what they leave, and the next best while all others stay");
    const auto alternatives = next_best(order, plan_, graph_, model_);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Rule& rule = classes_.of(order[i]).rule;
      line("  {:>9}  {}: {}", seconds_text(seconds[order[i]]), use_text(graph_, {UseKind::node, order[i]}),
           strategy_text(rule, plan_.strategies[order[i]], plan_.mesh));
      if (!alternatives[i]) continue;
      line("  {:>9}  {:+.3g} ms: {}", "", alternatives[i]->extra_seconds * 1e3,
           strategy_text(rule, alternatives[i]->strategy, plan_.mesh));
    }
  }

  const ShardingPlan& plan_;
  const Graph& graph_;
  const CostModel& model_;
  const NodeClasses classes_;
  const PlanCost cost_;
  const std::vector<ShardingSpec> starts_;  ///< of every resharding
  std::vector<double> seconds_;             ///< per step, of every resharding
  std::string text_;
};

}  // namespace

std::string describe(const ShardingSpec& spec, int rank, const DeviceMesh& mesh) {
  return spec_text(spec, rank, mesh);
}

std::string explain(const ShardingPlan& plan, const Graph& graph, const CostModel& model) {
  return Explanation(plan, graph, model).text();
}

}  // namespace alpa
