#pragma once
/// Operators as the CUDA executor loads and queues them.
#include <cstdint>
#include <functional>

#include "alpa/ir/op_def.h"
#include "alpa/tensor/kernel.h"
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

class Products;

/// How elementwise programs run: tests and benchmarks force either.
enum class ElementwiseForm : std::uint8_t {
  automatic,    ///< small tensors are interpreted, and all where NVRTC knows nothing of the card
  interpreted,  ///< where the program keeps the limits of kernels/cuda/elementwise.h
  compiled,
};

/// How an einsum_epilogue runs: tests and benchmarks force either.
enum class EpilogueForm : std::uint8_t {
  automatic,  ///< jointly where cuBLASLt has an algorithm for it and apart is not faster
  joint,      ///< one product, wherever shapes and types allow it; Error if cuBLASLt has no algorithm
  apart,      ///< the product, and one kernel behind it
};

/// The card a kernel is loaded on: the current device while kernels are loaded and queued.
struct Card {
  int ordinal = 0;
  int architecture = 0;          ///< 90 for compute capability 9.0
  Products* products = nullptr;  ///< matrix products through cuBLASLt (src/cuda/product.h)
  ElementwiseForm elementwise = ElementwiseForm::automatic;
  EpilogueForm epilogues = EpilogueForm::automatic;
  /// relu of a NaN is NaN, as everywhere else. Else it may be 0, as cuBLASLt's relu has it.
  bool keeps_nan = false;
};

/// Queues one call on `stream`: `call` is the one that was loaded, now with device pointers (workspace,
/// too; `step` is device memory). Allocates nothing and waits for nothing, so that it can be captured.
/// Throws Error with CUDA's message.
using Launch = std::function<void(const KernelCall& call, Stream stream)>;

/// Analyses a call whose data pointers are not valid yet. Throws Error on what CUDA has no kernel for.
using Load = Launch (*)(const OpDef& op, const KernelCall& call, const Card& card);

/// How calls of `op` are loaded; nullptr if there is no kernel. Operators are told apart by name: the
/// records of the library and of the program that loaded it are not the same objects.
Load find_kernel(const OpDef& op);

}  // namespace alpa::cuda
