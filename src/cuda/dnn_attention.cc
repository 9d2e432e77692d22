// src/cuda/dnn_attention.cc — describes attention to cuDNN
#include "dnn_attention.h"

namespace alpa::cuda {
namespace {

using kernels::AttentionShape;

/// Number of the first tensor between operations.
constexpr std::int64_t kFirstBetween = 100;

DnnDescriptor number(std::int64_t number, cudnnDataType_t type) {
  return dnn_tensor(number, type, {1, 1, 1, 1}, {1, 1, 1, 1}, DnnStorage::by_value);
}

/// The operations described so far, and what they are made of. cuDNN's dimensions are [B, heads,
/// rows, columns].
class Operations {
 public:
  explicit Operations(const AttentionPiece& piece) : piece_(piece), s_(piece.shape) {}
  std::vector<DnnDescriptor> take() { return std::move(all_); }

  // ---- tensors in memory

  DnnDescriptor queries(std::int64_t number) const {
    return rows_of(number, s_.heads, s_.queries, piece_.row_heads, false);
  }
  DnnDescriptor keys(std::int64_t number, bool transposed = false) const {
    return rows_of(number, s_.key_heads, s_.keys, piece_.row_key_heads, transposed);
  }
  DnnDescriptor statistics(std::int64_t number, DnnStorage storage = DnnStorage::device) const {
    return dnn_tensor(number, CUDNN_DATA_FLOAT, {s_.batch, s_.heads, s_.queries, 1},
                      {s_.heads * s_.queries, s_.queries, 1, 1}, storage);
  }

  DnnDescriptor sums() const {
    const std::int64_t head = s_.queries * s_.width;
    return dnn_tensor(kDnnSums, CUDNN_DATA_FLOAT, {s_.batch, s_.heads, s_.queries, s_.width},
                      {s_.heads * head, head, s_.width, 1});
  }

  // ---- tensors between operations

  DnnDescriptor row_numbers() { return statistics(next_++, DnnStorage::nowhere); }
  DnnDescriptor between(cudnnDataType_t type, std::int64_t rows, std::int64_t columns) {
    return dnn_tensor(next_++, type, {s_.batch, s_.heads, rows, columns},
                      {s_.heads * rows * columns, rows * columns, columns, 1}, DnnStorage::nowhere);
  }
  DnnDescriptor scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return between(type, s_.queries, s_.keys);
  }
  /// Scores transposed, in 16 bits.
  DnnDescriptor scores_by_key() {
    const std::int64_t head = s_.queries * s_.keys;
    return dnn_tensor(next_++, dnn_type(s_.dtype), {s_.batch, s_.heads, s_.keys, s_.queries},
                      {s_.heads * head, head, 1, s_.keys}, DnnStorage::nowhere);
  }
  /// Keys that were transposed, as they lie in memory.
  DnnDescriptor rows_of_keys() {
    const std::int64_t row = piece_.row_key_heads * s_.width;
    return dnn_tensor(next_++, CUDNN_DATA_FLOAT, {s_.batch, s_.key_heads, s_.keys, s_.width},
                      {s_.keys * row, s_.width, row, 1}, DnnStorage::nowhere);
  }

  // ---- operations, the result first

