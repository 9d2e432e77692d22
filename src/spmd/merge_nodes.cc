// src/spmd/merge_nodes.cc — merges nodes where memory allows it
#include "merge_nodes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "live_bytes.h"
#include "rewrite.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa::spmd {
namespace {

/// Nodes that become one. Until one of its results is read, the unit may move down.
struct Unit {
  std::vector<int> nodes;
  int place = 0;  ///< the node whose place it takes
  std::int64_t size = 0;
  bool read = false;
};

class NodeMerger {
 public:
  NodeMerger(const SpmdProgram& program, const MergeRules& rules)
      : program_(program),
        rules_(rules),
        live_(program, rules.slack_bytes),
        unit_of_(program.graph.nodes.size()) {}

  SpmdProgram run() {
    for (int n = 0; n < static_cast<int>(program_.graph.nodes.size()); ++n) {
      for (int value : node(n).operands) units_[unit_producing(value)].read = true;
      std::optional<std::string> kind = rules_.kind(node(n));
      if (kind) *kind += " on mesh " + std::to_string(program_.mesh_index(node(n).results[0]));
      if (!kind)
        append({{n}, n});
      else if (!joins_one(n, open_[*kind]))
        open(append({{n}, n, rules_.size(node(n))}), open_[*kind]);
    }
    return with_nodes(program_, nodes());
  }

 private:
  const Node& node(int n) const { return program_.graph.nodes[n]; }
  int producer(int value) const { return program_.graph.values[value].producer; }
  int unit_producing(int value) const { return unit_of_[producer(value)]; }
  bool is_input(int value) const { return node(producer(value)).op == &ops::input; }

  int append(Unit unit) {
    for (int n : unit.nodes) unit_of_[n] = static_cast<int>(units_.size());
    units_.push_back(std::move(unit));
    return static_cast<int>(units_.size()) - 1;
  }

  /// Two units of a kind stay open: the newest, and behind it one that has been read for what is
  /// ready as early, as gathers of state are.
  static void open(int unit, std::vector<int>& units) {
    constexpr std::size_t kOpen = 2;
    if (units.size() == kOpen) units.erase(units.begin());
    units.push_back(unit);
  }

  bool joins_one(int n, std::vector<int>& units) {
    return std::any_of(units.begin(), units.end(), [&](int& unit) {
      return (units_[unit].read || unit == units.back()) && joins(n, unit);
    });
  }

  /// Takes node `n` into an open unit. A unit that nobody has read moves down to its newest member;
  /// to one that has been read the member moves up, if its operands are there.
  bool joins(int n, int& unit) {
    if (units_[unit].size + rules_.size(node(n)) > rules_.limit) return false;
    if (!units_[unit].read) {
      if (!live_.grow(n, growth_down(units_[unit], n))) return false;
      unit = append(std::exchange(units_[unit], {}));
      units_[unit].place = n;
    } else if (!moves_up(n, unit)) {
      return false;
    }
    units_[unit].nodes.push_back(n);
    units_[unit].size += rules_.size(node(n));
    unit_of_[n] = unit;
    return true;
  }

  bool moves_up(int n, int unit) {
    const auto made_before = [&](int value) {
      return is_input(value) || unit_producing(value) < unit;
    };
    return std::all_of(node(n).operands.begin(), node(n).operands.end(), made_before) &&
           live_.grow(n, growth_up(n, units_[unit].place));
  }

  /// Operands are held and results made later.
  std::vector<Growth> growth_down(const Unit& unit, int to) const {
    std::int64_t held = 0, freed = 0;
    for (int n : unit.nodes) {
      freed += live_.freed_by(n);
      held += live_.freed_by(n) - live_.allocated_by(n);
    }
    const bool in_place = alpa::in_place(node(to)) != InPlace::none;
    return {{unit.place + 1, to, held}, {to, to + 1, in_place ? held : freed}};
  }

  /// The results are made, and operands freed, earlier.
  std::vector<Growth> growth_up(int n, int to) const {
    const std::int64_t made = live_.allocated_by(n), freed = live_.freed_by(n);
    const bool in_place = alpa::in_place(node(n)) != InPlace::none;
    return {{to, to + 1, in_place ? std::max<std::int64_t>(made - freed, 0) : made},
            {to + 1, n, made - freed},
            {n, n + 1, -freed}};
  }

  /// The units as nodes.
  std::vector<Node> nodes() const {
    std::vector<Node> nodes;
    for (const Unit& unit : units_)
      if (!unit.nodes.empty()) nodes.push_back(joint(unit.nodes));
    return with_inputs_first(program_.graph, nodes);
  }

  Node joint(const std::vector<int>& members) const {
    if (members.size() == 1) return node(members.front());
    std::vector<const Node*> nodes;
    for (int n : members) nodes.push_back(&node(n));
    return rules_.merged(nodes);
  }

  const SpmdProgram& program_;
  const MergeRules& rules_;
  LiveBytes live_;
  std::vector<Unit> units_;                       ///< in order; empty where a unit has moved away
  std::vector<int> unit_of_;                      ///< per node seen so far
  std::map<std::string, std::vector<int>> open_;  ///< units that may still grow, by kind
};

}  // namespace

SpmdProgram merge_nodes(const SpmdProgram& program, const MergeRules& rules) {
  return NodeMerger(program, rules).run();
}

}  // namespace alpa::spmd
