#pragma once
/// The task of alpa-mlp.
#include <string>

#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

struct MlpFlags : CommonFlags {
  std::int64_t dim = 512, hidden_factor = 4, layers = 10, epochs = 0;
  std::string data = "tutorial";
  bool demo = false;
};

/// A multi-layer perceptron with its data; without examples if it is only planned.
Task mlp_task(const MlpFlags& flags);

}  // namespace programs
