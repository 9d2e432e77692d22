#pragma once
/// How an elementwise program runs over local tensors: analysed once when the device program is
/// loaded. The results' elements are one flat range, cut into blocks that stay in the L1 cache;
/// every step is a loop over a block.
#include <cstdint>
#include <vector>

#include "src/tensor/elementwise_program.h"
#include "src/tensor/kernel.h"

namespace alpa::kernels {

inline constexpr int kMaxRegisters = 256;
inline constexpr std::int64_t kScratchBytes = 64 * 1024;  ///< on the stack of every thread
inline constexpr std::int64_t kMaxBlock = 1024;           ///< elements

/// How an input meets the iteration space, after dimensions that behave alike are merged.
enum class InputAccess : std::uint8_t {
  flat,    ///< one element per result element
  scalar,  ///< one element for all
  rows,    ///< repeated along some dimensions
};

struct ElementwiseInput {
  InputAccess kind = InputAccess::flat;
  bool convert = false;  ///< stored in another type than the computation's
  /// block of scratch for converted or gathered elements; -1: none needed
  int slot = -1;
  std::int64_t inner_stride = 1;      ///< rows: along a row, 0 or 1
  std::vector<std::int64_t> strides;  ///< rows: of the outer dimensions, in elements
  bool same_rows = false;             ///< rows: each is the same elements, in a slot of its own
  int last_step = -1;                 ///< the last step that reads it
};

struct ElementwisePlan {
  ElementwiseProgram program;  ///< every output is a step, or the only output is a flat input
  bool wide = false;           ///< computed in double
  std::vector<ElementwiseInput> inputs;
  std::vector<int> slots;           ///< scratch block of every step's result
  std::vector<std::int64_t> outer;  ///< extents of the merged dimensions but the innermost
  std::int64_t row = 1;             ///< extent of the innermost
  std::int64_t elements = 1;
  int num_slots = 0;
  std::int64_t block = kMaxBlock;  ///< elements per block, a multiple of every vector length
  bool row_blocks = false;         ///< blocks end where rows end
};

ElementwisePlan plan_elementwise(ElementwiseProgram program, const KernelCall& call);

}  // namespace alpa::kernels
