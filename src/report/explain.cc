// The full listing of a plan
#include <fmt/ranges.h>

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
      : priced_(priced), plan_(priced.plan), graph_(priced.graph), seconds_(priced.seconds) {}

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
    std::vector<intra_op::LayoutGroup> groups;
    for (const Input& input : graph_.inputs) {
      if (input.kind != InputKind::state) continue;
      const TensorType& type = graph_.type(input.value);
      add_to_group(
          groups,
          fmt::format("{}; {}", describe(plan_.specs[input.value], type.rank(), plan_.mesh),
                      intra_op::update_text(plan_, graph_, input)),
          fmt::format("{} {}", input.name, to_string(type)), 0);
    }
    line("State, a line per layout");
    for (const intra_op::LayoutGroup& group : groups)
      line("  {}: {}", group.layout, fmt::join(group.names, ", "));
  }

  void add_communications() {
    const std::vector<intra_op::Communication> all = intra_op::communications(priced_);
    const std::vector<int> order =
        intra_op::slowest(seconds_.reshards, kMaxRows, [](int) { return true; });
    line("\nLargest communications ({} of {}; seconds and bytes sent per step and device)",
         order.size(), all.size());
    for (int r : order) {
      const intra_op::Communication& one = all[r];
      const std::size_t uses = plan_.reshards[r].uses.size();
      line("  {:>9} {:>10}  {} of {} from {} for {}{}", seconds_text(one.seconds),
           bytes_text(one.bytes), one.path, one.type, one.from, one.target,
           uses > 1 ? fmt::format(" and {} more", uses - 1) : "");
      line("  {:>20}  because it is left with {} and wanted with {}", "", one.left, one.wanted);
    }
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
      const int n = order[i];
      line("  {:>9}  {}: {}", seconds_text(seconds[n]),
           intra_op::use_text(graph_, {UseKind::node, n}),
           intra_op::strategy_text(priced_, n, plan_.strategies[n]));
      if (!alternatives[i]) continue;
      line("  {:>9}  {}: {}", "", intra_op::extra_text(alternatives[i]->extra_seconds),
           intra_op::strategy_text(priced_, n, alternatives[i]->strategy));
    }
  }

  const intra_op::PricedPlan& priced_;
  const ShardingPlan& plan_;
  const Graph& graph_;
  const intra_op::PartSeconds& seconds_;
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
