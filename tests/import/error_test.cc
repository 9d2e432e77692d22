// Messages of the import, as whole texts.
#include <doctest/doctest.h>

#include <alpa/alpa.h>

#include "alpa/import/stablehlo.h"
#include "src/ir/recorder.h"
#include "support/error_text.h"

namespace import_error_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// A function of one argument `type` with these operations.
std::string function_of(const std::string& operations, const std::string& type = "tensor<4xf32>") {
  return "\"builtin.module\"() ({\n  \"func.func\"() <{sym_name = \"main\"}> ({\n  ^bb0(%x: " +
         type + "):\n" + operations + "\n  }) : () -> ()\n}) : () -> ()\n";
}

std::string import_error(const std::string& text) {
  return error_of([&] { import_stablehlo(text); });
}

/// Of recording a function as a graph.
std::string record_error(const std::string& operations) {
  const Imported function = import_stablehlo(function_of(operations));
  return error_of([&] {
    Recorder graph;
    function({graph.input(InputKind::shared, "x", function.arguments[0].type)});
  });
}

const char* const kSum =
    R"(    %0 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.reduce"(%x, %0) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%2) : (tensor<f32>) -> ()
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    "func.return"(%1) : (tensor<f32>) -> ())";

}  // namespace

TEST_CASE("bytecode is refused with the line that prints text") {
  CHECK(import_error("ML\xefR\x01") ==
        "StableHLO: this is MLIR bytecode, which jax.export writes; give text, as this prints it: "
        "jax.jit(f).lower(args).compiler_ir(\"stablehlo\").operation.get_asm("
        "print_generic_op_form=True)");
}

TEST_CASE("text that is not generic is refused where it begins") {
  CHECK(import_error("\n  module @jit_f {}") ==
        "StableHLO, line 2, column 3: found \"module @jit_f {}\", expected an operation such as "
        "\"stablehlo.add\"(%0, %1); print the text with get_asm(print_generic_op_form=True)");
}

TEST_CASE("mistakes in the text are named with line and column") {
  CHECK(import_error(function_of("    \"func.return\"(%y) : (tensor<4xf32>) -> ()")) ==
        "StableHLO, line 4, column 19: %y is not defined before it is read");
  CHECK(import_error(function_of("    \"func.return\"(%x) : (tensor<5xf32>) -> ()")) ==
        "StableHLO, line 4, column 25: operand 0 is 5xf32, but was defined as 4xf32");
  CHECK(
      import_error(function_of("    \"func.return\"(%x) : (tensor<?xf32>) -> ()")) ==
      "StableHLO, line 4, column 26: tensor<?xf32> has no fixed shape; lower the jax function for "
      "arrays, not for symbolic shapes");
  CHECK(import_error(function_of("    \"func.return\"(%x#1) : (tensor<4xf32>) -> ()")) ==
        "StableHLO, line 4, column 19: %x has 1 results, none of number 1");
  CHECK(import_error("") ==
        "StableHLO: the text has no function @main, which jax calls what it lowers");
}

TEST_CASE("types that alpa lacks are named") {
  CHECK(import_error(
            function_of("    \"func.return\"(%x) : (tensor<4xi64>) -> ()", "tensor<4xi64>")) ==
        "StableHLO, line 2, column 3: elements of type i64 (4xi64): alpa has f32, f64, bf16, f16, "
        "i32, ui32, ui8 and i1; convert to one of them in the jax function, and leave "
        "jax_enable_x64 off");
}

TEST_CASE("a kind that is not supported is named with its place and a way round") {
  CHECK(record_error("    %0 = \"stablehlo.sort\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
                     "    \"func.return\"(%0) : (tensor<4xf32>) -> ()") ==
        "StableHLO, line 4, column 5: \"stablehlo.sort\" is not supported; import a function "
        "without sorting");
}

TEST_CASE("pooling of another kind than alpa's is not taken for it") {
  CHECK(
      record_error(
          R"(    %0 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.reshape"(%x) : (tensor<4xf32>) -> tensor<1x2x2x1xf32>
    %2 = "stablehlo.reduce_window"(%1, %0) <{window_dimensions = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %3 = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%3) : (tensor<f32>) -> ()
    }) : (tensor<1x2x2x1xf32>, tensor<f32>) -> tensor<1x1x1x1xf32>
    "func.return"(%2) : (tensor<1x1x1x1xf32>) -> ())") ==
      "StableHLO, line 6, column 5: \"stablehlo.reduce_window\": by stablehlo.maximum is not "
      "supported, only by maximum from -inf, or add from 0");
}

TEST_CASE("functions that call each other ever more often end with an error") {
  std::string text;
  constexpr int kDepth = 40;
  for (int i = 0; i <= kDepth; ++i) {
    const std::string name = i == kDepth ? "main" : "f" + std::to_string(i);
    text += "\"func.func\"() <{sym_name = \"" + name + "\"}> ({\n^bb0(%x: tensor<f32>):\n";
    const std::string call = "\"func.call\"(%x) <{callee = @f" + std::to_string(i - 1) +
                             "}> : (tensor<f32>) -> tensor<f32>\n";
    if (i > 0) text += "%0 = " + call + "%1 = " + call;
    text += "\"func.return\"(%x) : (tensor<f32>) -> ()\n}) : () -> ()\n";
  }
  CHECK(import_error(text).ends_with("more than 65536 calls"));
}

TEST_CASE("a loop whose rounds depend on data is an error that says what to write") {
  CHECK(import_error(function_of(
            R"(    %0 = "stablehlo.while"(%x) ({
    ^bb0(%a: tensor<i1>):
      "stablehlo.return"(%a) : (tensor<i1>) -> ()
    }, {
    ^bb0(%b: tensor<i1>):
      "stablehlo.return"(%b) : (tensor<i1>) -> ()
    }) : (tensor<i1>) -> tensor<i1>
    "func.return"(%0) : (tensor<i1>) -> ())",
            "tensor<i1>")) ==
        "StableHLO, line 4, column 5: the number of rounds of this loop depends on data; use "
        "lax.scan or lax.fori_loop with fixed bounds");
}

TEST_CASE("steps say what is missing of a function") {
  const Imported loss = import_stablehlo(function_of(kSum));
  CHECK(error_of([&] { training_step(loss, optim::Sgd{}); }) ==
        "StableHLO: the text does not name its arguments, so nothing says which are parameters; "
        "give `parameters`, the number of the first ones, or print the text with "
        "enable_debug_info=True");
  CHECK(error_of([&] { training_step(loss, optim::Sgd{}, {.parameters = "w*"}); }) ==
        "StableHLO: parameters are \"w*\", but the arguments are \"arg0\"");
  CHECK(error_of([&] { whole_step(loss); }) ==
        "StableHLO: a whole step returns its first arguments anew, but result 0 is f32[] and "
        "argument 0 is f32[4]; let the function return the new state first");
}

}  // namespace import_error_test
