// How a node is split over a mesh, from its index rule alone
#include "src/plan/facts/strategy.h"

#include <algorithm>
#include <optional>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/leading_number.h"

namespace alpa {
namespace {

using Kind = AxisRole::Kind;
constexpr int kMaxRoleIndex = 256;  // AxisRole::index is one byte

/// How an axis of this role leaves result `i` partial; nullopt if it does not.
std::optional<Combiner> combiner_of(const Rule& rule, const AxisRole& role, int i) {
  if (role.kind == Kind::linear) return Combiner::sum;
  return role.kind == Kind::factor ? reduction(rule, i, role.index) : std::nullopt;
}

/// Depth-first over the mesh axes; keeps how many parts each factor is in.
class Enumeration {
 public:
  Enumeration(const Rule& rule, const DeviceMesh& mesh, intra_op::IdleDevices idle)
      : rule_(rule), mesh_(mesh), idle_(idle), parts_(rule.factors.size(), 1) {}

  std::vector<Strategy> run() && {
    choose(0);
    return std::move(found_);
  }

 private:
  void choose(int axis) {
    if (axis == mesh_.num_axes()) {
      found_.push_back(strategy_);
      return;
    }
    choose(axis + 1);
    if (mesh_.size(axis) == 1) return;
    for (int f = 0; f < static_cast<int>(rule_.factors.size()); ++f) choose_factor(axis, f);
    for (int l = 0; l < static_cast<int>(rule_.linear.size()); ++l)
      with(axis, {Kind::linear, static_cast<std::uint8_t>(l)});
  }

  void choose_factor(int axis, int f) {
    const Factor& factor = rule_.factors[f];
    const std::int64_t parts = parts_[f] * mesh_.size(axis);
    const std::int64_t least = idle_ == intra_op::IdleDevices::allowed ? 2 : parts;
    if (factor.whole || factor.size < least) return;
    if (factor.even_only && factor.size % parts != 0) return;
    parts_[f] = parts;
    with(axis, {Kind::factor, static_cast<std::uint8_t>(f)});
    parts_[f] /= mesh_.size(axis);
  }

  /// A spec has one combiner: no result may be partial sums over `axis` and maxima over an axis
  /// before it, or the reverse.
  bool mixes_combiners(int axis, const AxisRole& role) const {
    for (int i = 0; i < static_cast<int>(rule_.results.size()); ++i) {
      const std::optional<Combiner> mine = combiner_of(rule_, role, i);
      for (int before = 0; mine && before < axis; ++before) {
        const std::optional<Combiner> other = combiner_of(rule_, strategy_.axes[before], i);
        if (other && *other != *mine) return true;
      }
    }
    return false;
  }

  void with(int axis, AxisRole role) {
    if (mixes_combiners(axis, role)) return;
    strategy_.axes[axis] = role;
    choose(axis + 1);
    strategy_.axes[axis] = {};
  }

  const Rule& rule_;
  const DeviceMesh& mesh_;
  const intra_op::IdleDevices idle_;
  std::vector<std::int64_t> parts_;  ///< of every factor, under the roles chosen so far
  Strategy strategy_;
  std::vector<Strategy> found_;
};

bool splits(const Strategy& strategy, int axis, int factor) {
  return strategy.axes[axis].kind == Kind::factor && strategy.axes[axis].index == factor;
}

/// Splits of a tensor with these dimensions: by dimension, then factor, then mesh axis.
ShardingSpec split_spec(const DimFactors& dims, const Strategy& strategy, const DeviceMesh& mesh) {
  ShardingSpec spec;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    for (int factor : dims[d]) {
      for (int axis = 0; axis < mesh.num_axes(); ++axis) {
        if (splits(strategy, axis, factor)) spec = spec.split(axis, d);
      }
    }
  }
  return spec;
}

[[noreturn]] void bad_strategy(std::string_view text, std::string_view what) {
  fail(
      "strategy \"{}\": {}; write \"-\", or words like \"f0@1\" (factor 0 split over mesh axis 1) "
      "and \"l0@0\" (linear set 0 partial over mesh axis 0)",
      excerpt(text), excerpt(what, 200));
}

int take_number(std::string_view text, std::string_view& rest, int limit, std::string_view what) {
  const std::string before(rest);
  const int number = take_leading_number(rest).value_or(limit);
  if (number >= limit)
    bad_strategy(text, fmt::format("expected a {} below {} at \"{}\"", what, limit, before));
  return number;
}

void parse_word(std::string_view text, std::string_view word, Strategy& strategy) {
  const char letter = word.empty() ? ' ' : word.front();
  if (letter != 'f' && letter != 'l') bad_strategy(text, fmt::format("unknown word \"{}\"", word));
  std::string_view rest = word.substr(1);
  const bool factor = letter == 'f';
  const int index = take_number(text, rest, kMaxRoleIndex, factor ? "factor" : "linear set");
  if (rest.empty() || rest.front() != '@')
    bad_strategy(text, fmt::format("expected \"@\" and a mesh axis at \"{}\"", rest));
  rest.remove_prefix(1);
  const int axis = take_number(text, rest, kMaxMeshAxes, "mesh axis");
  if (!rest.empty())
    bad_strategy(text, fmt::format("unexpected \"{}\" after mesh axis {}", rest, axis));
  AxisRole& role = strategy.axes[axis];
  if (role.kind != Kind::none) bad_strategy(text, fmt::format("mesh axis {} is used twice", axis));
  role = {factor ? Kind::factor : Kind::linear, static_cast<std::uint8_t>(index)};
}

}  // namespace