  void product(const DnnDescriptor& c, const DnnDescriptor& a, const DnnDescriptor& b) {
    DnnDescriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_type(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
    add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, &a},
                                                    {CUDNN_ATTR_OPERATION_MATMUL_BDESC, &b},
                                                    {CUDNN_ATTR_OPERATION_MATMUL_CDESC, &c},
                                                    {CUDNN_ATTR_OPERATION_MATMUL_DESC, &how}});
  }
  void reduce(const DnnDescriptor& y, cudnnReduceTensorOp_t op, const DnnDescriptor& x) {
    DnnDescriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set_type(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op).finalize();
    add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
        {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, &x},
         {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, &y},
         {CUDNN_ATTR_OPERATION_REDUCTION_DESC, &how}});
  }
  void reshape(const DnnDescriptor& y, const DnnDescriptor& x) {
    add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
        {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, &x}, {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, &y}});
  }
  /// Adds the pointwise operation `mode` from x, b and t to y; null: no such operand.
  void pointwise(const DnnDescriptor& y, cudnnPointwiseMode_t mode, const DnnDescriptor& x,
                 const DnnDescriptor* b = nullptr, const DnnDescriptor* t = nullptr,
                 cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    DnnDescriptor how = pointwise_of(mode, type);
    add_pointwise(y, how.finalize(), x, b, t);
  }
  /// The row (axis 2) or column (3) of every score.
  void index(const DnnDescriptor& y, const DnnDescriptor& scores, std::int64_t axis) {
    DnnDescriptor how = pointwise_of(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT);
    add_pointwise(y, how.set(CUDNN_ATTR_POINTWISE_AXIS, Shape{axis}).finalize(), scores);
  }

 private:
  using Parts = std::vector<std::pair<cudnnBackendAttributeName_t, const DnnDescriptor*>>;

  DnnDescriptor rows_of(std::int64_t number, std::int64_t heads, std::int64_t rows,
                        std::int64_t row_heads, bool transposed) const {
    Shape shape{s_.batch, heads, rows, s_.width},
        strides{rows * row_heads * s_.width, s_.width, row_heads * s_.width, 1};
    if (transposed) std::swap(shape[2], shape[3]), std::swap(strides[2], strides[3]);
    return dnn_tensor(number, dnn_type(s_.dtype), shape, strides);
  }
  static DnnDescriptor& set_type(DnnDescriptor& how, cudnnBackendAttributeName_t name,
                                 cudnnDataType_t type) {
    return how.set(name, CUDNN_TYPE_DATA_TYPE, 1, &type);
  }
  static DnnDescriptor pointwise_of(cudnnPointwiseMode_t mode, cudnnDataType_t type) {
    DnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    return std::move(set_type(how, CUDNN_ATTR_POINTWISE_MATH_PREC, type));
  }
  void add_pointwise(const DnnDescriptor& y, const DnnDescriptor& how, const DnnDescriptor& x,
                     const DnnDescriptor* b = nullptr, const DnnDescriptor* t = nullptr) {
    Parts parts = {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &how},
                   {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &x},
                   {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &y}};
    if (b != nullptr) parts.emplace_back(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t != nullptr) parts.emplace_back(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, parts);
  }
  void add(cudnnBackendDescriptorType_t type, const Parts& parts) {
    DnnDescriptor operation(type);
    for (const auto& [name, part] : parts) operation.set(name, *part);
    operation.finalize();
    all_.push_back(std::move(operation));
  }

  const AttentionPiece& piece_;
  const AttentionShape& s_;
  std::int64_t next_ = kFirstBetween;
  std::vector<DnnDescriptor> all_;
};

/// The last key that a score's query sees.
DnnDescriptor last_seen_key(Operations& g, const AttentionPiece& piece,
                            const DnnDescriptor& scores) {
  DnnDescriptor row = g.scores(CUDNN_DATA_INT32);
  g.index(row, scores, 2);
  if (piece.shape.visible == 1) return row;
  const DnnDescriptor sum = g.scores(CUDNN_DATA_INT32), keys = number(kDnnKeys, CUDNN_DATA_INT32),
                      queries = number(kDnnQueries, CUDNN_DATA_INT32);
  g.pointwise(sum, CUDNN_POINTWISE_ADD, row, &keys, nullptr, CUDNN_DATA_INT32);
  DnnDescriptor last = g.scores(CUDNN_DATA_INT32);
  g.pointwise(last, CUDNN_POINTWISE_SUB, sum, &queries, nullptr, CUDNN_DATA_INT32);
  return last;
}

