// Rows of operators of sliding windows: convolutions and poolings.
#include "cases.h"
#include "reference.h"

namespace alpa::testing::cases {
namespace {

using Ints = std::vector<std::int64_t>;

/// A convolution; padding: before and after the rows, before and after the columns.
struct Convolution {
  Shape x, kernel;
  Ints stride = {1, 1}, dilation = {1, 1}, padding = {0, 0, 0, 0};
  std::int64_t groups = 1;

  Shape y() const {
    const auto count = [&](int d) {
      return (x[1 + d] + padding[2 * d] + padding[2 * d + 1] - dilation[d] * (kernel[d] - 1) - 1) /
                 stride[d] +
             1;
    };
    return {x[0], count(0), count(1), kernel[3]};
  }
  double flops() const {
    double points = 2;
    for (std::int64_t extent : y()) points *= double(extent);
    return points * double(kernel[0] * kernel[1] * kernel[2]);
  }
  Attributes attributes() const {
    return {{"stride", stride}, {"dilation", dilation}, {"padding", padding}, {"groups", groups}};
  }
};

/// visit(index of x, index of kernel, index of y) for all products of a convolution.
template <class Visit>
void for_products(const Convolution& c, const Visit& visit) {
  const std::int64_t per_group = c.kernel[3] / c.groups;
  for_each(c.y(), [&](const Shape& y) {
    for_each({c.kernel[0], c.kernel[1], c.kernel[2]}, [&](const Shape& tap) {
      const std::int64_t row = y[1] * c.stride[0] - c.padding[0] + tap[0] * c.dilation[0],
                         column = y[2] * c.stride[1] - c.padding[2] + tap[1] * c.dilation[1];
      if (row < 0 || row >= c.x[1] || column < 0 || column >= c.x[2]) return;
      visit(Shape{y[0], row, column, y[3] / per_group * c.kernel[2] + tap[2]},
            Shape{tap[0], tap[1], tap[2], y[3]}, y);
    });
  });
}

Tensor zeros(const Shape& shape) {
  return {shape, std::vector<double>(alpa::num_elements(shape), 0.0)};
}

void add_convolution(std::vector<Case>& table, DType dtype, const Convolution& c,
                     double largest = 1) {
  const auto type = [&](const Shape& shape) { return Operand{{dtype, shape}, -largest, largest}; };
  const auto extended = [&](std::int64_t rows, std::int64_t columns) {
    Attributes attributes = c.attributes();
    attributes.set("extents", Ints{rows, columns});
    return attributes;
  };
  table.push_back({&ops::conv2d,
                   {type(c.x), type(c.kernel)},
                   [c](const std::vector<Tensor>& in) {
                     Tensor y = zeros(c.y());
                     for_products(c, [&](const Shape& i, const Shape& k, const Shape& o) {
                       y.at(o) += in[0].at(i) * in[1].at(k);
                     });
                     return std::vector<Tensor>{y};
                   },
                   c.flops(),
                   c.attributes()});
  table.push_back({&ops::conv2d_grad_x,
                   {type(c.y()), type(c.kernel)},
                   [c](const std::vector<Tensor>& in) {
                     Tensor dx = zeros(c.x);
                     for_products(c, [&](const Shape& i, const Shape& k, const Shape& o) {
                       dx.at(i) += in[0].at(o) * in[1].at(k);
                     });
                     return std::vector<Tensor>{dx};
                   },
                   c.flops(),
                   extended(c.x[1], c.x[2])});
  table.push_back({&ops::conv2d_grad_kernel,
                   {type(c.x), type(c.y())},
                   [c](const std::vector<Tensor>& in) {
                     Tensor dkernel = zeros(c.kernel);
                     for_products(c, [&](const Shape& i, const Shape& k, const Shape& o) {
                       dkernel.at(k) += in[0].at(i) * in[1].at(o);
                     });
                     return std::vector<Tensor>{dkernel};
                   },
                   c.flops(),
                   extended(c.kernel[0], c.kernel[1])});
}

void convolutions(std::vector<Case>& table) {
  for (DType dtype : {f64, f32}) {
    add_convolution(table, dtype, {{2, 4, 5, 3}, {3, 3, 3, 2}, {1, 1}, {1, 1}, {1, 1, 1, 1}});
    // uneven padding, a stride that leaves elements unread, dilation
    add_convolution(table, dtype, {{3, 6, 5, 2}, {2, 3, 2, 3}, {2, 3}, {2, 1}, {0, 1, 2, 0}});
    add_convolution(table, dtype, {{2, 3, 3, 4}, {1, 1, 4, 3}, {2, 2}});
    add_convolution(table, dtype,  // groups of several channels
                    {{2, 3, 4, 4}, {2, 2, 2, 6}, {1, 1}, {1, 1}, {1, 0, 0, 1}, 2});
    add_convolution(table, dtype,  // depthwise, and with two features of each channel
                    {{2, 4, 3, 5}, {3, 2, 1, 5}, {2, 1}, {1, 1}, {1, 1, 0, 0}, 5});
    add_convolution(table, dtype, {{1, 3, 3, 4}, {2, 2, 1, 8}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 4});
    add_convolution(table, dtype, {{1, 1, 1, 1}, {1, 1, 1, 1}});
    add_convolution(table, dtype, {{2, 1, 7, 2}, {1, 7, 2, 3}, {1, 2}, {1, 1}, {0, 0, 3, 3}});
  }
  for (DType dtype : {bf16, f16}) {
    add_convolution(table, dtype, {{2, 4, 5, 3}, {3, 3, 3, 2}, {2, 1}, {1, 1}, {1, 1, 1, 1}});
    add_convolution(table, dtype, {{2, 3, 4, 4}, {2, 2, 2, 6}, {1, 1}, {1, 2}, {0, 0, 1, 1}, 2});
    add_convolution(table, dtype, {{2, 4, 3, 5}, {3, 2, 1, 5}, {2, 1}, {1, 1}, {1, 1, 0, 0}, 5});
  }
  // enough images for oneDNN's algorithms
  for (DType dtype : {f32, bf16}) {
    const auto add = [&](const Convolution& c) { add_convolution(table, dtype, c, 0.2); };
    add({{5, 6, 5, 16}, {3, 3, 16, 32}, {1, 1}, {1, 1}, {1, 1, 1, 1}});
    add({{17, 4, 5, 3}, {3, 2, 3, 16}, {2, 1}, {1, 1}, {0, 1, 1, 0}});
    add({{4, 6, 7, 16}, {2, 1, 16, 20}, {2, 3}, {2, 1}});
    add({{4, 4, 3, 32}, {3, 3, 16, 32}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 2});
  }
  // more pixels than a block of rows
  add_convolution(table, f32, {{2, 19, 18, 5}, {3, 3, 5, 18}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, 0.2);
}

struct Pooling {
  Shape x;
  Ints window = {2, 2}, stride = {2, 2}, padding = {0, 0, 0, 0};

  Shape y() const {
    const auto count = [&](int d) {
      return (x[1 + d] + padding[2 * d] + padding[2 * d + 1] - window[d]) / stride[d] + 1;
    };
    return {x[0], count(0), count(1), x[3]};
  }
  double flops() const {
    double points = double(window[0] * window[1]);
    for (std::int64_t extent : y()) points *= double(extent);
    return points;
  }
  Attributes attributes() const {
    return {{"window", window}, {"stride", stride}, {"padding", padding}};
  }
};

/// Where the largest element of every window is, the first of equal ones.
Shape largest(const Pooling& p, const Tensor& x, const Shape& y) {
  Shape best;
  for_each({p.window[0], p.window[1]}, [&](const Shape& at) {
    const std::int64_t row = y[1] * p.stride[0] - p.padding[0] + at[0],
                       column = y[2] * p.stride[1] - p.padding[2] + at[1];
    if (row < 0 || row >= p.x[1] || column < 0 || column >= p.x[2]) return;
    const Shape here{y[0], row, column, y[3]};
    if (best.empty() || x.at(here) > x.at(best)) best = here;
  });
  return best;
}

void add_pooling(std::vector<Case>& table, DType dtype, const Pooling& p) {
  table.push_back({&ops::max_pool,
                   {{{dtype, p.x}}},
                   [p](const std::vector<Tensor>& in) {
                     Tensor y = zeros(p.y());
                     for_each(y.shape,
                              [&](const Shape& o) { y.at(o) = in[0].at(largest(p, in[0], o)); });
                     return std::vector<Tensor>{y};
                   },
                   p.flops(),
                   p.attributes()});
  table.push_back({&ops::max_pool_grad,
                   {{{dtype, p.y()}}, {{dtype, p.x}}},
                   [p](const std::vector<Tensor>& in) {
                     Tensor dx = zeros(p.x);
                     for_each(p.y(),
                              [&](const Shape& o) { dx.at(largest(p, in[1], o)) += in[0].at(o); });
                     return std::vector<Tensor>{dx};
                   },
                   p.flops(),
                   p.attributes()});
}

void poolings(std::vector<Case>& table) {
  for (DType dtype : {f64, f32, bf16, f16}) {
    add_pooling(table, dtype, {{2, 4, 5, 3}});
    add_pooling(table, dtype, {{3, 5, 4, 2}, {3, 2}, {2, 1}, {1, 1, 0, 1}});
    add_pooling(table, dtype, {{2, 6, 5, 16}, {3, 3}, {2, 2}, {1, 1, 1, 1}});  // whole packs
  }
  add_pooling(table, f32, {{2, 4, 4, 3}, {2, 2}, {1, 1}, {0, 1, 0, 1}});  // SAME
  add_pooling(table, f32, {{1, 7, 1, 300}, {1, 1}, {3, 1}});              // leaves elements out
}

}  // namespace

std::vector<Case> window_cases() {
  std::vector<Case> table;
  convolutions(table);
  poolings(table);
  return table;
}

}  // namespace alpa::testing::cases
