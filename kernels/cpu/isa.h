#pragma once
/// The inner loops of the CPU kernels, compiled once per instruction set (files *.isa.cc) and
/// chosen once at start. Raw pointers and counts only: these files instantiate no inline
/// function of another header.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/plan/vector_bytes.h"
#include "kernels/reduction.h"

namespace alpa {
struct RandomStream;
}

namespace alpa::cpu {

using elementwise::AdamScalars;
using elementwise::SgdScalars;

using kernels::kVectorBytes;

/// An operand of a step: `step` is 1 for an array and 0 for one vector of equal elements.
template <class T>
struct StepOperand {
  const T* data = nullptr;
  std::ptrdiff_t step = 0;
};

/// Applies a formula to n elements; n is a positive multiple of `ElementwiseLoops::lanes`.
/// Unused operands may be null.
template <class T>
using StepFunction = void (*)(T* out, const StepOperand<T>* a, const StepOperand<T>* b,
                              const StepOperand<T>* c, std::int64_t n);

/// Converts any n elements of a dtype to T, or back (to nearest even; integers
/// towards zero, saturated).
template <class T>
using LoadFunction = void (*)(T* out, const std::byte* in, std::int64_t n);
template <class T>
using StoreFunction = void (*)(std::byte* out, const T* in, std::int64_t n);

/// Elementwise loops of one compute type; tables are indexed by code of
/// kernels/elementwise.h and by DType.
template <class T>
struct ElementwiseLoops {
  std::int64_t lanes;
  const StepFunction<T>* steps;
  const LoadFunction<T>* loads;
  const StoreFunction<T>* stores;
};
struct ElementwiseTable {
  ElementwiseLoops<float> f32;
  ElementwiseLoops<double> f64;
};

/// Reduction of elements of type T, carried in double.
template <class T>
struct ReduceLoops {
  /// The reduced value of n elements.
  double (*line)(const T* x, std::int64_t n);
  /// result[i] is reduced with x[r·stride + i] for r < rows, i < n; rows is at least 1.
  void (*rows)(double* result, const T* x, std::int64_t rows, std::int64_t stride, std::int64_t n);
};
/// Indexed by ReduceOp.
struct ReduceTable {
  ReduceLoops<float> f32[kNumReduceOps];
  ReduceLoops<double> f64[kNumReduceOps];
};

/// Parts of layer normalisation over n elements of a row; mean and rstd are the row's.
template <class T>
struct LayerNormLoops {
  /// Σ (x - mean)²
  double (*squares_from)(const T* x, double mean, std::int64_t n);
  void (*normalize)(T* y, const T* x, const T* scale, const T* bias, T mean, T rstd,
                    std::int64_t n);
  /// Adds Σ dy·scale and Σ dy·scale·(x - mean)·rstd to sums[0] and sums[1].
  void (*dots)(double* sums, const T* dy, const T* x, const T* scale, double mean, double rstd,
               std::int64_t n);
  /// `means`: the two sums divided by the row's length.
  void (*gradient)(T* dx, const T* dy, const T* x, const T* scale, T mean, T rstd,
                   const double* means, std::int64_t n);
  /// Adds dy·(x - mean)·rstd and dy to the columns' sums.
  void (*add_columns)(double* dscale, double* dbias, const T* dy, const T* x, double mean,
                      double rstd, std::int64_t n);
  /// Adds Σ x·y and Σ x over `rows` rows of n elements, which follow each other, to the columns'
  /// sums. For batch normalisation.
  void (*add_rows)(double* products, double* sums, const T* x, const T* y, std::int64_t rows,
                   std::int64_t n);
};
struct LayerNormTable {
  LayerNormLoops<float> f32;
  LayerNormLoops<double> f64;
};

/// Parts of the cross entropy of n logits of a row.
template <class T>
struct CrossEntropyLoops {
  T (*maximum)(const T* x, std::int64_t n);  ///< NaN if one element is; n >= 1
  /// Σ exp(x - shift)
  double (*exponentials)(const T* x, T shift, std::int64_t n);
  /// dx = exp(x - shift) · factor + term
  void (*gradient)(T* dx, const T* x, T shift, T factor, T term, std::int64_t n);
};
struct CrossEntropyTable {
  CrossEntropyLoops<float> f32;
  CrossEntropyLoops<double> f64;
};

/// c [m, n] = a b, or with `add` c + a b, where a [m, k] has strides of its own, of which one is 1,
/// and n is whole vectors. The sum of an element runs over ascending k, whatever m and n.
template <class T>
struct TileProduct {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t a_row, a_step;  ///< from row to row, and from k to k + 1
  const T* b;
  std::int64_t b_lead;
  T* c;
  std::int64_t c_lead;
  bool add;
};

/// Queries of a tile of attention, and so the distance of its lines: whole vectors.
inline constexpr std::int64_t kTileQueries = 64;

/// A tile [keys, kTileQueries] of scores, in powers of two.
template <class T>
struct ScoreTile {
  T* scores;
  std::int64_t queries, keys;  ///< queries: in whole vectors
  /// Query t sees keys below t + seen. Vectors of queries that see nothing of a key are not read.
  std::int64_t seen;
};

/// Parts of attention.
template <class T>
struct AttentionLoops {
  std::int64_t lanes;  ///< of a vector
  void (*product)(const TileProduct<T>& p);
  /// Copies `width` elements of each row, and writes zeros behind them up to `filled`.
  void (*copy)(T* to, std::int64_t to_lead, const T* from, std::int64_t from_lead,
               std::int64_t rows, std::int64_t width, std::int64_t filled);
  /// to[d · kTileQueries + t] = factor · from[t · lead + d], for t < rows, d < lead, both in whole
  /// vectors.
  void (*transpose)(T* to, const T* from, std::int64_t rows, std::int64_t lead, T factor);
  /// Scores to 2^(score - largest), of a running softmax: brings `largest` and `sum` up to date;
  /// earlier values are to be multiplied by `correction`.
  void (*softmax)(const ScoreTile<T>& tile, T* largest, T* sum, T* correction);
  /// Of `queries`, in whole vectors: 1 / sum, and the log-sum-exp; 0 and infinity if sum is 0.
  void (*finish)(const T* largest, const T* sum, std::int64_t queries, T* inverse, T* lse);
  /// Scores s to cap · tanh(s / cap); `slopes`, unless null, become the derivatives of that.
  void (*soft_cap)(const ScoreTile<T>& tile, T cap, T* slopes);
  /// Scores to p = 2^(score - shift), and dp to p (dp - delta); shift and delta are of queries.
  void (*gradient)(const ScoreTile<T>& tile, T* dp, const T* shift, const T* delta);
  /// dots[r] = factor · Σ a b of row r; rows are `lead` apart and as long, in whole vectors.
  void (*multiply_rows)(T* dots, const T* a, const T* b, std::int64_t rows, std::int64_t lead,
                        T factor);
  /// Rows of x, `lead` apart and as long, times a factor each.
  void (*scale)(T* x, const T* factors, std::int64_t rows, std::int64_t lead);