/// Scores, with those of keys that are not seen replaced.
DnnDescriptor seen_of(Operations& g, const AttentionPiece& piece, DnnDescriptor scores) {
  if (piece.shape.visible >= piece.shape.keys) return scores;
  const DnnDescriptor last = last_seen_key(g, piece, scores), key = g.scores(CUDNN_DATA_INT32),
                      is_seen = g.scores(CUDNN_DATA_BOOLEAN),
                      hidden = number(kDnnHidden, CUDNN_DATA_FLOAT);
  g.index(key, scores, 3);
  g.pointwise(is_seen, CUDNN_POINTWISE_CMP_GE, last, &key, nullptr, CUDNN_DATA_BOOLEAN);
  DnnDescriptor seen = g.scores();
  g.pointwise(seen, CUDNN_POINTWISE_BINARY_SELECT, scores, &hidden, &is_seen);
  return seen;
}

/// scale · q kᵀ
DnnDescriptor scaled_products(Operations& g, const DnnDescriptor& scale) {
  const DnnDescriptor product = g.scores();
  g.product(product, g.queries(kDnnQ), g.keys(kDnnK, true));
  DnnDescriptor scaled = g.scores();
  g.pointwise(scaled, CUDNN_POINTWISE_MUL, product, &scale);
  return scaled;
}

void describe_forward(Operations& g, const AttentionPiece& piece) {
  const DnnDescriptor scale = number(kDnnScale, CUDNN_DATA_FLOAT),
                      seen = seen_of(g, piece, scaled_products(g, scale)),
                      largest = g.row_numbers(), shifted = g.scores(), exponential = g.scores(),
                      sum = g.row_numbers(), logarithm = g.row_numbers(),
                      p = g.scores(dnn_type(piece.shape.dtype));
  g.reduce(largest, CUDNN_REDUCE_TENSOR_MAX, seen);
  g.pointwise(shifted, CUDNN_POINTWISE_SUB, seen, &largest);
  g.pointwise(exponential, CUDNN_POINTWISE_EXP, shifted);
  g.reduce(sum, CUDNN_REDUCE_TENSOR_ADD, exponential);
  g.pointwise(logarithm, CUDNN_POINTWISE_LOG, sum);
  g.pointwise(g.statistics(kDnnLse), CUDNN_POINTWISE_ADD, largest, &logarithm);
  g.pointwise(p, CUDNN_POINTWISE_DIV, exponential, &sum);
  g.product(g.queries(kDnnO), p, g.keys(kDnnV));
}

/// delta = Σ do · o
void describe_delta(Operations& g, const AttentionPiece& piece, const DnnDescriptor& delta) {
  const AttentionShape& s = piece.shape;
  const DnnDescriptor products = g.between(CUDNN_DATA_FLOAT, s.queries, s.width),
                      sum = g.row_numbers(), o = g.queries(kDnnO),
                      one = number(kDnnOne, CUDNN_DATA_FLOAT);
  g.pointwise(products, CUDNN_POINTWISE_MUL, g.queries(kDnnDo), &o);
  g.reduce(sum, CUDNN_REDUCE_TENSOR_ADD, products);
  g.pointwise(delta, CUDNN_POINTWISE_MUL, sum, &one);
}

/// Result, of keys, = scoresᵀ · x, added up over the query heads of each key head.
void describe_keys(Operations& g, const AttentionPiece& piece, std::int64_t result,
                   const DnnDescriptor& scores, const DnnDescriptor& x) {
  const AttentionShape& s = piece.shape;
  const DnnDescriptor by_key = g.scores_by_key();
  g.reshape(by_key, scores);
  if (s.group == 1) return g.product(g.keys(result), by_key, x);
  const DnnDescriptor of_heads = g.between(dnn_type(s.dtype), s.keys, s.width);
  g.product(of_heads, by_key, x);
  g.reduce(g.keys(result), CUDNN_REDUCE_TENSOR_ADD, of_heads);
}

