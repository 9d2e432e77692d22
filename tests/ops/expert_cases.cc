// Rows of the case table for tokens and experts.
#include "cases.h"
#include "reference.h"

namespace alpa::testing::cases {
namespace {

/// Letters as in src/ops/experts.cc.
struct Sizes {
  std::int64_t G, S, K, M, E, C;

  Shape tokens() const { return {G, S, M}; }
  Shape choices() const { return {G, S, K}; }
  Shape held() const { return {E, G, C, M}; }
};

Tensor zeros(const Shape& shape) {
  return {shape, std::vector<double>(static_cast<std::size_t>(num_elements(shape)))};
}

/// visit(token element, choice, element at its place) for all choices that have one.
void for_choices(const Sizes& z, const Tensor& places,
                 const std::function<void(const Shape&, const Shape&, const Shape&)>& visit) {
  for_each({z.G, z.S, z.K, z.M}, [&](const Shape& at) {
    const Shape choice{at[0], at[1], at[2]};
    const auto place = std::int64_t(places.at(choice));
    if (place >= 0) visit({at[0], at[1], at[3]}, choice, {place / z.C, at[0], place % z.C, at[3]});
  });
}

double weight_of(const std::vector<Tensor>& v, const Shape& choice) {
  return v.size() == 3 ? v[2].at(choice) : 1;
}

Reference dispatch(const Sizes& z) {
  return [z](const std::vector<Tensor>& v) {
    Tensor y = zeros(z.held());
    for_choices(z, v[1], [&](const Shape& token, const Shape& choice, const Shape& place) {
      y.at(place) += weight_of(v, choice) * v[0].at(token);
    });
    return std::vector<Tensor>{y};
  };
}

Reference combine(const Sizes& z) {
  return [z](const std::vector<Tensor>& v) {
    Tensor y = zeros(z.tokens());
    for_choices(z, v[1], [&](const Shape& token, const Shape& choice, const Shape& place) {
      y.at(token) += weight_of(v, choice) * v[0].at(place);
    });
    return std::vector<Tensor>{y};
  };
}

Reference expert_products(const Sizes& z) {
  return [z](const std::vector<Tensor>& v) {
    Tensor y = zeros(z.choices());
    for_choices(z, v[1], [&](const Shape& token, const Shape& choice, const Shape& place) {
      y.at(choice) += v[0].at(token) * v[2].at(place);
    });
    return std::vector<Tensor>{y};
  };
}

void add(std::vector<Case>& table, DType dtype, const Sizes& z) {
  const Operand x{{dtype, z.tokens()}}, results{{dtype, z.held()}},
      places{{i32, z.choices()}, -2, double(z.E * z.C - 1)},
      weights{{dtype == f64 ? f64 : f32, z.choices()}};
  const Attributes sizes{{"experts", z.E}, {"capacity", z.C}};
  const double points = double(num_elements(z.held()));
  table.push_back({&ops::dispatch, {x, places}, dispatch(z), 0, sizes});
  table.push_back({&ops::dispatch, {x, places, weights}, dispatch(z), points, sizes});
  table.push_back({&ops::combine, {results, places}, combine(z), points});
  table.push_back({&ops::combine, {results, places, weights}, combine(z), 2 * points});
  table.push_back({&ops::expert_products, {x, places, results}, expert_products(z), 2 * points});
}

}  // namespace

std::vector<Case> expert_cases() {
  std::vector<Case> table;
  add(table, f64, {2, 3, 2, 4, 3, 2});
  add(table, f64, {1, 4, 1, 3, 5, 1});
  add(table, f64, {3, 5, 2, 2, 2, 1});     // several tokens at one place
  add(table, f32, {2, 70, 2, 12, 3, 67});  // more places than a block of CUDA's fills
  add(table, f32, {1, 3, 2, 1030, 2, 3});  // more than a block of the CPU's
  add(table, f32, {1, 1, 3, 1, 1, 2});
  add(table, bf16, {2, 5, 2, 8, 4, 3});
  add(table, bf16, {1, 300, 2, 6, 4, 150});
  add(table, f16, {2, 4, 1, 16, 3, 2});
  return table;
}

}  // namespace alpa::testing::cases
