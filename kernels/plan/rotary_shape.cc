// kernels/plan/rotary_shape.cc — reads a call of rotary
#include "kernels/plan/rotary_shape.h"

#include "src/tensor/kernel.h"

namespace alpa::kernels {

RotaryShape rotary_shape(const KernelCall& call) {
  const TensorType& x = call.inputs.at(0).type;
  return {.dtype = x.dtype,
          .batch = x.shape[0],
          .time = x.shape[1],
          .heads = x.shape[2],
          .width = x.shape[3],
          .per_row = call.inputs.at(1).type.rank() == 2,
          .interleaved = call.attributes->integer("interleaved") != 0,
          .backward = call.attributes->integer("backward") != 0,
          .yarn = call.attributes->contains("yarn"),
          .base = call.attributes->real("base"),
          .factor = call.attributes->real("factor"),
          .original_positions = static_cast<double>(call.attributes->integer("original_positions")),
          .low_turns = call.attributes->real("low_turns"),
          .high_turns = call.attributes->real("high_turns")};
}

}  // namespace alpa::kernels
