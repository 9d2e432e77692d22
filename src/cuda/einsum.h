#pragma once
/// Runs an einsum on the device in the steps of kernels/cuda/einsum_plan.h. Shared by
/// einsum and einsum_epilogue.
#include <memory>
#include <optional>
#include <string_view>

#include "kernel.h"
#include "kernels/cuda/einsum_plan.h"
#include "matmul.h"

namespace alpa::cuda {

/// The product of the steps, with this epilogue.
MatmulProblem product_shape(const EinsumSteps& steps, const Epilogue& epilogue);

/// Buffers that a product's epilogue reads or writes beside the operands and the result.
struct EpilogueBuffers {
  std::byte* vector = nullptr;  ///< the bias, or the destination of the sums
  std::byte* kept = nullptr;
  const std::byte* addend = nullptr;
};

/// The steps of one call, loaded. Belongs to one host thread at a time.
class EinsumLaunch {
 public:
  /// `op` is named in errors. Null if cuBLASLt has no algorithm for the product with this epilogue;
  /// for a plain one that is an Error.
  static std::shared_ptr<const EinsumLaunch> load(std::string_view op, const EinsumSteps& steps,
                                                  const KernelCall& call, const Gpu& card,
                                                  const Epilogue& epilogue = {});

  /// Queues all steps for the operands of `call`, with result 0 at `result`.
  void run(const KernelCall& call, std::byte* result, const EpilogueBuffers& epilogue,
           Stream stream) const;

 private:
  /// An elementwise program over tensors that are known when it is queued.
  struct Pass {
    Launch launch;
    mutable KernelCall call;

    void run(std::initializer_list<std::byte*> inputs, std::byte* output, Stream stream) const;
  };

  explicit EinsumLaunch(const EinsumSteps& steps) : steps_(steps) {}
  std::byte* bring(const KernelCall& call, const OperandSteps& operand, const Pass& conversion,
                   Stream stream) const;
  void multiply(const KernelCall& call, std::byte* result, const EpilogueBuffers& epilogue,
                Stream stream) const;
  void deliver(const KernelCall& call, std::byte* result, Stream stream) const;

  EinsumSteps steps_;
  Pass a_, b_, result_;  ///< conversions, or in a_ the whole of a `multiply`
  std::optional<Matmul> product_;
};

}  // namespace alpa::cuda
