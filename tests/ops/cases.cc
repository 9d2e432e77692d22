#include "cases.h"

#include <algorithm>

#include "reference.h"

namespace alpa::testing::cases {
namespace {

using Ints = std::vector<std::int64_t>;

std::vector<Case> table;

void add_unary(const OpDef& op, double (*f)(double), double flops, double low = -2,
               double high = 2) {
  table.push_back({&op, {{{f64, {5, 6}}, low, high}}, unary(f), 30 * flops});
  table.push_back({&op, {{{f32, {7}}, low, high}}, unary(f), 7 * flops});
  table.push_back({&op, {{{f32, {}}, low, high}}, unary(f), flops});
  table.push_back({&op, {{{bf16, {3, 1, 4}}, low, high}}, unary(f), 12 * flops});
  table.push_back({&op, {{{f16, {9}}, low, high}}, unary(f), 9 * flops});
}

/// Broadcasting in every direction, then the other element types.
void add_binary(const OpDef& op, double (*f)(double, double), double flops, double low = -2,
                double high = 2) {
  const auto row = [&](DType dtype, const Shape& x, const Shape& y, double points) {
    table.push_back(
        {&op, {{{dtype, x}, low, high}, {{dtype, y}, low, high}}, binary(f), points * flops});
  };
  row(f64, {5, 6}, {5, 6}, 30);
  row(f64, {5, 6}, {6}, 30);
  row(f64, {5, 1}, {1, 6}, 30);
  row(f64, {}, {3, 4}, 12);
  row(f32, {2, 1, 3}, {4, 1}, 24);
  row(f32, {7}, {}, 7);
  row(bf16, {3, 4}, {3, 4}, 12);
  row(f16, {3, 4}, {4}, 12);
}

void add_integers(const OpDef& op, double (*f)(double, double)) {
  table.push_back({&op, {{{i32, {5, 3}}, -9, 9}, {{i32, {3}}, -3, 3}}, binary(f), 15});
}

double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) { return (gelu(x + 1e-6) - gelu(x - 1e-6)) / 2e-6; }

void arithmetic() {
  add_binary(
      ops::add, [](double x, double y) { return x + y; }, 1);
  add_binary(
      ops::sub, [](double x, double y) { return x - y; }, 1);
  add_binary(
      ops::mul, [](double x, double y) { return x * y; }, 1);
  add_binary(
      ops::div, [](double x, double y) { return x / y; }, 1, 0.5, 3);
  add_binary(
      ops::maximum, [](double x, double y) { return std::max(x, y); }, 1);
  add_binary(
      ops::minimum, [](double x, double y) { return std::min(x, y); }, 1);
  add_binary(
      ops::pow, [](double x, double y) { return std::pow(x, y); }, 10, 0.5, 3);
  add_integers(ops::add, [](double x, double y) { return x + y; });
  add_integers(ops::sub, [](double x, double y) { return x - y; });
  add_integers(ops::mul, [](double x, double y) { return x * y; });
  add_integers(ops::maximum, [](double x, double y) { return std::max(x, y); });
}

void functions() {
  add_unary(
      ops::neg, [](double x) { return -x; }, 1);
  add_unary(
      ops::abs, [](double x) { return std::fabs(x); }, 1);
  add_unary(
      ops::sign, [](double x) { return double((x > 0) - (x < 0)); }, 1);
  add_unary(
      ops::exp, [](double x) { return std::exp(x); }, 8);
  add_unary(
      ops::log, [](double x) { return std::log(x); }, 8, 0.2, 5);
  add_unary(
      ops::sqrt, [](double x) { return std::sqrt(x); }, 1, 0.2, 5);
  add_unary(
      ops::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 2, 0.2, 5);
  add_unary(
      ops::tanh, [](double x) { return std::tanh(x); }, 10);
  add_unary(
      ops::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 10);
  add_unary(
      ops::sin, [](double x) { return std::sin(x); }, 12, -9, 9);
  add_unary(
      ops::cos, [](double x) { return std::cos(x); }, 12, -9, 9);
  add_unary(
      ops::floor, [](double x) { return std::floor(x); }, 1, -9, 9);
  add_unary(
      ops::erf, [](double x) { return std::erf(x); }, 16, -4, 4);
  add_unary(
      ops::relu, [](double x) { return std::max(x, 0.0); }, 1);
  add_unary(
      ops::step, [](double x) { return x > 0 ? 1.0 : 0.0; }, 1);
  add_unary(ops::gelu, gelu, 16);
  add_unary(
      ops::square, [](double x) { return x * x; }, 1);
  add_unary(
      ops::stop_gradient, [](double x) { return x; }, 0);
  add_unary(
      ops::output, [](double x) { return x; }, 0);
  table.push_back({&ops::gelu_grad, {{{f32, {5, 6}}}}, unary(gelu_slope), 30 * 24});
  table.push_back({&ops::square, {{{i32, {4}}, -9, 9}}, unary([](double x) { return x * x; }), 4});
}

void add_comparison(const OpDef& op, double (*f)(double, double)) {
  table.push_back({&op, {{{i32, {5, 6}}, -2, 2}, {{i32, {6}}, -2, 2}}, binary(f), 30});
  table.push_back({&op, {{{f32, {7}}}, {{f32, {}}}}, binary(f), 7});
  table.push_back({&op, {{{f64, {3, 1}}}, {{f64, {4}}}}, binary(f), 12});
}

void conditions() {
  add_comparison(ops::eq, [](double x, double y) { return double(x == y); });
  add_comparison(ops::ne, [](double x, double y) { return double(x != y); });
  add_comparison(ops::lt, [](double x, double y) { return double(x < y); });
  add_comparison(ops::le, [](double x, double y) { return double(x <= y); });
  add_comparison(ops::gt, [](double x, double y) { return double(x > y); });
  add_comparison(ops::ge, [](double x, double y) { return double(x >= y); });
  const Reference choose =
      elementwise([](const std::vector<double>& v) { return v[0] != 0 ? v[1] : v[2]; });
  table.push_back(
      {&ops::where, {{{u8, {5, 6}}, 0, 1}, {{f64, {5, 6}}}, {{f64, {5, 6}}}}, choose, 30});
  table.push_back({&ops::where, {{{u8, {5, 1}}, 0, 1}, {{f64, {6}}}, {{f64, {}}}}, choose, 30});
  table.push_back({&ops::where, {{{u8, {7}}, 0, 1}, {{f32, {7}}}, {{f32, {}}}}, choose, 7});
  table.push_back(
      {&ops::where, {{{u8, {7}}, 0, 1}, {{i32, {7}}, -9, 9}, {{i32, {7}}, -9, 9}}, choose, 7});
  const Reference scale =
      elementwise([](const std::vector<double>& v) { return v[0] * v[1] + v[2]; });
  for (const DType dtype : {f64, f32, bf16}) {
    const Operand x{{dtype, {2, 3, 5}}}, channels{{dtype, {5}}};
    table.push_back({&ops::multiply_add, {x, channels, channels}, scale, 60});
    table.push_back({&ops::multiply_add, {channels, x, {{dtype, {3, 1}}}}, scale, 60});
  }
}

void add_cast(DType from, DType to, double (*f)(double)) {
  table.push_back({&ops::cast, {{{from, {5, 3}}, -9, 9}}, unary(f), 0, {{"to", to}}});
}

void conversions() {
  const auto same = [](double x) { return x; };
  const auto truncated = [](double x) { return std::trunc(x); };
  for (DType from : {f32, bf16, f16, f64, i32})
    for (DType to : {f32, bf16, f16, f64})
      if (from != to) add_cast(from, to, same);
  add_cast(f32, i32, truncated);
  add_cast(f64, i32, truncated);
  table.push_back({&ops::cast, {{{u8, {6}}, 0, 1}}, unary(same), 0, {{"to", f32}}});
  table.push_back({&ops::cast, {{{i32, {6}}, 0, 9}}, unary(same), 0, {{"to", u8}}});
}

void add_einsum(DType dtype, const std::string& x, const std::string& y, const std::string& z,
                const Shape& x_shape, const Shape& y_shape, double flops) {
  table.push_back({&ops::einsum,
                   {{{dtype, x_shape}}, {{dtype, y_shape}}},
                   contraction(x, y, z),
                   flops,
                   {{"equation", x + "," + y + "->" + z}}});
}

void contractions() {
  for (DType dtype : {f64, f32, bf16, f16}) {
    add_einsum(dtype, "mk", "kn", "mn", {5, 7}, {7, 6}, 2 * 5 * 7 * 6);
    add_einsum(dtype, "bmk", "bkn", "bmn", {3, 2, 5}, {3, 5, 4}, 2 * 3 * 2 * 5 * 4);
  }
  for (DType dtype : {f64, f32}) {
    add_einsum(dtype, "mk", "nk", "mn", {5, 7}, {6, 7}, 2 * 5 * 7 * 6);
    add_einsum(dtype, "km", "kn", "mn", {7, 5}, {7, 6}, 2 * 5 * 7 * 6);
    add_einsum(dtype, "km", "nk", "mn", {7, 5}, {6, 7}, 2 * 5 * 7 * 6);
    add_einsum(dtype, "mk", "kn", "nm", {5, 7}, {7, 6}, 2 * 5 * 7 * 6);
    add_einsum(dtype, "bmk", "kn", "bmn", {2, 3, 5}, {5, 4}, 2 * 2 * 3 * 5 * 4);
    add_einsum(dtype, "bmk", "bmn", "kn", {2, 3, 5}, {2, 3, 4}, 2 * 2 * 3 * 5 * 4);
  }
  add_einsum(i32, "mk", "kn", "mn", {5, 7}, {7, 6}, 2 * 5 * 7 * 6);
  add_einsum(f64, "bthd", "bshd", "bhts", {2, 3, 2, 4}, {2, 5, 2, 4}, 2 * 2 * 3 * 2 * 4 * 5);
  for (DType dtype : {f32, bf16}) {  // many small products, which threads share
    add_einsum(dtype, "bnqd", "bnkd", "bnqk", {4, 3, 5, 8}, {4, 3, 7, 8}, 2 * 4 * 3 * 5 * 7 * 8);
    add_einsum(dtype, "bnqk", "bnkd", "bnqd", {4, 4, 8, 8}, {4, 4, 8, 8}, 2 * 4 * 4 * 8 * 8 * 8);
  }
  add_einsum(f64, "i", "j", "ij", {4}, {5}, 20);
  add_einsum(f64, "i", "i", "", {6}, {6}, 12);
  add_einsum(f64, "ij", "ij", "ij", {3, 4}, {3, 4}, 12);
  add_einsum(f64, "ij", "j", "i", {3, 4}, {4}, 24);
}

double add(double x, double y) { return x + y; }
double larger(double x, double y) { return std::max(x, y); }

void add_reductions(DType dtype, const Shape& shape, const Ints& axes, bool keep_dims,
                    double flops) {
  const Attributes attributes{{"axes", axes}, {"keep_dims", std::int64_t{keep_dims}}};
  const double low = dtype == i32 ? -9 : -2, high = dtype == i32 ? 9 : 2;
  table.push_back({&ops::reduce_sum,
                   {{{dtype, shape}, low, high}},
                   reduction(axes, keep_dims, 0, add),
                   flops,
                   attributes});
  table.push_back({&ops::reduce_max,
                   {{{dtype, shape}, low, high}},
                   reduction(axes, keep_dims, -1e300, larger),
                   flops,
                   attributes});
}

void reductions() {
  add_reductions(f64, {5, 6}, {0}, false, 30);
  add_reductions(f64, {5, 6}, {1}, false, 30);
  add_reductions(f64, {5, 6}, {1}, true, 30);
  add_reductions(f64, {5, 6}, {0, 1}, false, 30);
  add_reductions(f64, {2, 3, 4}, {1}, false, 24);
  add_reductions(f64, {2, 3, 4}, {0, 2}, true, 24);
  add_reductions(f32, {2, 3, 4}, {0, 2}, false, 24);
  add_reductions(f32, {7}, {0}, false, 7);
  add_reductions(bf16, {5, 6}, {0}, false, 30);
  add_reductions(f16, {5, 6}, {1}, false, 30);
  add_reductions(i32, {5, 6}, {0}, false, 30);
}

void add_reshape(DType dtype, const Shape& from, const Shape& to) {
  const double extreme = dtype == i32 || dtype == u8 ? 1 : 2;
  table.push_back({&ops::reshape,
                   {{{dtype, from}, dtype == u8 ? 0 : -extreme, extreme}},
                   same_order(to),
                   0,
                   {{"shape", to}}});
}

void add_transpose(DType dtype, const Shape& from, const Ints& permutation) {
  Shape to;
  for (std::int64_t d : permutation) to.push_back(from[d]);
  const auto source = [permutation](const Shape& index) {
    Shape original(index.size());
    for (std::size_t i = 0; i < index.size(); ++i) original[permutation[i]] = index[i];
    return original;
  };
  table.push_back({&ops::transpose,
                   {{{dtype, from}, 0, 1}},
                   gather(to, source),
                   0,
                   {{"permutation", permutation}}});
}

void add_broadcast(DType dtype, const Shape& from, const Shape& to, const Ints& dims) {
  const auto source = [from, dims](const Shape& index) {
    Shape original;
    for (std::size_t d = 0; d < dims.size(); ++d)
      original.push_back(from[d] == 1 ? 0 : index[dims[d]]);
    return original;
  };
  table.push_back({&ops::broadcast,
                   {{{dtype, from}, 0, 1}},
                   gather(to, source),
                   0,
                   {{"dims", dims}, {"shape", to}}});
}

void movements() {
  add_reshape(f64, {2, 3, 4}, {6, 4});
  add_reshape(f64, {8, 3}, {2, 4, 3});
  add_reshape(f64, {6, 4}, {4, 6});
  add_reshape(f64, {4, 6}, {8, 3});
  add_reshape(f64, {2, 3}, {3, 2});
  add_reshape(f32, {4, 1, 6}, {4, 6, 1});
  add_reshape(f32, {12}, {3, 4});
  add_reshape(bf16, {3, 4, 2}, {12, 2});
  add_reshape(u8, {5}, {5, 1});
  add_transpose(f64, {4, 5}, {1, 0});
  add_transpose(f64, {2, 3, 4}, {2, 0, 1});
  add_transpose(f32, {3, 2, 4, 5}, {0, 2, 1, 3});
  add_transpose(bf16, {4, 5}, {1, 0});
  add_transpose(i32, {4, 5}, {1, 0});
  add_transpose(u8, {2, 3, 4}, {1, 2, 0});
  add_broadcast(f64, {5}, {4, 5}, {1});
  add_broadcast(f64, {5}, {5, 3}, {0});
  add_broadcast(f64, {}, {3, 4}, {});
  add_broadcast(f64, {4, 1}, {4, 5}, {0, 1});
  add_broadcast(f64, {2, 4}, {2, 3, 4}, {0, 2});
  add_broadcast(f32, {1, 4}, {3, 2, 4}, {1, 2});
  add_broadcast(bf16, {4}, {3, 4}, {1});
  add_broadcast(i32, {4}, {4, 3}, {0});
}

void add_slice(DType dtype, const Shape& from, std::int64_t axis, std::int64_t begin,
               std::int64_t end, std::int64_t stride) {
  Shape to = from;
  to[axis] = (end - begin + stride - 1) / stride;
  const auto source = [=](Shape index) {
    index[axis] = begin + index[axis] * stride;
    return index;
  };
  table.push_back({&ops::slice,
                   {{{dtype, from}, 0, 1}},
                   gather(to, source),
                   0,
                   {{"axis", axis}, {"begin", begin}, {"end", end}, {"stride", stride}}});
}

void add_pad(DType dtype, const Shape& from, std::int64_t axis, std::int64_t before,
             std::int64_t after, std::int64_t interior, double value) {
  table.push_back({&ops::pad,
                   {{{dtype, from}, 0, 1}},
                   padded(axis, before, after, interior, value),
                   0,
                   {{"axis", axis},
                    {"before", before},
                    {"after", after},
                    {"interior", interior},
                    {"value", value}}});
}

void add_concatenate(DType dtype, Shape shape, std::int64_t axis, const Ints& extents) {
  std::vector<Operand> parts;
  for (std::int64_t extent : extents) {
    shape[axis] = extent;
    parts.push_back({{dtype, shape}, 0, 1});
  }
  table.push_back({&ops::concatenate, parts, concatenation(axis), 0, {{"axis", axis}}});
}

void pieces() {
  add_slice(f64, {7, 3}, 0, 2, 5, 1);
  add_slice(f64, {3, 7}, 1, 1, 7, 2);
  add_slice(f64, {2, 5, 3}, 1, 4, 5, 1);
  add_slice(f32, {9}, 0, 0, 8, 3);
  add_slice(bf16, {3, 8}, 1, 2, 6, 1);
  add_slice(f16, {1, 6, 1}, 1, 0, 6, 5);
  add_slice(i32, {4, 5}, 0, 1, 4, 1);
  add_slice(u8, {5, 4}, 1, 1, 3, 1);
  add_pad(f64, {3, 4}, 0, 1, 2, 0, 0);
  add_pad(f64, {3, 4}, 1, 0, 3, 2, 0);
  add_pad(f64, {2, 1, 3}, 1, 2, 1, 3, 0.5);
  add_pad(f32, {5}, 0, 0, 0, 1, -3);
  add_pad(f32, {3, 5, 2}, 2, 1, 1, 0, 1.25);
  add_pad(bf16, {4, 3}, 0, 3, 0, 1, 0.5);
  add_pad(f16, {4, 3}, 1, 1, 0, 0, 0);
  add_pad(i32, {2, 3}, 1, 2, 2, 0, 7);
  add_pad(u8, {3}, 0, 1, 1, 0, 1);
  add_concatenate(f64, {3, 4}, 0, {1, 3, 2});
  add_concatenate(f64, {3, 4}, 1, {4, 5});
  add_concatenate(f64, {2, 1, 3}, 1, {1, 1, 2, 1});
  add_concatenate(f32, {5, 0}, 1, {1, 7});
  add_concatenate(bf16, {0, 4}, 0, {3, 2});
  add_concatenate(f16, {0}, 0, {2, 3});
  add_concatenate(i32, {0, 2, 2}, 0, {2, 1});
  add_concatenate(u8, {3, 0}, 1, {2, 2, 2});
}

Reference filled(const Shape& shape, const std::function<double(const Shape&)>& f) {
  return [=](const std::vector<Tensor>&) {
    Tensor y{shape, {}};
    for_each(shape, [&](const Shape& index) { y.data.push_back(f(index)); });
    return std::vector<Tensor>{y};
  };
}

void sources() {
  for (DType dtype : {f32, f64, bf16, f16, i32})
    for (double value : {0.0, 2.0})
      table.push_back({&ops::constant,
                       {},
                       filled({5, 3}, [=](const Shape&) { return value; }),
                       0,
                       {{"value", value}, {"dtype", dtype}, {"shape", Shape{5, 3}}}});
  for (DType dtype : {f32, i32})
    for (std::int64_t axis : {0, 1})
      table.push_back({&ops::iota,
                       {},
                       filled({5, 4}, [=](const Shape& index) { return double(index[axis]); }),
                       0,
                       {{"axis", axis}, {"dtype", dtype}, {"shape", Shape{5, 4}}}});
  for (const OpDef* op : {&ops::random_normal, &ops::random_uniform})
    for (DType dtype : {f32, f64, bf16, f16})
      table.push_back({op,
                       {},
                       {},
                       35 * 20,
                       {{"a", 0.5},
                        {"b", 2.0},
                        {"stream", std::int64_t{3}},
                        {"dtype", dtype},
                        {"shape", Shape{5, 7}}}});
}

void add_layer_norm(DType dtype, const Shape& rows, std::int64_t width) {
  Shape shape = rows;
  shape.push_back(width);
  double points = double(width);
  for (std::int64_t extent : rows) points *= double(extent);
  const DType statistics = dtype == f64 ? f64 : f32;
  const Operand x{{dtype, shape}}, scale{{dtype, {width}}, 0.5, 1.5}, bias{{dtype, {width}}};
  table.push_back(
      {&ops::layer_norm, {x, scale, bias}, layer_norm(1e-3), 8 * points, {{"epsilon", 1e-3}}});
  table.push_back({&ops::layer_norm_grad,
                   {x, x, scale, {{statistics, rows}, -0.5, 0.5}, {{statistics, rows}, 0.5, 1.5}},
                   layer_norm_grad(),
                   13 * points});
  const Operand statistic{{statistics, rows}, 0.5, 1.5};
  table.push_back({&ops::layer_norm_grad,
                   {x, x, scale, statistic, statistic, x},
                   onto_last(layer_norm_grad()),
                   14 * points});
}

void add_channel_sums(DType dtype, const Shape& shape) {
  double points = 1;
  for (std::int64_t extent : shape) points *= double(extent);
  const Operand x{{dtype, shape}};
  table.push_back({&ops::channel_sums, {x}, channel_sums(), 3 * points});
  table.push_back({&ops::channel_products, {x, x}, channel_sums(), 3 * points});
}

void normalisations() {
  add_channel_sums(f64, {4, 3, 6});
  add_channel_sums(f64, {5, 1});
  add_channel_sums(f32, {7});
  add_channel_sums(f32, {2, 3, 2, 5});
  add_channel_sums(f32, {3, 1040});   // more than a block of the CPU's
  add_channel_sums(f32, {1500, 24});  // rows in several pieces
  add_channel_sums(bf16, {130, 40});  // fewer packs than a warp has lanes
  add_channel_sums(bf16, {3, 2, 7});
  add_channel_sums(f16, {9, 8});
  add_layer_norm(f64, {5}, 6);
  add_layer_norm(f64, {2, 3}, 1);
  add_layer_norm(f32, {2, 3}, 7);
  add_layer_norm(f32, {}, 9);
  add_layer_norm(f32, {3}, 1040);  // more than a block of the CPU's and a pack per thread of CUDA's
  add_layer_norm(f32, {97}, 400);  // rows in several pieces
  add_layer_norm(bf16, {3, 2}, 8);
  add_layer_norm(f16, {7}, 5);
}

void add_embedding(DType dtype, std::int64_t rows, std::int64_t width, const Shape& ids) {
  Shape picked = ids;
  picked.push_back(width);
  double points = double(width);
  for (std::int64_t extent : ids) points *= double(extent);
  const Operand tokens{{i32, ids}, 0, double(rows - 1)};
  table.push_back({&ops::embedding, {{{dtype, {rows, width}}}, tokens}, embedding()});
  table.push_back({&ops::embedding_grad,
                   {{{dtype, picked}}, tokens},
                   embedding_grad(rows),
                   points,
                   {{"rows", rows}}});
}

void lookups() {
  add_embedding(f64, 5, 3, {4});
  add_embedding(f64, 3, 4, {2, 5});
  add_embedding(f32, 7, 6, {2, 3});
  add_embedding(f32, 9, 2, {});
  add_embedding(f32, 2, 1030, {6});
  add_embedding(f32, 40, 8, {3, 401});  // more tokens than a sorted chunk of CUDA's
  add_embedding(bf16, 3, 5, {9});
  add_embedding(f16, 11, 8, {7});
}

/// Some labels are outside of the classes.
void add_cross_entropy(DType dtype, const Shape& rows, std::int64_t classes, double smoothing) {
  Shape shape = rows;
  shape.push_back(classes);
  double points = double(classes);
  for (std::int64_t extent : rows) points *= double(extent);
  const Operand x{{dtype, shape}}, labels{{i32, rows}, -1, double(classes)};
  const TensorType numbers{dtype == f64 ? f64 : f32, rows};
  const Attributes attributes{{"smoothing", smoothing}};
  table.push_back(
      {&ops::cross_entropy, {x, labels}, cross_entropy(smoothing), 11 * points, attributes});
  table.push_back({&ops::cross_entropy_grad,
                   {x, labels, {numbers, 1, 4}, {numbers}, {numbers}},
                   cross_entropy_grad(smoothing),
                   11 * points,
                   attributes});
}

void cross_entropies() {
  add_cross_entropy(f64, {5}, 6, 0);
  add_cross_entropy(f64, {2, 3}, 5, 0.25);
  add_cross_entropy(f64, {4}, 1, 0);
  add_cross_entropy(f32, {}, 9, 0);
  add_cross_entropy(f32, {7}, 2, 0.5);
  // more than a block of the CPU's, a block of CUDA's threads, rows at odd addresses
  add_cross_entropy(f32, {3}, 4111, 0.125);
  add_cross_entropy(bf16, {3, 2}, 2051, 0);
  add_cross_entropy(bf16, {9}, 37, 0.25);
  add_cross_entropy(f16, {5}, 64, 0);
}

void add_take(DType dtype, const Shape& shape, std::int64_t axis, std::int64_t taken) {
  Shape ids = shape;
  ids[axis] = taken;
  double points = 1;
  for (std::int64_t extent : ids) points *= double(extent);
  const std::int64_t extent = shape[axis];
  const Operand places{{i32, ids}, 0, double(extent - 1)};
  table.push_back({&ops::take_along_axis,
                   {{{dtype, shape}}, places},
                   take_along_axis(axis),
                   0,
                   {{"axis", axis}}});
  table.push_back({&ops::take_along_axis_grad,
                   {{{dtype, ids}}, places},
                   take_along_axis_grad(axis, extent),
                   points,
                   {{"axis", axis}, {"extent", extent}}});
}

void add_cumulative_sum(DType dtype, const Shape& shape, std::int64_t axis) {
  double points = 1;
  for (std::int64_t extent : shape) points *= double(extent);
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true})
      table.push_back({&ops::cumulative_sum,
                       {{{dtype, shape}, dtype == i32 ? -9.0 : -2.0, dtype == i32 ? 9.0 : 2.0}},
                       cumulative_sum(axis, exclusive, reverse),
                       points,
                       {{"axis", axis},
                        {"exclusive", std::int64_t{exclusive}},
                        {"reverse", std::int64_t{reverse}}}});
}

