// src/spmd/bucket_collectives.cc — reductions early, small ones together
#include <algorithm>
#include <compare>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "alpa/ir/input.h"
#include "live_bytes.h"
#include "rewrite.h"

namespace alpa {
namespace {

/// What the members of one bucket have in common.
struct Kind {
  const OpDef* op;
  std::vector<std::int64_t> axes;
  Combiner combiner;  ///< of reductions
  DType dtype;
  Region region;
  auto operator<=>(const Kind&) const = default;
};

template <class T>
void append_to(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// Nodes that become one. Until one of its results is read, the unit may move down.
struct Unit {
  std::vector<int> nodes;
  int place = 0;           ///< the node in whose place it stands
  std::int64_t bytes = 0;  ///< payload of a collective
  bool read = false;
};

class Bucketing {
 public:
  Bucketing(const SpmdProgram& program, std::int64_t bucket_bytes)
      : program_(program),
        bucket_bytes_(bucket_bytes),
        live_(program),
        unit_of_(program.graph.nodes.size()) {}

  SpmdProgram run() {
    for (int n = 0; n < static_cast<int>(program_.graph.nodes.size()); ++n) {
      for (int value : node(n).operands) units_[unit_producing(value)].read = true;
      if (!is_small(n))
        append({{n}, n});
      else if (!joins(n))
        open_.insert_or_assign(kind(n), append({{n}, n, bytes(n)}));
    }
    return with_nodes(program_, nodes());
  }

 private:
  const Node& node(int n) const { return program_.graph.nodes[n]; }
  int unit_producing(int value) const { return unit_of_[program_.graph.values[value].producer]; }
  std::int64_t bytes(int n) const { return payload_bytes(program_, node(n)); }

  bool is_small(int n) const {
    return is_collective(node(n)) && node(n).op != &ops::all_to_all && bytes(n) < bucket_bytes_;
  }

  Kind kind(int n) const {
    const int value = node(n).operands[0];
    const std::vector<std::int64_t>& axes = node(n).attributes.integers("axes");
    return {node(n).op, axes, program_.specs[value].axes[axes[0]].combiner,
            program_.graph.type(value).dtype, node(n).region};
  }

  bool is_input(int value) const { return program_.graph.producer(value).op == &ops::input; }

  int append(Unit unit) {
    for (int n : unit.nodes) unit_of_[n] = static_cast<int>(units_.size());
    units_.push_back(std::move(unit));
    return static_cast<int>(units_.size()) - 1;
  }

  /// Takes node `n` into the open bucket of its kind. A bucket that nobody has read moves down to its
  /// newest member; to one that has been read the member moves up, if its operands are there. Neither may
  /// raise the peak of what lives at once.
  bool joins(int n) {
    const auto open = open_.find(kind(n));
    if (open == open_.end()) return false;
    int& bucket = open->second;
    if (units_[bucket].bytes + bytes(n) > bucket_bytes_) return false;
    const auto made_before = [&](int value) { return is_input(value) || unit_producing(value) < bucket; };
    if (!units_[bucket].read) {
      if (!live_.grow(growth_down(units_[bucket], n))) return false;
      bucket = append(std::exchange(units_[bucket], {}));
      units_[bucket].place = n;
    } else if (!std::all_of(node(n).operands.begin(), node(n).operands.end(), made_before) ||
               !live_.grow(growth_up(n, units_[bucket].place))) {
      return false;
    }
    units_[bucket].nodes.push_back(n);
    units_[bucket].bytes += bytes(n);
    unit_of_[n] = bucket;
    return true;
  }

  /// Operands are held and results made later.
  std::vector<Growth> growth_down(const Unit& unit, int to) const {
    std::int64_t held = 0, freed = 0;
    for (int n : unit.nodes) {
      freed += live_.freed_by(n);
      held += live_.freed_by(n) - live_.made_by(n);
    }
    const bool in_place = node(to).op->in_place;
    return {{unit.place + 1, to, held}, {to, to + 1, in_place ? held : freed}};
  }

  /// The results are made, and operands freed, earlier.
  std::vector<Growth> growth_up(int n, int to) const {
    const std::int64_t made = live_.made_by(n), freed = live_.freed_by(n);
    return {{to, to + 1, made}, {to + 1, n, made - freed}, {n, n + 1, -freed}};
  }

  /// The units as nodes. Inputs stand before what reads them, also where that has moved up, and keep their
  /// order.
  std::vector<Node> nodes() const {
    const Graph& graph = program_.graph;
    std::vector<Node> nodes;
    std::size_t inputs = 0;
    const auto add_inputs_to = [&](int n) {
      for (; inputs < graph.inputs.size() && graph.values[graph.inputs[inputs].value].producer <= n;
           ++inputs)
        nodes.push_back(graph.producer(graph.inputs[inputs].value));
    };
    for (const Unit& unit : units_) {
      for (int n : unit.nodes)
        for (int value : node(n).operands)
          if (is_input(value)) add_inputs_to(graph.values[value].producer);
      if (unit.nodes.empty()) continue;
      if (node(unit.nodes.front()).op == &ops::input)
        add_inputs_to(unit.nodes.front());
      else
        nodes.push_back(joined(unit.nodes));
    }
    return nodes;
  }

  Node joined(const std::vector<int>& unit) const {
    Node result = node(unit.front());
    if (unit.size() == 1) return result;
    std::vector<std::int64_t> dims;
    result.operands.clear(), result.results.clear();
    for (int n : unit) {
      append_to(result.operands, node(n).operands);
      append_to(result.results, node(n).results);
      if (node(n).op != &ops::all_reduce) append_to(dims, node(n).attributes.integers("dims"));
    }
    if (!dims.empty()) result.attributes.set("dims", std::move(dims));
    result.name += fmt::format("+{}", unit.size() - 1);
    return result;
  }

  const SpmdProgram& program_;
  std::int64_t bucket_bytes_;
  LiveBytes live_;
  std::vector<Unit> units_;   ///< in order; empty where a bucket has moved away
  std::vector<int> unit_of_;  ///< per node seen so far
  std::map<Kind, int> open_;  ///< units that may still grow
};

}  // namespace

SpmdProgram bucket_collectives(const SpmdProgram& program, std::int64_t bucket_bytes) {
  const SpmdProgram early = reductions_early(program);
  return Bucketing(early, bucket_bytes).run();
}

}  // namespace alpa