std::vector<Strategy> intra_op::all_strategies(const Rule& rule, const DeviceMesh& mesh,
                                               IdleDevices idle) {
  invariant(rule.factors.size() < kMaxRoleIndex && rule.linear.size() < kMaxRoleIndex,
            "rule with {} factors and {} linear sets", rule.factors.size(), rule.linear.size());
  return Enumeration(rule, mesh, idle).run();
}

bool intra_op::keeps_sum_order(const Rule& rule, const Strategy& strategy, const DeviceMesh& mesh) {
  int parts = 1;  // of the chunked factor
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const AxisRole& role = strategy.axes[axis];
    if (role.kind == Kind::linear) return false;
    if (role.kind != Kind::factor) continue;
    for (int i = 0; i < static_cast<int>(rule.results.size()); ++i) {
      const std::optional<Combiner> combiner = reduction(rule, i, role.index);
      if (!combiner || combiner == Combiner::max) continue;
      if (combiner != Combiner::sum || role.index != rule.chunked) return false;
    }
    if (role.index == rule.chunked) parts *= mesh.size(axis);
  }
  return sum_chunks(rule) % parts == 0;
}

std::vector<int> intra_op::factor_of_axis(const Strategy& strategy, const DeviceMesh& mesh) {
  std::vector<int> factors(mesh.num_axes(), -1);
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (strategy.axes[axis].kind == Kind::factor) factors[axis] = strategy.axes[axis].index;
  }
  return factors;
}

int intra_op::devices_used(const Strategy& strategy, const DeviceMesh& mesh, std::uint32_t axes) {
  int devices = 1;
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (axes >> axis & 1 && strategy.axes[axis].kind == Kind::factor) devices *= mesh.size(axis);
  return devices;
}

ShardingSpec intra_op::operand_spec(const Rule& rule, const Strategy& strategy,
                                    const DeviceMesh& mesh, int i) {
  if (i == rule.addend) return result_spec(rule, strategy, mesh, 0);
  ShardingSpec spec = split_spec(rule.operands.at(i), strategy, mesh);
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const AxisRole& role = strategy.axes[axis];
    if (role.kind == Kind::linear && (rule.linear.at(role.index) >> i & 1))
      spec = spec.partial(axis);
  }
  return spec;
}

ShardingSpec intra_op::result_spec(const Rule& rule, const Strategy& strategy,
                                   const DeviceMesh& mesh, int i) {
  ShardingSpec spec = split_spec(rule.results.at(i), strategy, mesh);
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (const auto combiner = combiner_of(rule, strategy.axes[axis], i))
      spec = spec.partial(axis, *combiner);
  return spec;
}

std::string to_string(const Strategy& strategy) {
  std::string text;
  for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
    const AxisRole& role = strategy.axes[axis];
    if (role.kind == Kind::none) continue;
    text += fmt::format("{}{}{}@{}", text.empty() ? "" : " ", role.kind == Kind::factor ? 'f' : 'l',
                        static_cast<int>(role.index), axis);
  }
  return text.empty() ? "-" : text;
}

Strategy parse_strategy(std::string_view text) {
  Strategy strategy;
  if (text == "-") return strategy;
  std::string_view rest = text;
  while (true) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    parse_word(text, rest.substr(0, end), strategy);
    if (end == rest.size()) return strategy;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace alpa
