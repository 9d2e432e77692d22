#include "src/ir/recorder.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "sample_ops.h"
#include "support/error_text.h"

namespace builder_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("finish keeps inputs and what updates and metrics need, and drops the rest") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f32, {2, 2}});
  const Value unused = b.input(InputKind::batch, "unused", {f32, {2, 2}});
  b.emit_one(sample::scale, {unused});
  const Value kept = b.emit_one(sample::scale, {x});
  b.emit_one(sample::add, {kept, x});
  b.metric("m", b.emit_one(sample::total, {kept}));
  const Graph graph = b.finish();
  REQUIRE(graph.nodes.size() == 4);
  CHECK(graph.nodes[2].op == &sample::scale);
  CHECK(graph.nodes[3].operands == std::vector<int>{2});
  CHECK(graph.inputs.size() == 2);
  CHECK(consumers(graph) == std::vector<std::vector<int>>{{2}, {}, {3}, {}});
}

TEST_CASE("a parameter asked for twice is one input") {
  Recorder b;
  const Value w = b.parameter("w", {f32, {2}}, Initializer::ones());
  CHECK(b.parameter("w", {f32, {2}}, Initializer::zeros()).id == w.id);
  CHECK(b.parameters().size() == 1);
  CHECK(error_of([&] {
          b.parameter("w", {f32, {3}}, Initializer::ones());
        }) == "parameter \"w\" is f32[3] but was made as f32[2]; tied parameters need one type");
  b.input(InputKind::batch, "x", {f32, {2}});
  CHECK(error_of([&] {
          b.parameter("x", {f32, {2}}, Initializer::ones());
        }) == "parameter \"x\": a batch input has this name");
}

TEST_CASE("mistakes are found when the graph is built") {
  Recorder b, other;
  const Value x = b.input(InputKind::batch, "x", {f32, {2, 2}});
  const Value w = b.parameter("w", {f32, {2, 2}}, Initializer::ones());
  const Value foreign = other.input(InputKind::batch, "x", {f32, {2, 2}});
  CHECK(error_of([&] {
          b.input(InputKind::batch, "x", {f32, {1}});
        }) == "input \"x\" exists already; give inputs different names");
  CHECK(error_of([&] { b.input(InputKind::batch, "", {f32, {1}}); }) == "an input needs a name");
  CHECK(error_of([&] {
          b.input(InputKind::batch, "e", {f32, {0, 2}});
        }) == "input \"e\" has type f32[0, 2]; extents must be at least 1");
  CHECK(error_of([&] {
          b.emit(sample::add, {x, foreign});
        }) == "add: operand 1 belongs to another graph");
  CHECK(error_of([&] { b.emit(sample::add, {x, Value{}}); }) == "add: operand 1 is an empty Value");
  CHECK(error_of([&] { b.update(x, x); }) ==
        "update: input \"x\" is not a state; only state and accumulator inputs can be updated");
  CHECK(error_of([&] { b.update(w, b.emit_one(sample::total, {x})); }) ==
        "update of \"w\": it is f32[2, 2] but the new value is f32[]");
  b.update(w, x);
  CHECK(error_of([&] { b.update(w, x); }) == "update of \"w\": it has an update already");
  CHECK(error_of([&] { b.metric("m", x); }) ==
        "metric \"m\": f32[2, 2] is not a scalar; reduce it first, e.g. with mean");
  const Value loss = b.emit_one(sample::total, {x});
  b.metric("m", loss);
  CHECK(error_of([&] { b.metric("m", loss); }) == "metric \"m\" exists already");
  CHECK(error_of([&] { Recorder bad(0); }) == "num_micro_batches must be at least 1, not 0");
  CHECK_THROWS_AS(Value{}.type(), Bug);
}

