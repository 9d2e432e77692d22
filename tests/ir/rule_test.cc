#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "src/ir/op_def.h"
#include "support/rule_text.h"

namespace rule_test {

using namespace alpa;

namespace {

Rule rule(std::string_view dims, std::vector<TensorType> operands, Attributes attributes = {}) {
  OpDef op{.name = "test", .dims = dims, .flops_per_point = 2};
  return rule_of(op, {operands, attributes});
}

std::string message(std::string_view dims, std::vector<TensorType> operands,
                    Attributes attributes = {}) {
  try {
    rule(dims, std::move(operands), std::move(attributes));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// As rule_text.h has it, and a space.
std::string text(const Rule& rule) { return testing::text_of(rule) + ' '; }

}  // namespace

TEST_CASE(
    "letters of a notation become factors, those of the result first, and missing ones are "
    "summed") {
  CHECK(text(rule("ik, kj -> ij", {{f32, {2, 3}}, {f32, {3, 4}}})) ==
        "2 4 3+ | [0][2] [2][1] -> [0][1] ");
  CHECK(text(rule("ij -> ji", {{f32, {2, 5}}})) == "5 2 | [1][0] -> [0][1] ");
  CHECK(text(rule("ij -> ", {{f32, {2, 5}}})) == "2+ 5+ | [0][1] ->  ");
}

TEST_CASE("an ellipsis stands for the same dimensions in every tensor, wherever it stands") {
  CHECK(text(rule("...c!, c -> ...c", {{f32, {2, 3, 4}}, {f32, {4}}})) ==
        "2 3 4! | [0][1][2] [2] -> [0][1][2] ");
  CHECK(text(rule("a...b -> b...a", {{f32, {2, 3, 4}}})) == "4 3 2 | [2][1][0] -> [0][1][2] ");
  CHECK(text(rule("..., -> ...", {{f32, {7}}, {f32, {}}})) == "7 | [0]  -> [0] ");
}

TEST_CASE("only the major letter of a compound dimension can be split, into equal parts") {
  CHECK(text(rule("bhd -> b(hd)", {{f32, {2, 3, 4}}})) == "2 3e 4! | [0][1][2] -> [0][12] ");
  CHECK(text(rule("b(hd) -> bhd", {{f32, {2, 12}}}, {{"h", std::int64_t{3}}})) ==
        "2 3e 4! | [0][12] -> [0][1][2] ");
}

TEST_CASE("a letter's extent may come from an attribute alone") {
  CHECK(text(rule("i -> ij", {{f32, {2}}}, {{"j", std::int64_t{5}}})) == "2 5 | [0] -> [0][1] ");
}

TEST_CASE("a letter is summed into each result that lacks it, unless it is whole") {
  const Rule r = rule("rc!, c! -> rc!, c!, r", {{f32, {2, 3}}, {f32, {3}}});
  CHECK(text(r) == "2 3! | [0][1] [1] -> [0][1] [1] [0] ");
  CHECK(r.reduced == std::vector<std::vector<Reduced>>{{}, {{0, Combiner::sum}}, {}});
  verify(r);
  const Rule grown = rule("i -> ij, i", {{f32, {2}}}, {{"j", std::int64_t{5}}});
  CHECK(grown.reduced == std::vector<std::vector<Reduced>>{{}, {}});
}

TEST_CASE("shape and FLOPs follow from the factors") {
  const Rule r = rule("bhd -> b(hd)", {{f32, {2, 3, 4}}});
  CHECK(shape_of(r, r.results[0]) == Shape{2, 12});
  CHECK(shape_of(r, {{}, {1}}) == Shape{1, 3});
  CHECK(flops(r) == 2 * 24);
}

TEST_CASE("operands that do not fit the notation are the user's mistake") {
  CHECK(message("ik, kj -> ij", {{f32, {2, 3}}, {f32, {4, 5}}}) ==
        "test: dimension 0 of operand 1 has extent 4 but k=3 (f32[2, 3], f32[4, 5])");
  CHECK(message("ik, kj -> ij", {{f32, {2, 3}}}) == "test: takes 2 operands but got 1 (f32[2, 3])");
  CHECK(message("ij -> ij", {{f32, {2}}}) == "test: operand 0 must have 2 dimensions (f32[2])");
  CHECK(message("...c -> ...", {{f32, {}}}) ==
        "test: operand 0 must have at least 1 dimensions (f32[])");
  CHECK(message("..., ... -> ...", {{f32, {2}}, {f32, {3}}}) ==
        "test: operand 1 has [3] where [2] is needed (f32[2], f32[3])");
  CHECK(message("(hd) -> hd", {{f32, {7}}}, {{"h", std::int64_t{2}}}) ==
        "test: dimension 0 of operand 0 has extent 7 but hd=2 (f32[7])");
}

TEST_CASE("a malformed notation is our mistake") {
  CHECK_THROWS_AS(rule("ij", {{f32, {2, 2}}}), Bug);
  CHECK_THROWS_AS(rule("i(j -> ij", {{f32, {2, 2}}}), Bug);
  CHECK_THROWS_AS(rule("ij -> ij?", {{f32, {2, 2}}}), Bug);
  CHECK_THROWS_AS(rule("i -> ij", {{f32, {2}}}), Bug);
}

TEST_CASE("verify finds every kind of broken rule") {
  const Rule good = rule("ik, kj -> ij", {{f32, {2, 3}}, {f32, {3, 4}}});
  CHECK_NOTHROW(verify(good));
  const auto broken = [&](auto&& change) {
    Rule r = good;
    change(r);
    return r;
  };
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.operands[0][0] = {3}; })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.operands[0] = {{0}, {0}}; })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.reduced.clear(); })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.reduced[0].push_back({0}); })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.reduced[0].push_back({2}); })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.reduced[0][0].factor = 3; })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.reduced.emplace_back(); })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.factors[2].whole = true; })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.reads = {std::vector{0}}; })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.reads = {std::vector{3}, std::nullopt}; })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.work = {{0, 0}}; })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.factors[0].size = 0; })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.linear = {0b100}; })), Bug);
  CHECK_THROWS_AS(verify(broken([](Rule& r) { r.linear = {0}; })), Bug);
}

}  // namespace rule_test
