#include "convolution.h"

#include <algorithm>

#include "library_data.h"

namespace alpa::emulation {
namespace {

cudaDataType_t cuda_type(std::int32_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: return CUDA_R_64F;
    case CUDNN_DATA_HALF: return CUDA_R_16F;
    case CUDNN_DATA_BFLOAT16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

std::int64_t element_bytes(std::int32_t type) {
  return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

/// Whether rows (0) or columns (1) of y are as many as there are windows.
bool has_windows(const Convolution& c, std::size_t d) {
  const std::int64_t span = (c.kernel.dims[2 + d] - 1) * c.dilation[d] + 1,
                     padded = c.x.dims[2 + d] + c.before[d] + c.after[d];
  return padded >= span && c.y.dims[2 + d] == (padded - span) / c.stride[d] + 1;
}

bool is_dense(const ImageTensor& t) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < 4; ++d) last += (t.dims[d] - 1) * t.strides[d];
  return last == t.elements() - 1;
}

using Index = std::array<std::int64_t, 4>;
std::int64_t offset(const ImageTensor& t, const Index& at) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < 4; ++d) sum += at[d] * t.strides[d];
  return sum;
}

/// visit(index of x, of the kernel, of y) for all products that belong to index `at` of y and the
/// taps and channels that `tap` counts.
template <class Visit>
void visit_product(const Convolution& c, const Index& at, std::int64_t tap, const Visit& visit) {
  const auto& [features, channels, rows, columns] = c.kernel.dims;
  const std::int64_t s = tap % columns, r = tap / columns % rows, k = tap / columns / rows,
                     groups = c.x.dims[1] / channels,
                     row = at[2] * c.stride[0] - c.before[0] + r * c.dilation[0],
                     column = at[3] * c.stride[1] - c.before[1] + s * c.dilation[1];
  if (row < 0 || row >= c.x.dims[2] || column < 0 || column >= c.x.dims[3]) return;
  const std::int64_t channel = at[1] / (features / groups) * channels + k;
  visit(offset(c.x, {at[0], channel, row, column}), offset(c.kernel, {at[1], k, r, s}),
        offset(c.y, at));
}

template <class Visit>
void for_products(const Convolution& c, bool backwards, const Visit& visit) {
  const std::int64_t taps = c.kernel.elements() / c.kernel.dims[0], count = c.y.elements();
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t i = backwards ? count - 1 - n : n;
    const auto& [images, channels, rows, columns] = c.y.dims;
    const Index at = {i / columns / rows / channels, i / columns / rows % channels,
                      i / columns % rows, i % columns};
    for (std::int64_t t = 0; t < taps; ++t)
      visit_product(c, at, backwards ? taps - 1 - t : t, visit);
  }
}

std::vector<float> read_all(const ImageTensor& t, const void* data, bool rounded) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    const auto value = static_cast<float>(read(data, cuda_type(t.type), i));
    values.push_back(rounded ? round_to_tf32(value) : value);
  }
  return values;
}

}  // namespace

std::size_t ImageTensor::bytes() const {
  return static_cast<std::size_t>(elements() * element_bytes(type));
}

std::string fault_of(const Convolution& c) {
  for (const ImageTensor* t : {&c.x, &c.kernel, &c.y}) {
    if (*std::min_element(t->dims.begin(), t->dims.end()) <= 0)
      return "a dimension is not positive";
    if (!is_dense(*t)) return "getNumElementsWithStride() != getNumElementsWithoutStride()";
    if (t->type != c.x.type) return "types differ";
  }
  if (c.x.dims[1] % c.kernel.dims[1] != 0) return "0 != xDimA[1] % wDimA[1]";
  if (c.kernel.dims[0] % (c.x.dims[1] / c.kernel.dims[1]) != 0) return "0 != wDimA[0] % g";
  if (c.y.dims[0] != c.x.dims[0]) return "yDimA[N_DIM] != xDimA[N_DIM]";
  if (c.y.dims[1] != c.kernel.dims[0]) return "yDimA[CK_DIM] != wDimA[WK_DIM]";
  return has_windows(c, 0) && has_windows(c, 1) ? "" : "is_valid_spatial_dim";
}

std::vector<Engine> engines_for(const Convolution& c) {
  const auto copies = static_cast<std::int64_t>(c.x.bytes() + c.kernel.bytes() + c.y.bytes()) + 16;
  constexpr std::uint32_t kTensorCores = 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                          kWinograd = 1U << CUDNN_NUMERICAL_NOTE_WINOGRAD;
  return {{41, false, 0, std::int64_t{1} << 30},
          {76, false, kWinograd | 1U << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, 0},
          {77, false, kWinograd | 1U << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, 0},
          {25, false, 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 0},
          {12, false, kTensorCores | 1U << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 0},
          {63, false, kTensorCores | 1U << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 0},
          {62, false, kTensorCores, 3},
          {75, false, kWinograd | 1U << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, 0},
          {4, false, 1U << CUDNN_NUMERICAL_NOTE_FFT, 0},
          {70, false, 0, copies},
          {28, false, 0, 0},
          {0, true, 1U << CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, 0}};
}

void compute(const Convolution& c, const Engine& engine, const ImagePlaces& places) {
  const bool rounds = c.x.type == CUDNN_DATA_FLOAT && engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  const auto operand = [&](Convolution::Result result, const ImageTensor& t, const void* data) {
    return c.result == result ? std::vector<float>() : read_all(t, data, rounds);
  };
  const std::vector<float> x = operand(Convolution::Result::x, c.x, places.x),
                           kernel = operand(Convolution::Result::kernel, c.kernel, places.kernel),
                           y = operand(Convolution::Result::y, c.y, places.y);
  const ImageTensor& made = c.result == Convolution::Result::y   ? c.y
                            : c.result == Convolution::Result::x ? c.x
                                                                 : c.kernel;
  void* const to = c.result == Convolution::Result::y   ? places.y
                   : c.result == Convolution::Result::x ? places.x
                                                        : places.kernel;
  std::vector<float> sums(static_cast<std::size_t>(made.elements()), 0.0F);
  for_products(c, engine.number % 4 == 2, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
    if (c.result == Convolution::Result::y) sums[o] += x[i] * kernel[k];
    if (c.result == Convolution::Result::x) sums[i] += y[o] * kernel[k];
    if (c.result == Convolution::Result::kernel) sums[k] += x[i] * y[o];
  });
  for (std::int64_t i = 0; i < made.elements(); ++i) {
    const double before = c.beta == 0 ? 0 : c.beta * read(to, cuda_type(made.type), i);
    write(to, cuda_type(made.type), i, c.alpha * sums[i] + before);
  }
}

}  // namespace alpa::emulation