/// Elements of few values, so that some are equal.
void add_order(DType dtype, const Shape& shape, std::int64_t axis, std::int64_t k, double range) {
  double points = 1;
  for (std::int64_t extent : shape) points *= double(extent);
  const Operand x{{dtype, shape}, -range, range};
  table.push_back({&ops::argmax, {x}, argmax(axis), points, {{"axis", axis}}});
  for (const bool descending : {false, true})
    table.push_back({&ops::top_k,
                     {x},
                     top_k(k, descending),
                     points,
                     {{"k", k}, {"descending", std::int64_t{descending}}}});
}

void lines() {
  add_take(f64, {5, 3}, 0, 4);
  add_take(f64, {2, 6}, 1, 3);
  add_take(f64, {2, 4, 3}, 1, 5);
  add_take(f32, {7}, 0, 2);
  add_take(f32, {3, 1, 2}, 1, 1);
  add_take(f32, {2, 3, 300}, 1, 2);
  add_take(bf16, {4, 5}, 1, 8);
  add_take(f16, {3, 4}, 0, 2);
  add_cumulative_sum(f64, {5, 3}, 0);
  add_cumulative_sum(f64, {3, 7}, 1);
  add_cumulative_sum(f64, {2, 4, 3}, 1);
  add_cumulative_sum(f32, {1300}, 0);
  add_cumulative_sum(f32, {2, 3, 520}, 1);
  add_cumulative_sum(f32, {1, 1}, 0);
  add_cumulative_sum(bf16, {4, 5}, 1);
  add_cumulative_sum(f16, {4, 5}, 0);
  add_cumulative_sum(i32, {3, 300}, 1);
  add_order(f64, {4, 6}, 0, 3, 2);
  add_order(f64, {2, 3, 5}, 1, 5, 2);
  add_order(f32, {9}, 0, 1, 2);
  add_order(f32, {3, 100}, 1, 40, 2);  // more than are inserted one by one
  add_order(f32, {2, 300}, 1, 70, 2);  // more than CUDA finds one after the other
  add_order(f32, {5, 1}, 1, 1, 2);
  add_order(bf16, {3, 8}, 1, 2, 2);
  add_order(f16, {2, 90}, 1, 90, 2);
  add_order(i32, {4, 50}, 1, 45, 5);
}

}  // namespace

std::string Case::label() const {
  std::string text(op->name);
  for (const Operand& operand : operands) text += " " + alpa::to_string(operand.type);
  return text + " " + alpa::to_string(attributes);
}

const std::vector<Case>& all() {
  if (!table.empty()) return table;
  for (auto part : {arithmetic, functions, conditions, conversions, contractions, reductions,
                    movements, pieces, sources, normalisations, lookups, cross_entropies, lines})
    part();
  for (auto part : {transformer_cases, expert_cases, window_cases, update_cases, quantized_cases})
    for (Case& row : part()) table.push_back(std::move(row));
  return table;
}

}  // namespace alpa::testing::cases
