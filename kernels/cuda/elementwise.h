#pragma once
/// Elementwise programs on the device: as instructions of an interpreting
/// kernel, which needs no compilation, and the limits of that form. Plain data;
/// made by `lower_elementwise` (kernels/cuda/elementwise_lower.h).
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

inline constexpr int kMaxElementwiseInputs = 32;
inline constexpr int kMaxElementwiseOutputs = 16;
inline constexpr int kMaxElementwiseConstants = 64;
inline constexpr int kMaxInstructions = 192;
inline constexpr int kMaxSlots = 24;  ///< values kept in shared memory at once, 2 KiB a block each

/// Location of an instruction's operand.
enum class OperandKind : std::uint8_t {
  none,
  previous,  ///< the result of the instruction before: in registers
  slot,      ///< a value kept
  constant
};
struct ElementwiseOperand {
  OperandKind kind = OperandKind::none;
  std::uint8_t index = 0;
};

/// `Instruction::op` of reading an input, operand a's index
inline constexpr std::uint8_t kLoadCode = 255;

/// result = op(a, b, c); then it is kept in `slot` and written to `output` unless those are
/// -1. Invariant: no input is loaded after an output has been written, so that an output
/// may be an input's buffer.
struct Instruction {
  std::uint8_t op = 0;  ///< code of kernels/elementwise.h, or kLoadCode
  ElementwiseOperand a, b, c;
  std::int8_t slot = -1, output = -1;
};

/// How an input meets the results' elements, which are rows of `row` elements.
struct ElementwiseSource {
  const void* data = nullptr;
  enum Kind : std::uint8_t { flat, scalar, rows } kind = flat;
  DType dtype = DType::f32;
  bool packed = false;  ///< neighbours of a pack are neighbours in memory at a multiple of the pack
  std::uint8_t inner_stride = 1;       ///< rows: 0 or 1 along a row
  std::int64_t stride[kMaxDims] = {};  ///< rows: of the dimensions of `ElementwiseLaunch::outer`
};

struct ElementwiseTarget {
  void* data = nullptr;
  DType dtype = DType::f32;
};

struct ElementwiseLaunch {
  std::int64_t elements = 0;
  std::int64_t row = 1;
  int outer_dims = 0;
  std::int64_t outer[kMaxDims] = {};
  bool wide = false;     ///< computed in double, 2 elements a pack; else in float, 4
  bool aligned = false;  ///< all pointers are multiples of 16 bytes: set by `run_elementwise`
  int num_inputs = 0, num_outputs = 0, num_instructions = 0, num_slots = 0;
  ElementwiseSource inputs[kMaxElementwiseInputs];
  ElementwiseTarget outputs[kMaxElementwiseOutputs];
  Instruction instructions[kMaxInstructions];
  double constants[kMaxElementwiseConstants] = {};
};

/// Elements that a thread of the interpreting kernel computes at once.
constexpr int pack_of(bool wide) { return wide ? 2 : 4; }

/// Runs the program over `inputs` and `outputs` (device pointers, as many as the launch has). An
/// output may be the buffer of a flat input of its type. Within 4 ulp of the formulas evaluated in
/// the type of computation for one operator (CUDA's exp, log, tanh, pow; sigmoid and gelu in float:
/// of the larger of 1 and the result; the others are rounded once).
Status run_elementwise(const ElementwiseLaunch& program, const void* const* inputs,
                       void* const* outputs, Stream stream);

}  // namespace alpa::cuda
