#pragma once
/// One convolution of cuDNN: what its descriptors hold, whether it is valid, its engines, and its
/// computation.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cudnn.h"

namespace alpa::emulation {

/// A tensor with dimensions [images, channels, rows, columns], or of a kernel [features, channels
/// of a group, rows, columns].
struct ImageTensor {
  std::int64_t number = 0, alignment = 0;
  std::int32_t type = CUDNN_DATA_FLOAT;
  std::array<std::int64_t, 4> dims{}, strides{};

  std::int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  std::size_t bytes() const;
};

struct Convolution {
  enum class Result : std::uint8_t { y, x, kernel } result = Result::y;
  ImageTensor x, kernel, y;
  std::array<std::int64_t, 2> before{}, after{}, dilation{}, stride{};
  std::int32_t compute = CUDNN_DATA_FLOAT;
  double alpha = 1, beta = 0;
};

/// "", or what cuDNN finds wrong.
std::string fault_of(const Convolution& convolution);

/// An engine, as heuristics propose it. Plain data, which work on streams may keep.
struct Engine {
  int number;
  bool fallback;        ///< proposed in that mode alone
  std::uint32_t notes;  ///< bit n: cudnnBackendNumericalNote_t n
  std::int64_t workspace_bytes;

  bool has(int note) const { return (notes >> note & 1U) != 0; }
};
/// Best first. The first needs more workspace than any program plans.
std::vector<Engine> engines_for(const Convolution& convolution);

/// Where x, kernel and y are.
struct ImagePlaces {
  void *x, *kernel, *y;
};
/// Sums in f32, engines in different orders; f32 on tensor cores is rounded to TF32.
void compute(const Convolution& convolution, const Engine& engine, const ImagePlaces& places);

}  // namespace alpa::emulation