void describe_gradient(Operations& g, const AttentionPiece& piece) {
  const DnnDescriptor scale = number(kDnnScale, CUDNN_DATA_FLOAT), delta = g.statistics(kDnnDelta),
                      lse = g.statistics(kDnnLse), dy = g.queries(kDnnDo);
  describe_delta(g, piece, delta);
  DnnDescriptor shifted = g.scores();
  g.pointwise(shifted, CUDNN_POINTWISE_SUB, scaled_products(g, scale), &lse);
  const DnnDescriptor seen = seen_of(g, piece, std::move(shifted)), p = g.scores();
  g.pointwise(p, CUDNN_POINTWISE_EXP, seen);
  describe_keys(g, piece, kDnnDv, p, dy);
  const DnnDescriptor dp = g.scores(), centred = g.scores(), weighted = g.scores(), ds = g.scores(),
                      k = g.rows_of_keys();
  g.product(dp, dy, g.keys(kDnnV, true));
  g.pointwise(centred, CUDNN_POINTWISE_SUB, dp, &delta);
  g.pointwise(weighted, CUDNN_POINTWISE_MUL, centred, &p);
  g.pointwise(ds, CUDNN_POINTWISE_MUL, weighted, &scale);
  describe_keys(g, piece, kDnnDk, ds, g.queries(kDnnQ));
  g.reshape(k, g.keys(kDnnK, true));
  if (piece.shape.repeats) return g.product(g.queries(kDnnDq), ds, k);
  const DnnDescriptor sums = g.sums();
  g.product(sums, ds, k);
  g.pointwise(g.queries(kDnnDq), CUDNN_POINTWISE_IDENTITY, sums);
}

}  // namespace

DnnAttentionNumbers::DnnAttentionNumbers(const AttentionPiece& piece)
    : scale(static_cast<float>(piece.shape.scale)),
      keys(static_cast<std::int32_t>(piece.shape.keys)),
      queries(static_cast<std::int32_t>(piece.shape.queries)),
      tensors{{kDnnScale, &scale}} {
  const bool is_causal = piece.shape.visible < piece.shape.keys;
  if (piece.is_gradient) tensors.emplace_back(kDnnOne, &one);
  if (is_causal) tensors.emplace_back(kDnnHidden, &hidden);
  if (is_causal && piece.shape.visible != 1)
    tensors.emplace_back(kDnnKeys, &keys), tensors.emplace_back(kDnnQueries, &queries);
}

std::vector<DnnDescriptor> dnn_attention(const AttentionPiece& piece) {
  Operations operations(piece);
  piece.is_gradient ? describe_gradient(operations, piece) : describe_forward(operations, piece);
  return operations.take();
}

DnnProblem attention_problem(const AttentionPiece& piece, std::int64_t workspace_bytes,
                             const DnnAttentionNumbers& numbers) {
  const AttentionShape& s = piece.shape;
  const std::int64_t statistics = s.batch * s.heads * s.queries,
                     queries = s.batch * s.queries * piece.row_heads * s.width,
                     keys = s.batch * s.keys * piece.row_key_heads * s.width;
  DnnProblem problem{.key = to_string(piece),
                     .subject = kAttentionRuns,
                     .operations = [piece] { return dnn_attention(piece); },
                     .operands = {{kDnnLse, f32, statistics}},
                     .numbers = numbers.tensors,
                     .workspace_bytes = workspace_bytes,
                     .repeats = !piece.is_gradient || s.repeats,
                     .least_version = kLeastAttentionVersion};
  const auto add = [&](std::initializer_list<std::int64_t> tensors, std::int64_t elements) {
    for (const std::int64_t tensor : tensors)
      problem.operands.push_back({tensor, s.dtype, elements});
  };
  add({kDnnQ, kDnnO}, queries), add({kDnnK, kDnnV}, keys);
  if (!piece.is_gradient) return problem;
  add({kDnnDo, kDnnDq}, queries), add({kDnnDk, kDnnDv}, keys);
  problem.operands.push_back({kDnnDelta, f32, statistics});
  if (!problem.repeats) problem.operands.push_back({kDnnSums, f32, statistics * s.width});
  return problem;
}

}  // namespace alpa::cuda
