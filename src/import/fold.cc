// src/import/fold.cc — elements that are known while a text is read: loop counters, positions, and
// tensors of one number
#include <algorithm>
#include <cmath>

#include "src/import/flat.h"

namespace alpa::stablehlo {
namespace {

using Numbers = std::vector<double>;

bool is_whole(const Type& type) { return type.element[0] != 'f' && type.element != "bf16"; }

std::optional<double> compared(const Operation& operation, double x, double y) {
  const std::string& how = operation.attribute("comparison_direction").text;
  if (how == "EQ") return x == y;
  if (how == "NE") return x != y;
  if (how == "LT") return x < y;
  if (how == "LE") return x <= y;
  if (how == "GT") return x > y;
  if (how == "GE") return x >= y;
  return std::nullopt;
}

/// As an element of this type holds it; nullopt where it wraps around.
std::optional<double> held(const Type& type, double x) {
  if (!is_whole(type)) return type.element == "f64" ? x : static_cast<float>(x);
  const double low = type.element[0] == 'u' || type.is_mask() ? 0.0 : -2147483648.0,
               high = type.is_mask()           ? 1.0
                      : type.element[0] == 'u' ? 4294967295.0
                                               : 2147483647.0;
  if (x < low || x > high || x != x) return std::nullopt;
  return std::trunc(x);
}

std::optional<double> arithmetic(const std::string& kind, const Numbers& x) {
  if (kind == "stablehlo.add") return x[0] + x[1];
  if (kind == "stablehlo.subtract") return x[0] - x[1];
  if (kind == "stablehlo.multiply") return x[0] * x[1];
  if (kind == "stablehlo.divide" && x[1] != 0) return x[0] / x[1];
  if (kind == "stablehlo.maximum" || kind == "stablehlo.or") return std::max(x[0], x[1]);
  if (kind == "stablehlo.minimum" || kind == "stablehlo.and") return std::min(x[0], x[1]);
  return std::nullopt;
}

bool moves_alone(const std::string& kind) {
  static const char* const kKinds[] = {
      "stablehlo.broadcast_in_dim", "stablehlo.reshape",
      "stablehlo.transpose",        "stablehlo.slice",
      "stablehlo.reverse",          "stablehlo.optimization_barrier"};
  return std::ranges::find(kKinds, kind) != std::end(kKinds);
}

/// and, or, minimum and maximum of equal elements and a start.
std::optional<double> reduced(const Operation& operation, const Numbers& x) {
  if (operation.blocks.size() != 1 || operation.blocks[0].operations.size() != 2 || x.size() != 2)
    return std::nullopt;
  const std::string& kind = operation.blocks[0].operations[0].kind;
  if (kind == "stablehlo.add" || kind == "stablehlo.multiply") return std::nullopt;
  return arithmetic(kind, x);
}

}  // namespace

std::optional<double> fold(const Operation& operation, const std::vector<FlatValue>& operands,
                           const Type& result) {
  const std::string& kind = operation.kind;
  if (kind == "stablehlo.constant") {
    const Attribute& value = operation.attribute("value");
    if (value.numbers.size() == 1) return value.numbers[0];
    return std::nullopt;
  }
  // alpa has no empty tensors, which jnp.roll along an extent of 1 writes.
  if (result.is_empty()) return 0.0;
  if (operands.size() == 2 && operands[0].type.is_empty() &&
      (kind == "stablehlo.pad" || kind == "stablehlo.reduce"))
    return operands[1].known;
  Numbers x;
  for (const FlatValue& operand : operands) {
    if (!operand.known) return std::nullopt;
    x.push_back(*operand.known);
  }
  if (x.empty()) return std::nullopt;
  if (moves_alone(kind)) return x[0];
  if (kind == "stablehlo.convert") return held(result, result.is_mask() ? x[0] != 0 : x[0]);
  const std::string& element = operands.back().type.element;
  if (element == "bf16" || element == "f16") return std::nullopt;  // rounded twice
  if (kind == "stablehlo.compare" && x.size() == 2) return compared(operation, x[0], x[1]);
  if (kind == "stablehlo.select" && x.size() == 3) return x[0] != 0 ? x[1] : x[2];
  if (kind == "stablehlo.reduce") return reduced(operation, x);
  if (kind == "stablehlo.negate") return held(result, -x[0]);
  if (kind == "stablehlo.sqrt" && x[0] >= 0) return held(result, std::sqrt(x[0]));
  if (kind == "stablehlo.not" && result.is_mask()) return 1 - x[0];
  if (x.size() != 2 || ((kind.ends_with(".and") || kind.ends_with(".or")) && !result.is_mask()))
    return std::nullopt;
  const std::optional<double> found = arithmetic(kind, x);
  return found ? held(result, *found) : std::nullopt;
}

}  // namespace alpa::stablehlo
