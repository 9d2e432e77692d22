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

/// The same elements in another shape.
Reference same_order(const Shape& result);

/// Ba et al. 2016: (x, scale, bias) → (y, mean, rstd) over the last dimension.
Reference layer_norm(double epsilon);
/// (dy, x, scale, mean, rstd) → (dx, dscale, dbias), whatever mean and rstd are.
Reference layer_norm_grad();

/// (table, ids) → rows of the table.
Reference embedding();
/// (dy, ids) → the rows of dy summed by id.
Reference embedding_grad(std::int64_t rows);

/// Kingma and Ba 2015, algorithm 1; with weight decay added to the gradient, or taken off the
/// weight.
Reference squared_norms();

/// Of a node with two members of so many states each: `one` for each member.
Reference two_members(const Reference& one, int states);

Reference adam(double beta1, double beta2, double epsilon, double weight_decay, bool decoupled);

/// Sutskever et al. 2013.
Reference sgd(double momentum, double weight_decay, bool nesterov);

}  // namespace alpa::testing::cases
