// src/import/own_random.cc — jax.random.uniform, whose bits threefry computes → random_uniform
#include <cmath>
#include <map>
#include <tuple>

#include "src/import/match.h"
#include "src/import/patterns.h"

namespace alpa::stablehlo {
namespace {

void add_text(const Attribute& attribute, std::string& text) {
  text += attribute.text + "<";
  for (double number : attribute.numbers) text += fmt::format("{},", number);
  for (const Attribute& item : attribute.items) add_text(item, text);
  for (const auto& [name, value] : attribute.fields) text += name + "=", add_text(value, text);
  text += ">";
}

/// For each unsigned value, the first one that the same operations compute of the same: a
/// gradient's text may draw the numbers of the forward part again.
std::vector<int> first_alike(const FlatFunction& flat) {
  std::vector<int> found(flat.values.size());
  std::map<std::string, int> first;
  for (std::size_t v = 0; v < found.size(); ++v) {
    found[v] = static_cast<int>(v);
    if (const auto& known = flat.values[v].known)
      found[v] = first.emplace(fmt::format("{} {}", to_string(flat.values[v].type), *known), v)
                     .first->second;
  }
  for (const FlatOperation& operation : flat.operations) {
    if (!operation.source->blocks.empty()) continue;
    std::string key = operation.kind;
    for (int v : operation.operands) key += fmt::format(" {}", found[static_cast<std::size_t>(v)]);
    for (const auto& [name, value] : operation.source->attributes)
      key += name + "=", add_text(value, key);
    for (std::size_t i = 0; i < operation.results.size(); ++i) {
      const auto v = static_cast<std::size_t>(operation.results[i]);
      if (const Type& type = flat.values[v].type; type.is_unsigned())
        found[v] = first.emplace(fmt::format("{} {} {}", key, i, to_string(type)), v).first->second;
    }
  }
  return found;
}

struct Uniform {
  int bits = -1;
  double low = 0, high = 1;
};

/// The operand beside a known number; -1: neither is known.
int beside(const Matching& m, const FlatOperation* operation, double& number) {
  int found = -1;
  either_way(operation, [&](int x, int y) {
    if (m.known(y)) number = *m.known(y), found = x;
    return found >= 0;
  });
  return found;
}

/// max(low, (float of bits - 1) · (high - low) + low), where the float has the bits' first 23 as
/// its fraction.
std::optional<Uniform> uniform_of(const Matching& m, const FlatOperation& operation) {
  constexpr double kDropped = 9, kOne = 0x3F800000;
  if (operation.kind != "stablehlo.maximum") return std::nullopt;
  double low = 0, added = 0, range = 0, one = 0;
  const int sum = beside(m, &operation, low),
            product = beside(m, m.made_by(sum, "stablehlo.add"), added),
            fraction = beside(m, m.made_by(product, "stablehlo.multiply"), range);
  const FlatOperation *const minus = m.made_by(fraction, "stablehlo.subtract"),
                             *const cast =
                                 minus ? m.made_by(minus->operands[0], "stablehlo.bitcast_convert")
                                       : nullptr;
  const int shifted = cast ? beside(m, m.made_by(cast->operands[0], "stablehlo.or"), one) : -1;
  const FlatOperation* const shift = m.made_by(shifted, "stablehlo.shift_right_logical");
  if (!shift || low != added || one != kOne || m.known(minus->operands[1]) != 1.0 ||
      m.known(shift->operands[1]) != kDropped)
    return std::nullopt;
  return Uniform{shift->operands[0], low, low + range};
}

}  // namespace

FlatFunction with_own_random(FlatFunction function) {
  const std::vector<int> first = first_alike(function);
  Matching m{.flat = std::move(function), .uses = {}, .found = {}};
  std::map<std::tuple<int, double, double>, int> drawn;
  std::map<int, int> instead;
  const auto follow = [&](std::vector<int>& values) {
    for (int& v : values)
      if (const auto found = instead.find(v); found != instead.end()) v = found->second;
  };
  for (FlatOperation& operation : m.flat.operations) {
    follow(operation.operands);
    const std::optional<Uniform> uniform = uniform_of(m, operation);
    if (!uniform) continue;
    const auto [numbers, is_new] = drawn.try_emplace(
        {first[static_cast<std::size_t>(uniform->bits)], uniform->low, uniform->high},
        operation.results[0]);
    if (is_new)
      operation.kind = "alpa.random_uniform", operation.operands = {},
      operation.numbers = {uniform->low, uniform->high};
    else
      instead[operation.results[0]] = numbers->second;
  }
  follow(m.flat.results);
  prune(m.flat);
  return std::move(m.flat);
}

/// where(uniform < keep, x / keep, 0)
bool match_dropout(Matching& m, FlatOperation& operation) {
  if (operation.kind != "stablehlo.select" || m.known(operation.operands[2]) != 0.0) return false;
  const FlatOperation* const less = m.made_by(operation.operands[0], "stablehlo.compare");
  const FlatOperation* const uniform =
      less ? m.made_by(less->operands[0], "alpa.random_uniform") : nullptr;
  if (!uniform || less->source->attribute("comparison_direction").text != "LT") return false;
  const std::optional<double> keep = m.known(less->operands[1]);
  double scale = 0;
  const int x = scaled(m, operation.operands[1], scale);
  constexpr double kTolerance = 1e-6;
  if (!keep || *keep <= 0 || *keep > 1 || x < 0 || std::abs(scale * *keep - 1) > kTolerance ||
      uniform->numbers != std::vector<double>{0, 1})
    return false;
  return replace(m, operation,
                 {.kind = "alpa.dropout", .operands = {x}, .results = {}, .numbers = {1 - *keep}},
                 uniform->results[0]);
}

}  // namespace alpa::stablehlo
