#include <doctest/doctest.h>

#include <map>
#include <set>

#include "run_case.h"
#include "src/ir/recorder.h"

namespace table_test {

using namespace alpa::testing::cases;
using namespace alpa;

namespace {

/// Operators without a vjp, and why.
const std::map<std::string_view, std::string_view> kNotDifferentiable{
    {"input", "has no operands"},
    {"constant", "has no operands"},
    {"iota", "has no operands"},
    {"random_normal", "has no operands"},
    {"random_uniform", "has no operands"},
    {"eq", "its result is u8"},
    {"ne", "its result is u8"},
    {"lt", "its result is u8"},
    {"le", "its result is u8"},
    {"gt", "its result is u8"},
    {"ge", "its result is u8"},
    {"stochastic_bf16", "updates of parameters end with it"},
    {"dynamic_code", "its result is u8"},
    {"signed_dynamic_code", "its result is u8"},
    {"dynamic_value", "its operand is u8"},
    {"signed_dynamic_value", "its operand is u8"},
    {"argmax", "its result is an index"},
    {"gelu_grad", "second derivatives of gelu are not offered"},
    {"layer_norm_grad", "second derivatives of layer_norm are not offered"},
    {"rms_norm_grad", "second derivatives of rms_norm are not offered"},
    {"attention_grad", "second derivatives of attention are not offered"},
    {"cached_attention", "text is generated after the training"},
    {"write_rows", "it fills a cache, which is no part of a loss"},
    {"max_pool_grad", "second derivatives of max_pool are not offered"},
    {"multi_tensor_adam", "the step ends with it"},
    {"multi_tensor_sgd", "the step ends with it"},
    {"multi_tensor_adam_copy", "the step ends with it"},
    {"multi_tensor_sgd_copy", "the step ends with it"},
    {"output", "no operator reads its result"},
};

}  // namespace

TEST_CASE("every operator has rows in the case table and a kernel, except graph inputs") {
  std::set<const OpDef*> seen;
  for (const Case& row : all()) seen.insert(row.op);
  for (const OpDef* op : all_ops()) {
    CAPTURE(op->name);
    CHECK((seen.count(op) == 1) == (op != &ops::input));
    CHECK((op->cpu != nullptr) == (op != &ops::input));
    if (op->cpu) CHECK(static_cast<bool>(*op->cpu));
  }
}

TEST_CASE("operator names are unique") {
  std::set<std::string_view> names;
  for (const OpDef* op : all_ops()) CHECK_MESSAGE(names.insert(op->name).second, op->name);
}

TEST_CASE("every operator has a gradient or a reason to have none") {
  for (const OpDef* op : all_ops()) {
    CAPTURE(op->name);
    CHECK((op->vjp != nullptr) == (kNotDifferentiable.count(op->name) == 0));
  }
}

TEST_CASE("every rule is well formed and counts the FLOPs of the table") {
  for (const Case& row : all()) {
    CAPTURE(row.label());
    const Rule rule = rule_of(row);
    CHECK_NOTHROW(verify(rule));
    REQUIRE(rule.operands.size() == row.operands.size());
    for (std::size_t i = 0; i < row.operands.size(); ++i)
      CHECK(shape_of(rule, rule.operands[i]) == row.operands[i].type.shape);
    CHECK(flops(rule) == row.flops);
  }
}

TEST_CASE("every row prints and parses back to an equal graph") {
  for (const Case& row : all()) {
    CAPTURE(row.label());
    Recorder b;
    Values operands;
    for (const Operand& operand : row.operands)
      operands.push_back(
          b.input(InputKind::state, "x" + std::to_string(operands.size()), operand.type));
    for (Value result : b.emit(*row.op, operands, row.attributes))
      b.update(b.input(InputKind::state, "y" + std::to_string(result.id), result.type()), result);
    const Graph graph = b.finish();
    CHECK(parse_graph(to_string(graph), all_ops()) == graph);
  }
}

}  // namespace table_test
