#pragma once
/// Operators as the CUDA executor loads and queues them.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "src/base/timing.h"
#include "src/ir/op_def.h"

namespace alpa::cuda {

class DnnPlans;
class Matmuls;

/// Form in which elementwise programs run: tests and benchmarks force either.
enum class ElementwiseForm : std::uint8_t {
  automatic,    ///< small tensors are interpreted, and all where NVRTC knows nothing of the card
  interpreted,  ///< where the program keeps the limits of kernels/cuda/elementwise.h
  compiled,
};

/// Form in which an einsum_epilogue runs: tests and benchmarks force either.
enum class EpilogueForm : std::uint8_t {
  automatic,  ///< jointly where cuBLASLt has an algorithm for it and apart is not faster
  /// one product, wherever shapes and types allow it; Error if cuBLASLt has no algorithm
  joint,
  apart,  ///< the product, and one kernel behind it
};

/// The card a kernel is loaded on: the current device while kernels are loaded and queued.
struct Gpu {
  int ordinal = 0;
  int architecture = 0;         ///< 90 for compute capability 9.0
  Matmuls* products = nullptr;  ///< matrix products through cuBLASLt (src/cuda/matmul.h)
  /// convolutions and attention through cuDNN (src/cuda/dnn_plans.h); null: through plain kernels
  DnnPlans* dnn = nullptr;
  ElementwiseForm elementwise = ElementwiseForm::automatic;
  EpilogueForm epilogues = EpilogueForm::automatic;
  /// relu of a NaN is NaN, as everywhere else. Else it may be 0, as cuBLASLt's relu has it.
  bool keeps_nan = false;
  /// If not null, kernels are not loaded: the sources that loading would compile are added to it.
  std::vector<std::string>* sources = nullptr;
  Stopwatch node = {};  ///< since the node that is loaded began to be; see kNodeSeconds
};

Load load_custom;  ///< src/cuda/load/custom.cc: for operators that the program defined

/// Loader of calls of `op`; nullptr if there is no kernel.
Load* find_kernel(const OpDef& op);

}  // namespace alpa::cuda
