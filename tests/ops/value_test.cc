#include <doctest/doctest.h>

#include "run_case.h"

namespace value_test {

using namespace alpa::testing::cases;
using namespace alpa;

TEST_CASE("every row's value is that of its formula in f64, to the rounding of its type") {
  for (const Case& row : all()) {
    if (!row.reference) continue;
    CAPTURE(row.label());
    const std::vector<HostTensor> operands = draw_operands(row),
                                  results = run_unsplit(row, operands);
    const std::vector<Tensor> expected = row.reference(to_reference(operands));
    REQUIRE(results.size() == expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      CHECK(results[i].type.shape == expected[i].shape);
      double narrowest = testing::epsilon(results[i].type.dtype);
      for (const HostTensor& operand : operands)
        narrowest = std::max(narrowest, testing::epsilon(operand.type.dtype));
      const bool second_difference = row.op == &ops::gelu_grad;
      CHECK(testing::difference(results[i], expected[i].data) <=
            (second_difference ? 1e-6 : 8 * narrowest));
    }
  }
}

TEST_CASE("random numbers have the moments of their distribution and change with step and stream") {
  for (const OpDef* op : {&ops::random_normal, &ops::random_uniform}) {
    const auto drawn = [&](std::int64_t stream, std::int64_t step) {
      const Attributes attributes{
          {"a", -1.0}, {"b", 3.0}, {"stream", stream}, {"dtype", f64}, {"shape", Shape{100, 100}}};
      return testing::run_kernel(*op->cpu, {}, {HostTensor({f64, {100, 100}})},
                                 {.attributes = attributes, .step = {.seed = 1, .step = step}})[0];
    };
    const HostTensor x = drawn(1, 1);
    double sum = 0, squares = 0;
    for (int i = 0; i < 10000; ++i) sum += x.get(i), squares += x.get(i) * x.get(i);
    const double mean = sum / 10000, variance = squares / 10000 - mean * mean;
    const bool normal = op == &ops::random_normal;
    // 3 standard errors are 0.09 and 0.035
    CHECK(mean == doctest::Approx(normal ? -1 : 1).epsilon(0.1));
    CHECK(variance == doctest::Approx(normal ? 9 : 16.0 / 12).epsilon(0.05));
    CHECK_FALSE(drawn(2, 1) == x);
    CHECK_FALSE(drawn(1, 2) == x);
    CHECK(drawn(1, 1) == x);
  }
}

}  // namespace value_test
