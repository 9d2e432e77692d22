// src/ops/rotary.cc — rotary position embedding: pairs of a head's elements are turned by angles
// that grow with the position
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/rotary_shape.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Factors B, T, H and D; positions have T, maybe B.
Rule rotary_rule(const OpQuery& query) {
  ops::require_operands(query, 2);
  const TensorType &x = query.operands[0], &positions = query.operands[1];
  const Shape& shape = x.shape;
  if (!is_floating(x.dtype) || shape.size() != 4 || shape[3] % 2 != 0)
    fail("rotary: x must be floating [B, T, H, D] with even D ({})", to_string(query.operands));
  if (positions.dtype != i32 ||
      (positions.shape != Shape{shape[1]} && positions.shape != Shape{shape[0], shape[1]}))
    fail("rotary: positions must be i32 [T] or [B, T] ({})", to_string(query.operands));
  for (const char* real : {"base", "factor", "low_turns", "high_turns"})
    query.attributes.real(real);
  for (const char* integer : {"interleaved", "backward", "original_positions"})
    query.attributes.integer(integer);
  if (query.attributes.contains("factors")) {
    const std::int64_t factors = std::ssize(query.attributes.reals("factors"));
    if (factors != shape[3] / 2 || factors > kernels::RotaryShape::kMostFactors)
      fail("rotary: {} factors of {} pairs; give one per pair, of at most {}", factors,
           shape[3] / 2, kernels::RotaryShape::kMostFactors);
  }
  Rule rule{.factors = {{shape[0]}, {shape[1]}, {shape[2]}, {shape[3], true}},
            .operands = {{{0}, {1}, {2}, {3}}, {{1}}},
            .results = {{{0}, {1}, {2}, {3}}},
            .linear = {0b01},
            .flops_per_point = 20};
  if (positions.shape.size() == 2) rule.operands[1] = {{0}, {1}};
  return rule;
}

void check(const RotaryScaling& scaling) {
  require(scaling.factor > 0, "rotary: the scaling's factor must be above 0, not {}",
          scaling.factor);
  require(scaling.original_positions >= 0,
          "rotary: the scaling's original positions must be at least 0, not {}",
          scaling.original_positions);
  require(0 < scaling.low_turns && scaling.low_turns < scaling.high_turns,
          "rotary: the scaling's low turns must be above 0 and below its high turns, not {} and {}",
          scaling.low_turns, scaling.high_turns);
  require(!scaling.yarn || scaling.original_positions > 0,
          "rotary: YaRN needs the positions of training; give `original_positions`");
  require(scaling.magnitude > 0, "rotary: the scaling's magnitude must be above 0, not {}",
          scaling.magnitude);
  require(std::ranges::all_of(scaling.factors, [](double factor) { return factor > 0; }),
          "rotary: the scaling's factors must be above 0");
}

}  // namespace

// A rotation's gradient is the rotation backward.
const OpDef ops::rotary = {
    .name = "rotary",
    .rule = rotary_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      Attributes attributes = n.attributes;
      attributes.set("backward", std::int64_t{1} - attributes.integer("backward"));
      return {g.emit_one(ops::rotary, {dys[0], g.operand(n, 1)}, attributes), Value{}};
    },
    .in_place = InPlace::paired,
    .cpu = &cpu::rotary,
};

Value rotary(Value x, Value positions, RotaryOptions options) {
  require(x && positions, "rotary: an operand is an empty Value");
  require(options.base > 0, "rotary: base must be above 0, not {}", options.base);
  const RotaryScaling scaling = options.scaling.value_or(RotaryScaling{});
  check(scaling);
  Attributes attributes{
      {"base", options.base},           {"interleaved", std::int64_t{options.interleaved}},
      {"factor", scaling.factor},       {"original_positions", scaling.original_positions},
      {"low_turns", scaling.low_turns}, {"high_turns", scaling.high_turns},
      {"backward", std::int64_t{0}}};
  if (scaling.yarn) attributes.set("yarn", std::int64_t{1});
  if (!scaling.factors.empty()) attributes.set("factors", scaling.factors);
  if (scaling.magnitude != 1) attributes.set("magnitude", scaling.magnitude);
  return recorder(x).emit_one(ops::rotary, {x, positions}, attributes);
}

}  // namespace alpa
