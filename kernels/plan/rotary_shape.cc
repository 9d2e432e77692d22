// kernels/plan/rotary_shape.cc — reads a call of rotary
#include "kernels/plan/rotary_shape.h"

#include <algorithm>

#include "src/tensor/kernel.h"

namespace alpa::kernels {

RotaryShape rotary_shape(const KernelCall& call) {
  const TensorType& x = call.inputs.at(0).type;
  const Attributes& given = *call.attributes;
  RotaryShape shape{.dtype = x.dtype,
                    .batch = x.shape[0],
                    .time = x.shape[1],
                    .heads = x.shape[2],
                    .width = x.shape[3],
                    .per_row = call.inputs.at(1).type.rank() == 2,
                    .interleaved = given.integer("interleaved") != 0,
                    .backward = given.integer("backward") != 0,
                    .yarn = given.contains("yarn"),
                    .magnitude = given.contains("magnitude") ? given.real("magnitude") : 1,
                    .base = given.real("base"),
                    .factor = given.real("factor"),
                    .original_positions = static_cast<double>(given.integer("original_positions")),
                    .low_turns = given.real("low_turns"),
                    .high_turns = given.real("high_turns")};
  if (given.contains("factors")) std::ranges::copy(given.reals("factors"), shape.factors);
  return shape;
}

}  // namespace alpa::kernels