  // Of single queries.
  /// products[j] = Σ q[d] · keys[j · lead + d] over d < width, for j < n.
  void (*multiply_keys)(T* products, const T* q, const T* keys, std::int64_t lead, std::int64_t n,
                        std::int64_t width);
  /// sums[d] += Σ p[j] · values[j · lead + d] over j < n.
  void (*add_values)(T* sums, const T* p, const T* values, std::int64_t lead, std::int64_t n,
                     std::int64_t width);
  /// x = 2^(factor·x - shift); returns the sum.
  T (*exponentials)(T* x, T factor, T shift, std::int64_t n);
};
struct AttentionTable {
  AttentionLoops<float> f32;
  AttentionLoops<double> f64;
};

/// Products of `rows` rows of a, 1 to kMostRows, with n columns of b: c[r, j] = Σ a[r, i] · b[i, j]
/// over i < k. The sum of an element is the same however columns are cut.
struct RowProduct {
  const float* a;
  const void* b;  ///< of the type of the loops
  float* c;
  std::int64_t rows, n, k;
  std::int64_t a_row, a_step;  ///< from row to row, and from i to i + 1
  std::int64_t b_lead, c_row;
};
inline constexpr std::int64_t kMostRows = 8;
struct RowProductLoops {
  void (*along_n)(const RowProduct& p);  ///< b[i, j] is b[i · b_lead + j]
  void (*along_k)(const RowProduct& p);  ///< b[i, j] is b[j · b_lead + i], and a_step is 1
};
struct RowProductTable {
  RowProductLoops f32, bf16, f16;
};

/// y[r, j] = Σ x[r, i] · element i of row j of a quantised kernel (kernels/plan/quantized_block.h),
/// for rows r below `rows`, j < features. The sum of an element is the same whatever these are.
struct QuantizedProduct {
  const float* x;
  const std::byte* kernel;
  float* y;
  std::int64_t rows, features, blocks;
  std::int64_t y_row;  ///< from row to row
};
struct QuantizedLoops {
  void (*decode)(float* to, const std::byte* blocks, std::int64_t n);  ///< n blocks
  void (*multiply_rows)(const QuantizedProduct& p);
};
struct QuantizedTable {
  QuantizedLoops types[3];  ///< by `Quantization`
};

/// Optimizer updates of n elements, n a multiple of `lanes`; an output may be the input it updates.
template <class T>
struct UpdateLoops {
  void (*adam)(T* const* out, const T* const* in, std::int64_t n, const AdamScalars& scalars);
  void (*sgd)(T* const* out, const T* const* in, std::int64_t n, const SgdScalars& scalars);
};
struct UpdateTable {
  UpdateLoops<float> f32;
  UpdateLoops<double> f64;
};

/// Fills out with four numbers for each of groups [group, group + groups) of the stream; groups
/// is a multiple of `lanes`.
using DrawFunction = void (*)(double* out, const RandomStream& stream, std::uint64_t group,
                              std::int64_t groups);
struct RandomTable {
  std::int64_t lanes;
  DrawFunction normal, uniform;
};

/// Rows of a tile of `ProductLoops`.
inline constexpr std::int64_t kTileRows = 6;

/// Products whose sums are added in one order, whatever their other extents.
struct ProductLoops {
  std::int64_t columns;  ///< of a tile
  /// c [kTileRows, columns], `lead` apart, += Σ over ascending k of a [k, kTileRows] times b [k,
  /// columns].
  void (*tile)(float* c, std::int64_t lead, const float* a, const float* b, std::int64_t k);
};

/// The loops of one instruction set.
struct Isa {
  const char* name;
  const ElementwiseTable& elementwise;
  const ReduceTable& reduce;
  const UpdateTable& update;
  const RandomTable& random;
  const LayerNormTable& layer_norm;
  const AttentionTable& attention;
  const CrossEntropyTable& cross_entropy;
  const RowProductTable& row_product;
  const ProductLoops& product;
  const QuantizedTable& quantized;
};
#if defined(ALPA_ISA)
/// Of the instruction set that a file *.isa.cc is compiled for; one function per file.
namespace ALPA_ISA {
const ElementwiseTable& elementwise_table();
const ReduceTable& reduce_table();
const UpdateTable& update_table();
const RandomTable& random_table();
const LayerNormTable& layer_norm_table();
const AttentionTable& attention_table();
const CrossEntropyTable& cross_entropy_table();
const RowProductTable& row_product_table();
const ProductLoops& product_loops();
const QuantizedTable& quantized_table();
}  // namespace ALPA_ISA
#endif
namespace baseline {
Isa named(const char* name);
}
#if defined(__x86_64__)
namespace avx2 {
Isa named(const char* name);
}
namespace avx512 {
Isa named(const char* name);
}
#endif

/// The best instruction set of this processor, at most the one that the environment variable
/// ALPA_MAX_CPU_ISA names, unless another was selected. Throws Error if it names none.
const Isa& isa();

/// That of these kernels, and of oneDNN's: processes of equal ones round alike.
std::string instruction_sets();

/// Makes `isa()` that of this name ("baseline", "avx2", "avx512"); false, and no change, if the
/// processor lacks it or the environment forbids it. For tests; no kernel may be running.
bool select_isa(std::string_view name);

/// The member of a table for compute type T.
template <class T, class Table>
const auto& loops(const Table& table) {
  if constexpr (sizeof(T) == 8)
    return table.f64;
  else
    return table.f32;
}

}  // namespace alpa::cpu
