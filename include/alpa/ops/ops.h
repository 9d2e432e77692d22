#pragma once
/// The operators for models. Each appends nodes to its operands' builder and returns the result. A
/// mistake (shapes, element types, operands of two graphs) throws Error at the call, with the
/// shapes and a remedy in the text.
///
/// Elementwise operators broadcast as NumPy does: shapes are aligned at the last dimension, extents
/// of 1 stretch. Operands have one element type; `cast` is explicit. A `double` operand takes the
/// element type of the other. Trivial cases (x * 1, x + 0, constants) are folded. Axes may be
/// negative: -1 is the last.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "alpa/ir/builder.h"
#pragma GCC visibility push(default)

namespace alpa {

using Axes = std::vector<std::int64_t>;  ///< dimensions; -1 is the last

/// General contraction, e.g. einsum("bik,bkj->bij", a, b). One ASCII letter per dimension; no
/// letter is repeated within a tensor, and each occurs in at least two of the three tensors. So a
/// letter of only one operand must be in the result.
Value einsum(std::string_view equation, Value a, Value b);
/// Matrix product over the last dimension of x and the second-to-last of w. Leading dimensions must
/// be equal, unless one of the two has none. Both ranks are at least 2.
Value matmul(Value x, Value w);
/// x f32 [..., in] times a quantised kernel u8 [features, in / 32, bytes of a block], of which each
/// row is a column of the product's right side (`Quantized`): [..., features]. The kernel has no
/// gradient.
Value quantized_matmul(Value x, Value kernel);

Value operator+(Value x, Value y);  ///< elementwise sum
Value operator-(Value x, Value y);  ///< elementwise difference
Value operator*(Value x, Value y);  ///< elementwise product
Value operator/(Value x, Value y);  ///< elementwise quotient
Value operator+(Value x, double y);
Value operator-(Value x, double y);
Value operator*(Value x, double y);
Value operator/(Value x, double y);
Value operator+(double x, Value y);
Value operator-(double x, Value y);
Value operator*(double x, Value y);
Value operator/(double x, Value y);
Value operator-(Value x);

/// x to the power y, both floating; the gradient with respect to y needs x > 0.
Value pow(Value x, Value y);
Value pow(Value x, double y);
/// The larger of both; at a tie the gradient goes to x.
Value maximum(Value x, Value y);
Value maximum(Value x, double y);
/// The smaller of both; at a tie the gradient goes to x.
Value minimum(Value x, Value y);
Value minimum(Value x, double y);

Value exp(Value x);      ///< e to the power x
Value log(Value x);      ///< natural logarithm
Value sqrt(Value x);     ///< square root
Value rsqrt(Value x);    ///< 1 / sqrt(x)
Value tanh(Value x);     ///< hyperbolic tangent
Value sigmoid(Value x);  ///< 1 / (1 + exp(-x))
Value relu(Value x);     ///< max(x, 0); gradient 0 at 0
Value silu(Value x);     ///< x · sigmoid(x) (Elfwing et al. 2018), SwiGLU's activation
/// tanh approximation (Hendrycks & Gimpel 2016): x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
Value gelu(Value x);
/// GELU itself (Hendrycks & Gimpel 2016): x/2 (1 + erf(x / sqrt(2))). It has second derivatives.
Value exact_gelu(Value x);
Value sin(Value x);     ///< sine of an angle in radians
Value cos(Value x);     ///< cosine of an angle in radians
Value erf(Value x);     ///< error function, 2/√π times the integral of exp(-t²) from 0 to x
Value floor(Value x);   ///< the largest whole number that is not above x; gradient 0
Value square(Value x);  ///< x²
Value abs(Value x);     ///< gradient 0 at 0
Value sign(Value x);    ///< -1, 0 or 1; gradient 0

/// Comparisons: u8 tensors of 0 and 1, without gradient.
Value eq(Value x, Value y);
Value ne(Value x, Value y);  ///< x ≠ y
Value lt(Value x, Value y);  ///< x < y
Value le(Value x, Value y);  ///< x ≤ y
Value gt(Value x, Value y);  ///< x > y
Value ge(Value x, Value y);  ///< x ≥ y
Value eq(Value x, double y);
Value ne(Value x, double y);
Value lt(Value x, double y);
Value le(Value x, double y);
Value gt(Value x, double y);
Value ge(Value x, double y);

/// x where `condition` (u8) is not 0, else y; the three broadcast together.
Value where(Value condition, Value x, Value y);
Value where(Value condition, Value x, double y);
Value where(Value condition, double x, Value y);
/// `where` of two numbers, as elements of type `dtype`.
Value where(Value condition, double x, double y, DType dtype = f32);

/// x converted to `to`; x itself if it has this type.
Value cast(Value x, DType to);
/// x, but no gradient flows through it.
Value stop_gradient(Value x);

/// Reductions over `axes` (all when empty): `sum(x)` is one number, `mean(x, {0, 1})` one per
/// channel. Reduced dimensions vanish, or stay with extent 1 if `keep_dims`.
Value sum(Value x, const Axes& axes = {}, bool keep_dims = false);
/// Sum divided by the number of elements summed (of the whole tensor, however it is
/// partitioned). Floating types only.
Value mean(Value x, const Axes& axes = {}, bool keep_dims = false);
/// Mean of (x - mean(x))²: the variance of all elements given, as `torch.var(…, correction=0)`.
/// Floating types only.
Value variance(Value x, const Axes& axes = {}, bool keep_dims = false);
/// The gradient is shared equally by tied elements.
Value max(Value x, const Axes& axes = {}, bool keep_dims = false);
/// Σ x and Σ x² of every channel, over all dimensions but the last of x [..., C]: two tensors [C]
/// of f32, of f64 if x is, carried in double. x is floating and read once.
Values channel_sums(Value x);
/// x · scale + shift for every channel of x [..., C]; scale and shift are [C] of f32, of f64 if x
/// is. Computed in their type, then rounded to x's. Their gradients read x and dy once, together.
Value scale_shift(Value x, Value scale, Value shift);
/// The sum of the squares of all elements, carried in double: a scalar of f32, of f64 if x is.
/// The squares are not stored.
Value squared_norm(Value x);

/// The same elements in row-major order in another shape; one extent may be -1
/// and follows from the others.
Value reshape(Value x, const Shape& shape);
/// Result dimension i is dimension permutation[i] of x; without permutation the order is reversed.
Value transpose(Value x, const Axes& permutation = {});
/// x stretched to `shape` by the rules of elementwise broadcasting.
Value broadcast_to(Value x, const Shape& shape);

/// Elements begin, begin + stride, … before `end` of dimension `axis`; a negative begin or end
/// counts from the end. Throws Error if none is left.
Value slice(Value x, std::int64_t axis, std::int64_t begin, std::int64_t end,
            std::int64_t stride = 1);
/// `parts` equal slices of dimension `axis`, which they must divide.
Values split(Value x, std::int64_t parts, std::int64_t axis = -1);
/// x with `before` and `after` elements of `value` added along dimension `axis`.
Value pad(Value x, std::int64_t axis, std::int64_t before, std::int64_t after, double value = 0);
/// Tensors one behind the other along dimension `axis`; all other extents are equal.
Value concatenate(const Values& parts, std::int64_t axis = -1);

/// x at `ids` (i32, any shape) of dimension `axis`, as np.take: the dimensions of ids take its
/// place. x is floating; for ids outside see `embedding`.
Value gather(Value x, Value ids, std::int64_t axis = 0);
/// Adds rows up by id: rows [..., d] floating, ids i32 [...], result [extent, d]. An id outside of
/// [0, extent) is an Error on the CPU; on CUDA it contributes nothing.
Value scatter_add(Value rows, Value ids, std::int64_t extent);
/// y[…, j, …] = x[…, ids[…, j, …], …] as np.take_along_axis: ids i32 of x's shape but for `axis`.
/// An id outside the dimension is an Error on the CPU; on CUDA it gives NaN.
Value take_along_axis(Value x, Value ids, std::int64_t axis = -1);
/// y_i = x_0 + … + x_i along `axis`; without x_i itself if `exclusive`; summed from the end if
/// `reverse`. x is floating or i32.
Value cumulative_sum(Value x, std::int64_t axis = -1, bool exclusive = false, bool reverse = false);
/// i32 index of the largest element along `axis`, the first of equal ones. No gradient.
Value argmax(Value x, std::int64_t axis = -1);
/// What `top_k` and `sort` return.
struct TopK {
  Value values;   ///< [..., k], of x's type
  Value indices;  ///< i32 [..., k]
};
/// The k largest elements of the last dimension, the largest first; equal ones keep their order.
TopK top_k(Value x, std::int64_t k);
/// The elements of dimension `axis` in order, and where they were; equal elements keep their order.
TopK sort(Value x, std::int64_t axis = -1, bool descending = false);

/// Every element is `value`; a scalar unless a shape is given.
Value constant(Builder& builder, double value, DType dtype = f32, const Shape& shape = {});
/// 0, 1, 2, … along `axis` of `type`, the same along all others.
Value iota(Builder& builder, const TensorType& type, std::int64_t axis = -1);
/// New random numbers in every step and micro-batch. Each depends only on (seed, this
/// node, step, micro-batch, index in the whole tensor), so it is the same under every
/// plan. Floating types only.
Value random_normal(Builder& builder, const TensorType& type, double mean = 0,
                    double standard_deviation = 1);
/// Uniform in [low, high).
Value random_uniform(Builder& builder, const TensorType& type, double low = 0, double high = 1);

/// exp(x) / sum(exp(x)) along `axis`, shifted by the maximum; composed of other operators, so
/// that the axis can be split.
Value softmax(Value x, std::int64_t axis = -1);
/// log(softmax(x)) along `axis`.
Value log_softmax(Value x, std::int64_t axis = -1);
/// 1 where the index along a new last dimension of extent `classes` equals `labels` (i32), else 0.
Value one_hot(Value labels, std::int64_t classes, DType dtype = f32);
/// (x - mean) / sqrt(variance + epsilon) · scale + bias over the last dimension (Ba et al. 2016): x
/// [..., C], scale and bias [C], one floating type. C cannot be split. No second derivatives.
Value layer_norm(Value x, Value scale, Value bias, double epsilon = 1e-5);
/// x / sqrt(mean(x²) + epsilon) · scale over the last dimension (Zhang & Sennrich 2019): x
/// [..., C], scale [C], one floating type. C cannot be split. No second derivatives.
Value rms_norm(Value x, Value scale, double epsilon = 1e-6);
/// Each element is 0 with probability `rate`, else divided by 1 - rate (Srivastava et al. 2014).
/// The mask is a function of (seed, this node, step, micro-batch, index in the whole tensor): the
/// same under every plan, and made again in the backward pass instead of kept.
Value dropout(Value x, double rate);
/// Slower turns, for sequences longer than those of training. With `original_positions` 0 all pairs
/// turn `factor` times slower (Chen et al. 2023, arXiv 2306.15595). Else it depends on the turns of
/// a pair within the original positions, as in Llama 3.1 (`apply_scaling` of the reference code in
/// github.com/meta-llama/llama-models): from `high_turns` on nothing changes, up to `low_turns` the
/// pair is `factor` times slower, and between them both frequencies are mixed linearly.
struct RotaryScaling {
  double factor = 1;                     ///< above 0
  std::int64_t original_positions = 0;   ///< the longest sequence of training
  double low_turns = 1, high_turns = 4;  ///< `low_freq_factor` and `high_freq_factor`
  /// The share of the scaling grows linearly from the pair with `high_turns` to that with
  /// `low_turns` (YaRN, Peng et al. 2023: `beta_fast` and `beta_slow`), not in the turns.
  bool yarn = false;
  /// LongRoPE (Ding et al. 2024), instead of all that: pair i turns `factors[i]` times slower. One
  /// number above 0 per pair, of at most 128; empty: none.
  std::vector<double> factors = {};
  /// `factors` of sequences beyond `original_positions`, which `nn::SelfAttention` takes for these.
  std::vector<double> long_factors = {};
  double magnitude = 1;  ///< what cosines and sines are multiplied by, above 0
};
/// Options of `rotary`.
struct RotaryOptions {
  double base = 10000;       ///< of the angles
  bool interleaved = false;  ///< pairs are (2i, 2i + 1) (GPT-J) instead of (i, i + D/2) (Llama)
  std::optional<RotaryScaling> scaling = {};  ///< for sequences longer than those of training
};
/// Rotary position embedding (Su et al. 2021): x [B, T, H, D] with even D, positions i32 [T] or
/// [B, T]; pair i turns by position · base^(-2i/D), or slower with `scaling`. D cannot be split.
Value rotary(Value x, Value positions, RotaryOptions options = {});
/// Options of `attention`.
struct AttentionOptions {
  bool causal = false;               ///< query t sees keys up to t + S - T
  double dropout = 0;                ///< rate, of the probabilities
  std::optional<double> scale = {};  ///< of the products; default 1/sqrt(D)
  Value key_mask = {};               ///< u8 [B, S]: 0 marks keys that nobody sees
  /// i32 [B, S] with T = S: a query sees the keys with its own number alone, such as those of one
  /// of several documents in a row.
  Value segments = {};
  /// Sliding window (Beltagy et al. 2020): a query sees the last `window` of the keys that `causal`
  /// or `positions` show it; 0: all of them.
  std::int64_t window = 0;
  double soft_cap = 0;  ///< scores s become soft_cap · tanh(s / soft_cap) (Gemma 2); 0: no cap
  /// The gradient has the same bits in every run. false: on CUDA the order of dq's sums may change,
  /// for less workspace (docs/cuda.md).
  bool repeats = true;
  /// i32 [B], of a cache of keys and values (`write_rows`): query t of row b sees the keys up to
  /// positions[b] + t, and no others are read. With `scale`, `window` and `soft_cap` alone of the
  /// above. No gradient.
  Value positions = {};
};
/// softmax(scale · q kᵀ) v of every head (Vaswani et al. 2017), without the T × S products in
/// memory (Dao et al. 2022): q [B, T, H, D], k [B, S, K, D], v [B, S, K, D], one floating type; K
/// divides H, and query head h reads key head h / (H / K). A query that sees no key gives 0. B, T
/// and the heads can be split. No second derivatives.
Value attention(Value q, Value k, Value v, AttentionOptions options = {});

/// x [B, S, ...] with rows [B, T, ...] at [b, positions[b]] and what follows, of each b; those
/// outside of x are left out. Positions i32 [B]. A state that becomes the result is changed in
/// place: nothing but the rows is moved. No gradient. All dimensions but S and T can be split.
Value write_rows(Value x, Value rows, Value positions);

/// Options of `conv2d`.
struct ConvolutionOptions {
  std::array<std::int64_t, 2> stride = {1, 1}, dilation = {1, 1};  ///< of rows and columns
  /// Zeros before the first and after the last row, and column.
  std::array<std::int64_t, 2> pad_before = {0, 0}, pad_after = {0, 0};
  std::int64_t groups = 1;  ///< divides the channels of x and of the result
};
/// 2-D cross-correlation, NHWC: x [B, H, W, C], kernel [kh, kw, C / groups, F], result
/// [B, H', W', F] with H' = floor((H + padding - dilation (kh - 1) - 1) / stride) + 1. B, C (one
/// group) and F can be split.
Value conv2d(Value x, Value kernel, ConvolutionOptions options = {});
/// Transposed convolution (Zeiler et al. 2010), NHWC: x [B, H, W, F], kernel [kh, kw, C / groups,
/// F], result [B, H', W', C] with H' = (H - 1) stride - padding + dilation (kh - 1) + 1 +
/// `output_padding`: the gradient of `conv2d` with respect to its x. Output padding makes room at
/// the end, of less than a stride.
Value conv2d_transpose(Value x, Value kernel, ConvolutionOptions options = {},
                       std::array<std::int64_t, 2> output_padding = {0, 0});
/// x [B, H, W, C] with every row and column repeated: [B, H · factor, W · factor, C]; upsampling by
/// the nearest neighbour.
Value upsample(Value x, std::array<std::int64_t, 2> factor = {2, 2});
/// Options of `max_pool` and `average_pool`.
struct PoolingOptions {
  std::array<std::int64_t, 2> window = {2, 2}, stride = {2, 2};         ///< rows, columns
  std::array<std::int64_t, 2> pad_before = {0, 0}, pad_after = {0, 0};  ///< as `ConvolutionOptions`
};
/// Largest element of every window, NHWC: x [B, H, W, C]; padding is never the largest. The
/// gradient goes to the first of equal elements.
Value max_pool(Value x, PoolingOptions options = {});
/// Mean of every window, NHWC; padding does not count.
Value average_pool(Value x, PoolingOptions options = {});

/// Rows of a table: table [V, d] floating, ids i32 [...], result [..., d]. On the CPU an id outside
/// [0, V) throws Error naming it; on CUDA its row is NaN and it contributes nothing to the
/// gradient. V, d and the ids can be split.
Value embedding(Value table, Value ids);
/// Tokens x [G, S, M] at places of experts: [experts, G, capacity, M], 0 where nobody is. places
/// i32 [G, S, K]: of each of a token's choices expert · capacity + place, negative for none. Tokens
/// at one place of a group are added up. A place outside is an Error on the CPU; on CUDA nobody is
/// there. G, S, M and the experts can be split.
Value dispatch(Value x, Value places, std::int64_t experts, std::int64_t capacity);
/// The way back: Σ_k weights[g, s, k] · (results [E, G, C, M] at the place of choice k), [G, S, M].
/// Weights [G, S, K] are f32, of f64 f64. With a place outside, CUDA gives NaN.
Value combine(Value results, Value places, Value weights);
/// Options of `softmax_cross_entropy`.
struct CrossEntropyOptions {
  /// The true class has this much less weight, which all classes share (Szegedy et al. 2016).
  double label_smoothing = 0;
  /// Rows of this label have loss 0.
  std::optional<std::int64_t> ignored_label = {};
};
/// -log_softmax(logits)[..., label] for every row: logits [..., V] floating, labels i32 [...],
/// result [...], computed in f32, of f64 in f64. Any other label outside [0, V) means a row without
/// a true class: its loss is the log of the sum of exponentials. Logits are read once, and the
/// gradient may take their place. The vocabulary V can be split; devices then exchange two numbers
/// per row.
Value softmax_cross_entropy(Value logits, Value labels, CrossEntropyOptions options = {});

}  // namespace alpa
#pragma GCC visibility pop
