#pragma once
/// Formulas in f64 that make up the references of the case table: plain loops over indices.
#include "cases.h"

namespace alpa::testing::cases {

/// 0 … n-1 for every dimension, row-major.
void for_each(const Shape& shape, const std::function<void(const Shape&)>& visit);

/// f of the operands' elements, broadcast as NumPy does.
Reference elementwise(const std::function<double(const std::vector<double>&)>& f);
inline Reference unary(double (*f)(double)) {
  return elementwise([f](const std::vector<double>& x) { return f(x[0]); });
}
inline Reference binary(double (*f)(double, double)) {
  return elementwise([f](const std::vector<double>& x) { return f(x[0], x[1]); });
}

/// Sum of products over the letters the result lacks.
Reference contraction(const std::string& x, const std::string& y, const std::string& z);

/// `combine` over the axes, starting from `first`.
Reference reduction(const std::vector<std::int64_t>& axes, bool keep_dims, double first,
                    double (*combine)(double, double));

/// Element at `result_index` is operand 0 at source(result_index).
Reference gather(const Shape& result, const std::function<Shape(const Shape&)>& source);

/// `value` before, after and between the elements along `axis`.
Reference padded(std::int64_t axis, std::int64_t before, std::int64_t after, std::int64_t interior,
                 double value);
/// The operands one behind the other along `axis`.
Reference concatenation(std::int64_t axis);

/// The same elements in another shape.
Reference same_order(const Shape& result);

/// x → (Σ x, Σ x²) or (x, y) → (Σ x, Σ x·y) over all dimensions but the last.
Reference channel_sums();

/// Ba et al. 2016: (x, scale, bias) → (y, mean, rstd) over the last dimension.
Reference layer_norm(double epsilon);
/// (dy, x, scale, mean, rstd) → (dx, dscale, dbias), whatever mean and rstd are.
Reference layer_norm_grad();
/// `of` the operands but the last, which is added to the first result.
Reference onto_last(const Reference& of);

/// (table, ids) → rows of the table.
Reference embedding();
/// (dy, ids) → the rows of dy summed by id.
Reference embedding_grad(std::int64_t rows);

/// (x, labels) → (log Σ exp(x), Σ target x) of every row, with the target of Szegedy et al. 2016.
Reference cross_entropy(double smoothing);
/// (x, labels, lse, dlse, dtarget) → dx, whatever lse is.
Reference cross_entropy_grad(double smoothing);

/// (x, ids) → x by index along `axis`.
Reference take_along_axis(std::int64_t axis);
/// (dy, ids) → dy's elements summed by index along `axis`, which has `extent` elements.
Reference take_along_axis_grad(std::int64_t axis, std::int64_t extent);

/// Sum of all elements before along `axis` (behind if `reverse`), with the own one or without.
Reference cumulative_sum(std::int64_t axis, bool exclusive, bool reverse);

/// Index of the first of the largest elements along `axis`.
Reference argmax(std::int64_t axis);
/// Values and indices of the first k elements of the last dimension, sorted by (value, index).
Reference top_k(std::int64_t k, bool descending);

/// Kingma and Ba 2015, algorithm 1; with weight decay added to the gradient, or taken off the
/// weight.
Reference squared_norms();

/// Of a node with two members of so many states each: `one` for each member.
Reference two_members(const Reference& one, int states);

/// An update whose last result is the new parameter once more.
Reference with_copy(const Reference& update);

Reference adam(double beta1, double beta2, double epsilon, double weight_decay, bool decoupled);

/// Sutskever et al. 2013.
Reference sgd(double momentum, double weight_decay, bool nesterov);

}  // namespace alpa::testing::cases
