// Entries of a boundary's table
#include "src/ilp/model/boundary_table.h"

namespace alpa::ilp {

std::size_t place_of(std::span<const int> sizes, std::span<const int> choices) {
  std::size_t index = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    index = index * static_cast<std::size_t>(sizes[i]) + static_cast<std::size_t>(choices[i]);
  return index;
}

void take_back(std::span<const Step> steps, std::vector<int>& choice) {
  std::vector<int> chosen;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    chosen.clear();
    for (int node : step->scope) chosen.push_back(choice[node]);
    choice[step->node] = (*step->table)[place_of(step->sizes, chosen)];
  }
}

std::vector<int> BoundaryTable::choice(std::span<const int> boundary_choice) const {
  std::vector<int> choice(static_cast<std::size_t>(nodes + copies), 0);
  for (std::size_t i = 0; i < boundary.size(); ++i) choice[boundary[i]] = boundary_choice[i];
  take_back(steps, choice);
  choice.resize(static_cast<std::size_t>(nodes));
  return choice;
}

}  // namespace alpa::ilp
