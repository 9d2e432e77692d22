// src/nn/initializer.cc — distributions of kernels
#include "alpa/nn/initializer.h"

#include <cmath>

namespace alpa::nn {

Initializer he_normal(std::int64_t fan_in, std::int64_t) {
  return Initializer::normal(0, std::sqrt(2.0 / static_cast<double>(fan_in)));
}

Initializer glorot_uniform(std::int64_t fan_in, std::int64_t fan_out) {
  const double limit = std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
  return Initializer::uniform(-limit, limit);
}

Initializer lecun_normal(std::int64_t fan_in, std::int64_t) {
  return Initializer::normal(0, std::sqrt(1.0 / static_cast<double>(fan_in)));
}

}  // namespace alpa::nn
