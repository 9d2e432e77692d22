// The full listing of a plan
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/plan/sharding_plan.h"
#include "src/report/plan_summary.h"

namespace alpa {
namespace {

constexpr std::size_t kMaxRows = 10, kMaxChoices = 5;

/// All state, what the largest communications and choices cost, and what else could be chosen.
class Listing {
 public:
  explicit Listing(const intra_op::PricedPlan& priced)
      : priced_(priced),
        plan_(priced.plan),
        graph_(priced.graph),
        seconds_(priced.seconds),
        starts_(intra_op::starts_of_reshards(plan_, priced.facts)) {}

  std::string text() {
    add_state();
    add_communications();
    add_choices();
    return std::move(text_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  /// One line per layout and way of updating, in the order of the first tensor of each.
  void add_state() {
    std::vector<std::pair<std::string, std::string>> rows;  // layout, and the tensors in it
    for (const Input& input : graph_.inputs) {
      if (input.kind != InputKind::state) continue;
      const TensorType& type = graph_.type(input.value);
      const std::string layout =
          fmt::format("{}; {}", describe(plan_.specs[input.value], type.rank(), plan_.mesh),
                      intra_op::update_text(plan_, graph_, input));
      const auto row =
          std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.first == layout; });
      const std::string tensor = fmt::format("{} {}", input.name, to_string(type));
      if (row == rows.end())
        rows.emplace_back(layout, tensor);
      else
        row->second += ", " + tensor;
    }
    line("State, a line per layout");
    for (const auto& [layout, tensors] : rows) line("  {}: {}", layout, tensors);
  }

  void add_communications() {
    const std::vector<int> order =
        intra_op::slowest(seconds_.reshards, kMaxRows, [](int) { return true; });
    line("\nLargest communications ({} of {}; seconds and bytes sent per step and device)",
         order.size(), plan_.reshards.size());
    for (int r : order) add_communication(r);
  }

  void add_communication(int r) {
    const PlannedReshard& reshard = plan_.reshards[r];
    const TensorType& type = graph_.type(reshard.value);
    const double bytes = intra_op::runs_of(reshard, graph_) *
                         intra_op::path_sent_bytes(type, starts_[r], reshard.path, plan_.mesh);
    const std::string more =
        reshard.uses.size() > 1 ? fmt::format(" and {} more", reshard.uses.size() - 1) : "";
    line("  {:>9} {:>10}  {} of {} from {} for {}{}", seconds_text(seconds_.reshards[r]),
         bytes_text(bytes), intra_op::path_text(reshard.path, plan_.mesh), to_string(type),
         intra_op::use_text(graph_, {UseKind::node, graph_.values[reshard.value].producer}),
         intra_op::use_text(graph_, reshard.uses.front()), more);
    line("  {:>20}  because it is left with {} and wanted with {}", "",
         describe(starts_[r], type.rank(), plan_.mesh),
         describe(reshard.path.steps.back().to, type.rank(), plan_.mesh));
  }

  /// Seconds of a node and of resharding its results.
  std::vector<double> seconds_by_node() const {
    std::vector<double> seconds = seconds_.nodes;
    for (std::size_t r = 0; r < plan_.reshards.size(); ++r)
      seconds[graph_.values[plan_.reshards[r].value].producer] += seconds_.reshards[r];
    return seconds;
  }

  void add_choices() {
    const std::vector<double> seconds = seconds_by_node();
    const std::vector<int> order = intra_op::slowest(seconds, kMaxChoices, [&](int n) {
      return !graph_.nodes[n].operands.empty() && seconds[n] > 0;
    });
    line("\nMost expensive choices, with what they leave, and the next best while all others stay");
    const auto alternatives = intra_op::next_best(order, priced_);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Rule& rule = priced_.facts.classes.of(order[i]).rule;
      line("  {:>9}  {}: {}", seconds_text(seconds[order[i]]),
           intra_op::use_text(graph_, {UseKind::node, order[i]}),
           intra_op::strategy_text(rule, plan_.strategies[order[i]], plan_.mesh));
      if (!alternatives[i]) continue;
      line("  {:>9}  {}: {}", "", intra_op::extra_text(alternatives[i]->extra_seconds),
           intra_op::strategy_text(rule, alternatives[i]->strategy, plan_.mesh));
    }
  }

  const intra_op::PricedPlan& priced_;
  const ShardingPlan& plan_;
  const Graph& graph_;
  const intra_op::PartSeconds& seconds_;
  const std::vector<ShardingSpec> starts_;  ///< of every resharding
  std::string text_;
};

}  // namespace

std::string explain(const ShardingPlan& plan, const Graph& graph, const cost::CostModel& model,
                    Detail detail, std::optional<std::int64_t> memory_bytes) {
  const intra_op::PricedPlan priced(plan, graph, model);
  const std::string summary = intra_op::plan_summary(priced, memory_bytes);
  return detail == Detail::summary ? summary : summary + "\n" + Listing(priced).text();
}

}  // namespace alpa
