// What inputs are: parameters, states of parameters, boundaries.
#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "sample_ops.h"
#include "src/ir/input.h"
#include "src/ir/recorder.h"

namespace input_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

template <class F>
std::string error_of(F&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

template <class F>
std::string bug_of(F&& body) {
  try {
    body();
  } catch (const Bug& bug) {
    return bug.what();
  }
  return "";
}

/// w and its state w.m, both updated by twice their sum, and the frozen parameter w.b.
Graph two_states() {
  Recorder b;
  const Value w = b.parameter("w", {f32, {4}}, {}), m = b.optimizer_state(w, "m");
  b.freeze(b.parameter("w.b", {f32, {4}}, {}));
  b.set_region(Region::apply);
  const Value sum = b.emit_one(sample::add, {w, m});
  b.update(w, sum);
  b.update(m, sum);
  return b.finish();
}

/// A part of a graph: hidden values come from another part, their sum goes into an accumulator;
/// `once` comes once per step.
Graph part(InputKind kind, Region region) {
  Recorder b(2);
  const Value before = b.input(InputKind::accumulator, "sum", {f32, {4}});
  const Value after = b.emit_one(sample::add, {before, b.input(kind, "hidden", {f32, {4}})});
  b.update(before, after);
  const Value w = b.parameter("w", {f32, {4}}, {});
  b.set_region(region);
  const Value once = b.input(kind, "once", {f32, {4}});
  b.set_region(Region::apply);
  b.update(w, b.emit_one(sample::add, {after, once}));
  return b.finish();
}

}  // namespace

TEST_CASE("a state says whose it is, in text too, whatever the names look like") {
  const Graph graph = two_states();
  CHECK(graph.inputs ==
        std::vector<Input>{{0, InputKind::state, "w"},
                           {.value = 1, .kind = InputKind::state, .name = "w.m", .of = "w"},
                           {.value = 2, .kind = InputKind::state, .name = "w.b", .frozen = true}});
  const std::string text = to_string(graph);
  CHECK(text.find("\nstate %1 of \"w\"\nfrozen %2\nupdate ") != std::string::npos);
  const OpDef* const operators[] = {&sample::add};
  CHECK(parse_graph(text, operators) == graph);
}

TEST_CASE("mistakes with states and parameters are told when the graph is built") {
  Recorder b;
  const Value w = b.parameter("w", {f32, {4}}, {}), m = b.optimizer_state(w, "m"),
              x = b.input(InputKind::batch, "x", {f32, {4}}),
              fixed = b.parameter("f", {f32, {4}}, {});
  b.freeze(fixed);
  CHECK(b.parameters().size() == 1);
  CHECK(error_of([&] { b.optimizer_state(x, "m"); }) ==
        "optimizer_state \"m\": f32[4] is not a parameter of this graph; "
        "give what `parameter` returned");
  CHECK(error_of([&] { b.optimizer_state(m, "m"); }) ==
        "optimizer_state \"m\": f32[4] is not a parameter of this graph; "
        "give what `parameter` returned");
  CHECK(error_of([&] { b.optimizer_state({}, "m"); }) ==
        "optimizer_state \"m\": the parameter is an empty Value");
  CHECK(error_of([&] {
          b.parameter("w.m", {f32, {4}}, {});
        }) == "parameter \"w.m\": an optimizer state of \"w\" has this name; choose another");
  CHECK(error_of([&] { b.update(fixed, x); }) ==
        "update of \"f\": it is frozen; leave it out of StepOptions::frozen to train it");
}

TEST_CASE("only parameters without an update can be frozen later") {
  Recorder b;
  const Value w = b.parameter("w", {f32, {4}}, {}), v = b.parameter("v", {f32, {4}}, {});
  const Value m = b.optimizer_state(w, "m");
  b.freeze(v);
  CHECK(b.parameters().size() == 1);
  CHECK(error_of([&] { b.update(v, w); }) ==
        "update of \"v\": it is frozen; leave it out of StepOptions::frozen to train it");
  CHECK(error_of([&] { b.freeze({}); }) == "freeze: the parameter is an empty Value");
  CHECK(error_of([&] { b.freeze(m); }) ==
        "freeze: f32[4] is not a parameter of this graph; give what `parameter` returned");
  b.update(w, m);
  CHECK(error_of([&] { b.freeze(w); }) == "freeze: \"w\" has an update already; freeze it before");
}

TEST_CASE("verify names states without a parameter and frozen parameters that change") {
  const auto complaint = [](auto&& change) {
    Graph graph = two_states();
    change(graph);
    return bug_of([&] { verify(graph); });
  };
  CHECK(complaint([](Graph&) {}) == "");
  CHECK(complaint([](Graph& g) { g.inputs[1].of = "v"; }) ==
        "graph: state \"w.m\" belongs to \"v\", which is not a parameter");
  CHECK(complaint([](Graph& g) { g.inputs[1].frozen = true; }) ==
        "graph: \"w.m\" is frozen but is not a parameter");
  CHECK(complaint([](Graph& g) { g.inputs[0].frozen = true; }) ==
        "graph: \"w\" is frozen but updated");
}

TEST_CASE("apply reads boundaries of its own region; those of a micro-batch come once for each") {
  verify(part(InputKind::boundary, Region::apply));
  CHECK(error_of([] { part(InputKind::boundary, Region::forward); }) ==
        "add \"add\" runs once per step but reads the result of input \"once\", "
        "of which there is one for each of 2 micro-batches; "
        "add it up in an accumulator and read that accumulator's update, "
        "as mean_over_micro_batches does");
  const Graph graph = part(InputKind::boundary, Region::apply);
  const OpDef* const operators[] = {&sample::add};
  CHECK(parse_graph(to_string(graph), operators) == graph);
}

TEST_CASE("what reads a boundary of region apply runs once per step, too") {
  Recorder b;
  b.set_region(Region::apply);
  const Value late = b.input(InputKind::boundary, "late", {f32, {4}});
  b.set_region(Region::forward);
  const Value w = b.parameter("w", {f32, {4}}, {});
  b.update(w, b.emit_one(sample::add, {w, late}));
  CHECK(b.finish().nodes.back().region == Region::apply);
}

}  // namespace input_test