TEST_CASE("what runs once per step may not read one of several micro-batches") {
  const auto build = [](int micro_batches, auto&& use) {
    return error_of([&] {
      Recorder b(micro_batches);
      const Value x = b.input(InputKind::batch, "x", {f32, {2, 2}});
      const Value w = b.parameter("w", {f32, {2, 2}}, Initializer::ones());
      use(b, w, b.emit_one(sample::scale, {x}));
      b.finish();
    });
  };
  const auto apply = [](Recorder& b, Value w, Value y) {
    b.set_region(Region::apply);
    b.update(w, b.emit_one(sample::add, {w, y}));
  };
  const auto update = [](Recorder& b, Value w, Value y) { b.update(w, y); };
  const auto metric = [](Recorder& b, Value, Value y) {
    b.metric("m", b.emit_one(sample::total, {y}));
  };
  CHECK(build(1, apply) == "no error");
  CHECK(build(1, update) == "no error");
  CHECK(build(1, metric) == "no error");
  const std::string scale =
      "scale \"scale\", of which there is one for each of 2 micro-batches; "
      "add it up in an accumulator and read that accumulator's update, "
      "as mean_over_micro_batches does";
  CHECK(build(2, apply) == "add \"add\" runs once per step but reads the result of " + scale);
  CHECK(build(2, update) ==
        "the update of state \"w\" runs once per step but reads the result of " + scale);
  CHECK(build(2, metric) ==
        "metric \"m\" runs once per step but reads the result of total \"total\", "
        "of which there is one for each of 2 micro-batches; "
        "add it up in an accumulator and read that accumulator's update, "
        "as mean_over_micro_batches does");
}

TEST_CASE("a node runs in the latest region of its operands, or later if that is set") {
  Recorder b;
  const auto region_of = [&](Value value) { return b.node(b.producer(value.id)).region; };
  const Value x = b.input(InputKind::batch, "x", {f32, {2, 2}});
  b.set_region(Region::backward);
  const Value late = b.emit_one(sample::scale, {x});
  b.set_region(Region::forward);
  CHECK(region_of(b.emit_one(sample::add, {x, x})) == Region::forward);
  const Value sum = b.emit_one(sample::add, {x, late});
  CHECK(region_of(sum) == Region::backward);
  b.set_region(Region::apply);
  CHECK(region_of(b.emit_one(sample::scale, {x})) == Region::apply);
  b.set_region(Region::forward);
  b.metric("m", b.emit_one(sample::total, {sum}));
  CHECK(b.finish().nodes.back().region == Region::backward);
}

TEST_CASE("names of nodes carry the path of the layer, and scopes for people") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f32, {2, 2}});
  b.push_scope("block0");
  b.push_scope("dense1");
  b.emit_one(sample::scale, {x});
  CHECK(b.node(b.num_nodes() - 1).name == "block0/dense1/scale");
  b.pop_scope();
  b.pop_scope();
  CHECK_THROWS_AS(b.pop_scope(), Bug);
  b.push_path("blocks.3");
  b.push_layer({.number = 1, .kind = "dense", .name = "query"});
  CHECK(b.scope_path() == "blocks.3.query");
  b.push_scope("einsum.grad");
  b.emit_one(sample::scale, {x});
  CHECK(b.node(b.num_nodes() - 1).name == "blocks.3.query/einsum.grad/scale");
  for (int i = 0; i < 3; ++i) b.pop_scope();
  CHECK(b.scope_path().empty());
}

TEST_CASE("nodes run as often as their region") {
  const Graph graph = sample::step(3);
  CHECK(runs_per_step(graph, graph.nodes[3]) == 3);
  CHECK(runs_per_step(graph, graph.nodes.back()) == 1);
  CHECK(find_input(graph, 1)->name == "w");
  CHECK(find_input(graph, 3) == nullptr);
}

TEST_CASE("a graph that grows beyond its most nodes is refused while it is built") {
  Recorder b;
  Value x = b.input(InputKind::batch, "x", {f32, {2}});
  CHECK(error_of([&] {
          for (std::int64_t i = 0; i < kMaxGraphNodes; ++i) x = b.emit_one(sample::scale, {x});
        }) ==
        "scale: with it the graph has more than 1048576 nodes, the most of one graph; give the "
        "model fewer layers");
  CHECK(b.num_nodes() == kMaxGraphNodes);
}

}  // namespace builder_test
