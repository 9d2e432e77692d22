#include <doctest/doctest.h>

#include "alpa/ir/graph.h"
#include "alpa/ops/ops.h"
#include "src/ops/all_ops.h"
#include "support/rule_text.h"

namespace rule_test {

using namespace alpa;

namespace {

std::string rule(const OpDef& op, std::vector<TensorType> operands, Attributes attributes = {}) {
  return testing::text_of(rule_of(op, {operands, attributes}));
}

std::string reshape_rule(Shape from, Shape to) {
  return rule(ops::reshape, {{f32, from}}, {{"shape", to}});
}

}  // namespace

TEST_CASE(
    "reshape shares factors from the major end; only the major one of a dimension can be split, "
    "evenly") {
  CHECK(reshape_rule({2, 3, 4}, {6, 4}) == "2e 3! 4 | [0][1][2] -> [01][2]");
  CHECK(reshape_rule({6, 4}, {2, 3, 4}) == "2e 3! 4 | [01][2] -> [0][1][2]");
  CHECK(reshape_rule({12, 5}, {12, 5}) == "12 5 | [0][1] -> [0][1]");
  CHECK(reshape_rule({8, 3}, {2, 4, 3}) == "2e 4! 3 | [01][2] -> [0][1][2]");
  CHECK(reshape_rule({4, 6}, {8, 3}) == "4e 2! 3! | [0][12] -> [01][2]");
  CHECK(reshape_rule({5}, {5, 1}) == "5 | [0] -> [0][]");
  CHECK(reshape_rule({1, 5, 1}, {5}) == "5 | [][0][] -> [0]");
  CHECK(reshape_rule({1}, {}) == "| [] -> ");
}

TEST_CASE("reshape keeps dimensions whole where extents have no common factor") {
  CHECK(reshape_rule({2, 3}, {3, 2}) == "2! 3! 3! 2! | [0][2] -> [1][3]");
  CHECK(reshape_rule({2, 3, 5}, {3, 2, 5}) == "2! 3! 3! 2! 5 | [0][2][4] -> [1][3][4]");
  CHECK(reshape_rule({6, 4}, {4, 6}) == "2e 3! 2! 6! 4! | [01][4] -> [02][3]");
}

TEST_CASE("elementwise dimensions of extent 1 have no factor") {
  CHECK(rule(ops::add, {{f32, {5, 1}}, {f32, {6}}}) == "5 6 | [0][] [1] -> [0][1]");
  CHECK(rule(ops::add, {{f32, {}}, {f32, {}}}) == "|   -> ");
  CHECK(rule(ops::where, {{u8, {2, 1, 4}}, {f32, {3, 1}}, {f32, {}}}) ==
        "2 3 4 | [0][][2] [1][]  -> [0][1][2]");
}

TEST_CASE("einsum numbers the letters of the result first") {
  CHECK(rule(ops::einsum, {{f32, {5, 7}}, {f32, {7, 6}}},
             {{"equation", std::string("mk,kn->nm")}}) == "6 5 7+ | [1][2] [2][0] -> [0][1]");
}

TEST_CASE("reductions make partial sums and partial maxima") {
  const auto attributes = [](bool keep) {
    return Attributes{{"axes", std::vector<std::int64_t>{0}}, {"keep_dims", std::int64_t{keep}}};
  };
  CHECK(rule(ops::reduce_sum, {{f32, {5, 6}}}, attributes(false)) == "5+ 6 | [0][1] -> [1]");
  CHECK(rule(ops::reduce_max, {{f32, {5, 6}}}, attributes(true)) == "5^ 6 | [0][1] -> [][1]");
}

TEST_CASE("partial sums pass through what is linear and stop at what is not") {
  const auto linear = [](const OpDef& op, std::vector<TensorType> operands,
                         Attributes attributes = {}) {
    return rule_of(op, {operands, attributes}).linear;
  };
  using Sets = std::vector<std::uint32_t>;
  const TensorType x{f32, {4}};
  CHECK(linear(ops::add, {x, x}) == Sets{0b11});
  CHECK(linear(ops::mul, {x, x}) == Sets{0b01, 0b10});
  CHECK(linear(ops::div, {x, x}) == Sets{0b01});
  CHECK(linear(ops::where, {{u8, {4}}, x, x}) == Sets{0b110});
  CHECK(linear(ops::relu, {x}) == Sets{});
  CHECK(linear(ops::maximum, {x, x}) == Sets{});
  CHECK(linear(ops::cast, {x}, {{"to", f64}}) == Sets{0b1});
  CHECK(linear(ops::cast, {x}, {{"to", bf16}}) == Sets{});
  CHECK(linear(ops::cast, {{bf16, {4}}}, {{"to", f16}}) == Sets{});
  CHECK(linear(ops::cast, {{i32, {4}}}, {{"to", f64}}) == Sets{});
  const auto filled = [](double value) {
    return Attributes{{"value", value}, {"dtype", f32}, {"shape", Shape{4}}};
  };
  CHECK(linear(ops::constant, {}, filled(0)) == Sets{0});
  CHECK(linear(ops::constant, {}, filled(1)) == Sets{});
}

TEST_CASE("conditions are never partial sums: they would overflow") {
  const Attributes shape{{"shape", Shape{4, 1}}},
      permutation{{"permutation", std::vector<std::int64_t>{1, 0}}};
  const Attributes stretched{{"dims", std::vector<std::int64_t>{0}}, {"shape", Shape{4, 2}}};
  const std::vector<TensorType> row{{u8, {4}}}, matrix{{u8, {4, 2}}};
  CHECK(rule_of(ops::reshape, {row, shape}).linear.empty());
  CHECK(rule_of(ops::transpose, {matrix, permutation}).linear.empty());
  CHECK(rule_of(ops::broadcast, {row, stretched}).linear.empty());
  CHECK(rule_of(ops::stop_gradient, {row, {}}).linear.empty());
  CHECK(rule_of(ops::constant, {{}, {{"value", 0.0}, {"dtype", u8}, {"shape", Shape{4}}}})
            .linear.empty());
}

}  // namespace rule_test
