// src/optim/adafactor.cc — Adafactor's learning rate, and which parameters are factored
#include "alpa/optim/adafactor.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace alpa::optim {

double relative_step(std::int64_t step) {
  return std::min(1e-2, 1 / std::sqrt(static_cast<double>(step)));
}

std::optional<std::array<std::int64_t, 2>> Adafactor::factored_axes(const Shape& shape) const {
  if (shape.size() < 2) return {};
  std::vector<std::int64_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_sort(axes.begin(), axes.end(), [&](auto a, auto b) { return shape[a] < shape[b]; });
  const std::int64_t second = axes[axes.size() - 2], largest = axes.back();
  if (shape[second] < min_factored_extent) return {};
  return std::array{second, largest};
}

}  // namespace alpa::optim
