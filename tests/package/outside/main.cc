#include <alpa/base/shape.h>
#include <alpa/version.h>
#include <fmt/core.h>
#include "src/cuda_loader/cuda_library.h"

int main() {
  fmt::print("alpa {} {}\n", alpa::version(),
             alpa::to_string(alpa::TensorType{alpa::bf16, {8, 768}}));
  fmt::print("CUDA library {}\n", alpa::cuda_support().functions != nullptr ? "loaded" : "absent");
}
