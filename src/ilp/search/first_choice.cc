// Dives and repairs in turn until a choice is feasible
#include "src/ilp/search/first_choice.h"

#include <algorithm>

#include "src/ilp/model/copy_states.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/search/dive.h"
#include "src/ilp/search/local_search.h"

namespace alpa::ilp {
namespace {

class DiveSearch {
 public:
  DiveSearch(const Model& model, const Deadline& deadline)
      : model_(model), deadline_(deadline), diver_(model) {}

  std::vector<int> run(int dives) {
    const bool rows = !model_.slack.empty();
    settings_.conflicts = kTuning.first_choice.first_conflicts;
    for (int k = 0; k < dives && !deadline_.passed(); ++k) {
      settings_.keep_rows = rows && k % 2 == 1;
      if (auto choice = dive()) return *std::move(choice);
      if (rows && !settings_.keep_rows) continue;
      settings_.conflicts = std::min(2 * settings_.conflicts, kTuning.first_choice.most_conflicts);
    }
    return {};
  }

 private:
  std::optional<std::vector<int>> dive() {
    std::optional<std::vector<int>> choice = diver_.dive(settings_, deadline_);
    if (diver_.exhausted()) throw Contradiction{};
    if (!choice) return std::nullopt;
    if (has_copies(model_)) CopyStates(model_, {}).complete(*choice);
    const bool allowed = !has_copies(model_) || price(model_, *choice) < kNever;
    if ((allowed && fits(model_, *choice)) ||
        repair(model_, *choice, settings_.conflicts, deadline_))
      return choice;
    return std::nullopt;
  }

  const Model& model_;
  const Deadline& deadline_;
  Diver diver_;
  Diver::Settings settings_;
};

}  // namespace

std::vector<int> first_choice(const Model& model, int dives, const Deadline& deadline) {
  return DiveSearch(model, deadline).run(dives);
}

}  // namespace alpa::ilp
