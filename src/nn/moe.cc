// src/nn/moe.cc — places of experts
#include "alpa/nn/moe.h"

#include <algorithm>
#include <cmath>

namespace alpa::nn {

std::int64_t MoE::capacity(std::int64_t tokens) const {
  const double even = static_cast<double>(options_.choices) * static_cast<double>(tokens) /
                      static_cast<double>(experts_);
  const double places = std::ceil(even * options_.capacity_factor - 1e-9);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(places), 1, tokens);
}

}  // namespace alpa::nn
