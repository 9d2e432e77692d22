// Tensors that nobody can have: every way to ask for one names it.
#include <doctest/doctest.h>

#include <memory>

#include "errors/small_model.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "support/error_text.h"

namespace shape_error_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 32;

const std::string kLimit = "; a tensor has at most 2^50 elements";

/// The error of tracing `build` with one batch input "x".
template <class Build>
std::string step_error(const TensorType& x, Build&& build) {
  return error_of([&] { custom_step({{"x", x}}, build).trace(1); });
}

}  // namespace

TEST_CASE("impossible inputs of a step are refused when it is made") {
  const auto nothing = [](Builder&, const Batch&) {};
  CHECK(step_error({f32, {kHuge, kHuge}}, nothing) ==
        "batch input \"x\" is f32[4294967296, 4294967296]" + kLimit);
  CHECK(step_error({f32, {4, -2}}, nothing) ==
        "batch input \"x\" is f32[4, -2]; extents can't be negative");
  CHECK(step_error({f32, Shape(17, 2)}, nothing).ends_with("; a tensor has at most 16 dimensions"));
  Recorder g;
  CHECK(error_of([&] {
          g.parameter("w", {f32, {kHuge, kHuge}}, {});
        }) == "input \"w\" is f32[4294967296, 4294967296]" + kLimit);
  CHECK(error_of([&] {
          g.input(InputKind::state, "m", {f32, {-1}});
        }) == "input \"m\" is f32[-1]; extents can't be negative");
}

TEST_CASE("impossible results of operators are refused when the call is made") {
  Recorder g;
  const Value x = g.input(InputKind::batch, "x", {f32, {kHuge}}),
              y = g.input(InputKind::batch, "y", {f32, {8, 6}});
  const std::string huge = " is f32[4294967296, 4294967296]" + kLimit;
  CHECK(error_of([&] { einsum("i,j->ij", x, x); }) == "einsum: the result" + huge);
  CHECK(error_of([&] { broadcast_to(x, {kHuge, kHuge}); }) == "broadcast: the result" + huge);
  CHECK(error_of([&] { reshape(x, {kHuge, 1}) * x; }) == "mul: the result" + huge);
  CHECK(error_of([&] { constant(g, 1, f32, {kHuge, kHuge}); }) == "constant: the result" + huge);
  CHECK(error_of([&] { iota(g, {f32, {kHuge, kHuge}}); }) == "iota: the result" + huge);
  CHECK(error_of([&] {
          random_uniform(g, {f32, {kHuge, kHuge}});
        }) == "random_uniform: the result" + huge);
  // Extents whose product wraps around to what there is.
  CHECK(error_of([&] {
          reshape(y, {std::int64_t{1} << 62, 4, 48});
        }) == "reshape: the result is f32[4611686018427387904, 4, 48]" + kLimit);
  CHECK(error_of([&] {
          reshape(y, {kHuge, kHuge, -1});
        }) == "shape [4294967296, 4294967296]: a tensor has at most 2^50 elements");
  CHECK(error_of([&] {
          reshape(y, {-2, -24});
        }) == "reshape: extents must be at least 1 (shape [-2, -24])");
  CHECK(error_of([&] {
          reshape(y, {-1, -2, -24});
        }) == "reshape: extents must be at least 1, but one may be -1 (shape [-1, -2, -24])");
}

TEST_CASE("a graph whose values together can't be counted in bytes is refused") {
  Recorder g;
  const Value x = g.input(InputKind::batch, "x", {f64, {kMaxElements}});
  CHECK(error_of([&] {
          for (Value y = x;;) y = exp(y);
        }) ==
        "exp: with its result f64[1125899906842624] the values of the graph take more than 2^60 "
        "bytes");
}

TEST_CASE("impossible graph text is refused with its line") {
  const auto parse_error = [](const std::string& line) {
    return error_of([&] { parse_graph("graph micro_batches=1\n" + line + "\n", all_ops()); });
  };
  CHECK(
      parse_error("%0: f32[4294967296, 4294967296] = iota() {axis=0, dtype=f32, shape=[1]} forward "
                  "\"x\"") ==
      "graph text, line 2: the tensor type is f32[4294967296, 4294967296]" + kLimit);
  CHECK(
      parse_error(
          "%0: f32[1] = constant() {value=1.0, dtype=f32, shape=[4294967296, 4294967296]} forward "
          "\"x\"") ==
      "graph text, line 2: constant: the result is f32[4294967296, 4294967296]" + kLimit);
  CHECK(parse_error("%9999999: f32[] = exp(%1) forward \"x\"") ==
        "graph text, line 2: value number 9999999 is out of range; values are numbered from 0");
}

TEST_CASE("impossible arrays are refused, and those too large for this machine") {
  CHECK(error_of([] {
          Array(TensorType{f32, {kHuge, kHuge}});
        }) == "the array is f32[4294967296, 4294967296]" + kLimit);
  CHECK(error_of([] {
          Array(std::vector<float>(6), {-2, -3});
        }) == "the array is f32[-2, -3]; extents can't be negative");
  CHECK(error_of([] {
          Array::view(nullptr, {f32, {-1}});
        }) == "the array is f32[-1]; extents can't be negative");
  CHECK(error_of([] {
          Array(TensorType{f64, {kMaxElements}});
        }) == "the array is f64[1125899906842624]; its 9007199254740992 bytes can't be allocated");
}

TEST_CASE("a Value kept from an earlier trace is refused, wherever the new graph is in memory") {
  const std::string gone =
      "a Value of an earlier trace is used, but its graph no longer exists; "
      "create Values each time the model is traced";
  Value kept;
  const auto build = [&](Builder& g, const Batch& b) {
    const Value w = kept ? kept : g.parameter("w", {f32, {4}}, {});
    kept = w;
    g.update(w, w + sum(b["x"], {0}));
  };
  const TrainingStep step = custom_step({{"x", {f32, {2, 4}}}}, build);
  step.trace(1);
  CHECK(error_of([&] { step.trace(1); }) == gone);
  CHECK(error_of([&] { kept.type(); }) == gone);

  // The same address twice, both alive in turn: one handle does not equal the other.
  alignas(Recorder) std::byte place[sizeof(Recorder)];
  const auto made_at = [&] { return std::construct_at(reinterpret_cast<Recorder*>(place)); };
  Recorder* g = made_at();
  const Value old = g->input(InputKind::batch, "x", {f32, {4}});
  std::destroy_at(g);
  g = made_at();
  const Value fresh = g->input(InputKind::batch, "x", {f32, {4}});
  CHECK(error_of([&] {
          g->emit(ops::add, {fresh, old});
        }) == "add: operand 1 belongs to another graph");
  CHECK(error_of([&] { g->update(fresh, old); }) ==
        "update: both values must belong to this graph");
  CHECK(error_of([&] { g->metric("m", old); }) ==
        "metric \"m\": the value must belong to this graph");
  std::destroy_at(g);
}

}  // namespace shape_error_test
