#include "src/plan/facts/strategy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "alpa/base/error.h"
#include "search/plans.h"
#include "src/ops/all_ops.h"

namespace strategy_test {

using namespace alpa;
using testing::priced_mesh;

namespace {

Rule rule_for(const OpDef& op, const std::vector<TensorType>& operands,
              const Attributes& attributes = {}) {
  return rule_of(op, {operands, attributes, &op});
}

Rule einsum_rule(const std::string& equation, const Shape& x, const Shape& y) {
  return rule_for(ops::einsum, {{f32, x}, {f32, y}}, {{"equation", equation}});
}

std::size_t count_without_partial_operands(const std::vector<Strategy>& strategies) {
  return std::count_if(strategies.begin(), strategies.end(), [](const Strategy& s) {
    return std::none_of(s.axes.begin(), s.axes.end(),
                        [](const AxisRole& r) { return r.kind == AxisRole::Kind::linear; });
  });
}

std::vector<std::string> texts(const std::vector<Strategy>& strategies) {
  std::vector<std::string> result;
  for (const Strategy& s : strategies) result.push_back(to_string(s));
  return result;
}

/// Result spec of an einsum when one mesh axis of 2 splits the factor of `letter`.
std::string result_with_axis_on(const std::string& equation, char letter, const Shape& x,
                                const Shape& y) {
  const Rule rule = einsum_rule(equation, x, y);
  const std::size_t comma = equation.find(',');
  const std::string left = equation.substr(0, comma),
                    right = equation.substr(comma + 1, equation.find('-') - comma - 1);
  const bool in_left = left.find(letter) != std::string::npos;
  const DimFactors& dims = rule.operands[in_left ? 0 : 1];
  Strategy strategy;
  strategy.axes[0] = {AxisRole::Kind::factor,
                      static_cast<std::uint8_t>(dims[(in_left ? left : right).find(letter)][0])};
  return to_string(intra_op::result_spec(rule, strategy, priced_mesh({2})));
}

std::string specs_text(const Rule& rule, const std::string& strategy, const DeviceMesh& mesh) {
  const Strategy s = parse_strategy(strategy);
  std::string text;
  for (int j = 0; j < static_cast<int>(rule.operands.size()); ++j)
    text += to_string(intra_op::operand_spec(rule, s, mesh, j)) + ", ";
  text += "-> ";
  for (int i = 0; i < static_cast<int>(rule.results.size()); ++i)
    text += (i > 0 ? ", " : "") + to_string(intra_op::result_spec(rule, s, mesh, i));
  return text;
}

}  // namespace

TEST_CASE(
    "a batched matmul has (factors + 1)^axes strategies, "
    "and two more roles per axis with one operand partial") {
  const Rule rule = einsum_rule("bik,bkj->bij", {8, 8, 8}, {8, 8, 8});
  for (const std::vector<int>& shape : {std::vector<int>{2}, {2, 2}, {2, 2, 2}}) {
    const std::vector<Strategy> strategies = intra_op::all_strategies(rule, priced_mesh(shape));
    const double axes = static_cast<double>(shape.size());
    CHECK(count_without_partial_operands(strategies) ==
          static_cast<std::size_t>(std::pow(4 + 1, axes)));
    CHECK(strategies.size() == static_cast<std::size_t>(std::pow(4 + 2 + 1, axes)));
    CHECK(strategies.front() == Strategy{});
  }
}

TEST_CASE(
    "of a matmul and its two gradients, exactly one leaves partial sums for each factor but the "
    "batch") {
  // The check table of sharding.md 7.1: C = AB, dA = dC Bᵀ, dB = Aᵀ dC, letters of
  // C[b,i,j] = A[b,i,k] B[b,k,j].
  const Shape a = {8, 8, 8};
  const auto row = [&](char letter) {
    return result_with_axis_on("bik,bkj->bij", letter, a, a) + " | " +
           result_with_axis_on("bij,bkj->bik", letter, a, a) + " | " +
           result_with_axis_on("bik,bij->bkj", letter, a, a);
  };
  CHECK(row('b') == "S0@0 | S0@0 | S0@0");
  CHECK(row('i') == "S1@0 | S1@0 | P+@0");
  CHECK(row('j') == "S2@0 | P+@0 | S2@0");
  CHECK(row('k') == "P+@0 | S2@0 | S1@0");
}

TEST_CASE("operands and results of a matmul follow from the roles of the axes") {
  const Rule rule = einsum_rule("ik,kj->ij", {8, 8}, {8, 8});  // factors i, j, k
  const DeviceMesh mesh = priced_mesh({2, 4});
  CHECK(specs_text(rule, "f0@0 f1@1", mesh) == "S0@0, S1@1, -> S0@0 S1@1");
  CHECK(specs_text(rule, "f0@0 f2@1", mesh) == "S0@0 S1@1, S0@1, -> S0@0 P+@1");
  CHECK(specs_text(rule, "f0@0 f0@1", mesh) == "S0@0 S0@1, R, -> S0@0 S0@1");
  CHECK(specs_text(rule, "f2@0 f2@1", mesh) == "S1@0 S1@1, S0@0 S0@1, -> P+@0 P+@1");
  CHECK(specs_text(rule, "l0@0 f1@1", mesh) == "P+@0, S1@1, -> S1@1 P+@0");
  CHECK(specs_text(rule, "l0@0 l1@1", mesh) == "P+@0, P+@1, -> P+@0 P+@1");
  CHECK(specs_text(rule, "-", mesh) == "R, R, -> R");
}

TEST_CASE("a factor is split into no more parts than it has elements, unevenly if need be") {
  const Rule rule = einsum_rule("ik,kj->ij", {7, 3}, {3, 5});
  const std::vector<std::string> strategies =
      texts(intra_op::all_strategies(rule, priced_mesh({4})));
  CHECK(strategies == std::vector<std::string>{"-", "f0@0", "f1@0", "l0@0", "l1@0"});
  const std::vector<std::string> both = texts(intra_op::all_strategies(rule, priced_mesh({2, 3})));
  CHECK(std::count(both.begin(), both.end(), "f0@0 f0@1") == 1);  // 6 parts of 7
  CHECK(std::count(both.begin(), both.end(), "f1@0 f1@1") == 0);  // 6 parts of 5
}

TEST_CASE("the major part of a compound dimension is split evenly or not at all") {
  const TensorType x = {f32, {6, 5, 4}};
  const Rule rule = rule_for(ops::reshape, {x}, {{"shape", Shape{30, 4}}});
  CHECK(specs_text(rule, "f0@0", priced_mesh({3})) == "S0@0, -> S0@0");
  const std::vector<std::string> on_3 = texts(intra_op::all_strategies(rule, priced_mesh({3}))),
                                 on_4 = texts(intra_op::all_strategies(rule, priced_mesh({4})));
  CHECK(on_3.size() == 4);  // whole, the 6, the 4 (into 2, 2, 0), partial
  CHECK(on_4.size() == 3);  // 6 does not go into 4 equal parts
  CHECK(std::count(on_4.begin(), on_4.end(), "f0@0") == 0);
}

TEST_CASE("a reduction leaves partial sums or maxima, never both") {
  const TensorType x = {f32, {4, 4}};
  const Attributes rows = {{"axes", Shape{0}}, {"keep_dims", std::int64_t{0}}};
  const Rule sum = rule_for(ops::reduce_sum, {x}, rows), max = rule_for(ops::reduce_max, {x}, rows);
  CHECK(specs_text(sum, "f0@0 f1@1", priced_mesh({2, 2})) == "S0@0 S1@1, -> S0@1 P+@0");
  CHECK(specs_text(max, "f0@0 f1@1", priced_mesh({2, 2})) == "S0@0 S1@1, -> S0@1 Pmax@0");
  CHECK(specs_text(sum, "l0@0", priced_mesh({2})) == "P+@0, -> P+@0");
  CHECK(intra_op::all_strategies(max, priced_mesh({2})).size() ==
        3);  // no partial operand: a maximum of sums is not a sum of maxima
  Rule mixed = max;
  mixed.linear = {0b1};
  for (const Strategy& s : intra_op::all_strategies(mixed, priced_mesh({2, 2})))
    CHECK_FALSE((to_string(s).find("f0") != std::string::npos &&
                 to_string(s).find('l') != std::string::npos));
}

TEST_CASE("a factor may pass into one result and be reduced into others, each in its own way") {
  // (x[i, j]) -> (y[i, j], sum over i [j], maximum over i [j], sum over j [i])
  Rule rule{.factors = {{4}, {4}},
            .operands = {{{0}, {1}}},
            .results = {{{0}, {1}}, {{1}}, {{1}}, {{0}}},
            .reduced = {{}, {{0, Combiner::sum}}, {{0, Combiner::max}}, {{1, Combiner::sum}}}};
  verify(rule);
  const DeviceMesh mesh = priced_mesh({2, 2});
  CHECK(specs_text(rule, "f0@0", mesh) == "S0@0, -> S0@0, P+@0, Pmax@0, S0@0");
  CHECK(specs_text(rule, "f0@0 f1@1", mesh) ==
        "S0@0 S1@1, -> S0@0 S1@1, S0@1 P+@0, S0@1 Pmax@0, S0@0 P+@1");
  CHECK(intra_op::all_strategies(rule, mesh).size() == 9);
  rule.linear = {0b1};  // partial sums may not meet the maxima that a split f0 leaves
  CHECK(intra_op::all_strategies(rule, mesh).size() == 9 + 3 + 2);
}

TEST_CASE("rows of layer_norm's gradient pass into dx and are summed into dscale and dbias") {
  const TensorType x{f32, {8, 6}}, scale{f32, {6}}, statistics{f32, {8}};
  const Rule rule = rule_for(ops::layer_norm_grad, {x, x, scale, statistics, statistics});
  CHECK(specs_text(rule, "f0@0", priced_mesh({2})) ==
        "S0@0, S0@0, R, S0@0, S0@0, -> S0@0, P+@0, P+@0");
  CHECK(specs_text(rule, "l0@0", priced_mesh({2})) == "P+@0, R, R, R, R, -> P+@0, P+@0, P+@0");
  CHECK(intra_op::all_strategies(rule, priced_mesh({2})).size() == 3);  // columns stay whole
}

TEST_CASE(
    "a lookup's table is split by rows into partial sums, or by columns, or the ids are split") {
  // factors id, row, column
  const Rule rule = rule_for(ops::embedding, {{f32, {100, 8}}, {i32, {4}}});
  CHECK(specs_text(rule, "f1@0", priced_mesh({4})) == "S0@0, R, -> P+@0");
  CHECK(specs_text(rule, "f2@0", priced_mesh({4})) == "S1@0, R, -> S1@0");
  CHECK(specs_text(rule, "f0@0", priced_mesh({4})) == "R, S0@0, -> S0@0");
  CHECK(specs_text(rule, "f1@0 f2@1", priced_mesh({2, 2})) == "S0@0 S1@1, R, -> S1@1 P+@0");
  const Rule back =
      rule_for(ops::embedding_grad, {{f32, {4, 8}}, {i32, {4}}}, {{"rows", std::int64_t{100}}});
  CHECK(specs_text(back, "f1@0", priced_mesh({4})) == "R, R, -> S0@0");
  CHECK(specs_text(back, "f2@0", priced_mesh({4})) == "S1@0, R, -> S1@0");
  CHECK(specs_text(back, "f0@0", priced_mesh({4})) == "S0@0, S0@0, -> P+@0");
}

TEST_CASE("a result that neither has a factor nor reduces it is alike on all devices") {
  // (x[i], y[j]) -> (sum of x, y)
  const Rule rule{.factors = {{4}, {4}},
                  .operands = {{{0}}, {{1}}},
                  .results = {{}, {{1}}},
                  .reduced = {{{0}}, {}}};
  verify(rule);
  CHECK(specs_text(rule, "f0@0 f1@1", priced_mesh({2, 2})) == "S0@0, S0@1, -> P+@0, S0@1");
}

TEST_CASE(
    "a broadcast operand is whole where the result is split, "
    "and an addition takes partial sums on both sides") {
  const Rule rule = rule_for(ops::add, {{f32, {8, 4}}, {f32, {4}}});
  CHECK(specs_text(rule, "f0@0", priced_mesh({2})) == "S0@0, R, -> S0@0");
  CHECK(specs_text(rule, "f1@0", priced_mesh({2})) == "S1@0, S0@0, -> S1@0");
  CHECK(specs_text(rule, "l0@0", priced_mesh({2})) == "P+@0, P+@0, -> P+@0");
}

TEST_CASE("an axis of size 1 has no role") {
  const Rule rule = einsum_rule("ik,kj->ij", {8, 8}, {8, 8});
  CHECK(intra_op::all_strategies(rule, priced_mesh({1, 4})).size() == 6);
  CHECK(intra_op::all_strategies(rule, priced_mesh({1})).size() == 1);
  CHECK(intra_op::factor_of_axis(parse_strategy("f2@1"), priced_mesh({1, 4})) ==
        std::vector<int>{-1, 2});
}

TEST_CASE("strategies print and read back") {
  const Rule rule = einsum_rule("ik,kj->ij", {8, 8}, {8, 8});
  for (const Strategy& s : intra_op::all_strategies(rule, priced_mesh({2, 2, 2})))
    CHECK(parse_strategy(to_string(s)) == s);
}

TEST_CASE("malformed strategies are refused") {
  const auto error_of = [](const char* text) {
    try {
      parse_strategy(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string help =
      "; write \"-\", or words like \"f0@1\" (factor 0 split over mesh axis 1) and \"l0@0\" "
      "(linear set 0 partial over mesh axis 0)";
  CHECK(error_of("") == "strategy \"\": unknown word \"\"" + help);
  CHECK(error_of("f0@1 x") == "strategy \"f0@1 x\": unknown word \"x\"" + help);
  CHECK(error_of("f0@0 f1@0") == "strategy \"f0@0 f1@0\": mesh axis 0 is used twice" + help);
  CHECK(error_of("f0") == "strategy \"f0\": expected \"@\" and a mesh axis at \"\"" + help);
  CHECK(error_of("f@0") == "strategy \"f@0\": expected a factor below 256 at \"@0\"" + help);
  CHECK(error_of("l0@4") == "strategy \"l0@4\": expected a mesh axis below 4 at \"4\"" + help);
  CHECK(error_of("l0@0z") == "strategy \"l0@0z\": unexpected \"z\" after mesh axis 0" + help);
}

}  // namespace strategy_test
