#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "sample_ops.h"

namespace verify_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// What `verify` says about sample::step(2) after `change`.
template <class F>
std::string complaint(F&& change) {
  Graph graph = sample::step(2);
  change(graph);
  try {
    verify(graph);
  } catch (const Bug& bug) {
    return bug.what();
  }
  return "";
}

/// The hash of sample::step(2) after `change`.
template <class F>
std::uint64_t hash(F&& change) {
  Graph graph = sample::step(2);
  change(graph);
  return structural_hash(graph);
}

}  // namespace

TEST_CASE("verify accepts a good graph and names what is wrong with each bad one") {
  CHECK(complaint([](Graph&) {}) == "");
  CHECK(complaint([](Graph& g) { g.nodes[3].operands[0] = 99; }) ==
        "graph: dot \"dense0/dot\" reads value 99 of 10");
  CHECK(complaint([](Graph& g) { std::swap(g.nodes[3], g.nodes[4]); }) ==
        "graph: total \"total\" reads value 3 before it is defined");
  CHECK(
      complaint([](Graph& g) { g.values[3].type.dtype = f64; }) ==
      "graph: result 0 of dot \"dense0/dot\" is recorded as f64[2, 4] of node 3, not f32[2, 4] of "
      "node 3");
  CHECK(complaint([](Graph& g) { g.nodes[6].results.pop_back(); }) ==
        "graph: split \"split\" has 1 results, not 2");
  CHECK(complaint([](Graph& g) { g.nodes[4].results[0] = 3; }) ==
        "graph: total \"total\" defines value 3, which is out of range or defined twice");
  CHECK(complaint([](Graph& g) { g.values.push_back({}); }) == "graph: no node defines value 10");
  CHECK(complaint([](Graph& g) { std::swap(g.inputs[0], g.inputs[1]); }) ==
        "graph: input \"x\" is not input 0 of the graph");
  CHECK(complaint([](Graph& g) { g.inputs.pop_back(); }) ==
        "graph: input \"loss_sum\" is not input 2 of the graph");
  CHECK(complaint([](Graph& g) {
          g.inputs.push_back({3, InputKind::batch, "y"});
        }) == "graph: 4 inputs but 3 input nodes");
  CHECK(complaint([](Graph& g) { g.inputs[0].kind = InputKind::state; }) ==
        "graph: input state \"x\" differs from its node input \"x\"");
  CHECK(complaint([](Graph& g) { g.inputs[1].name = g.nodes[1].name = "x"; }) ==
        "graph: two inputs are called \"x\"");
  CHECK(complaint([](Graph& g) { g.updates[0].input = 0; }) ==
        "graph: update of value 0, which is not a state");
  CHECK(complaint([](Graph& g) { g.updates[0].value = 3; }) ==
        "graph: update of \"loss_sum\" by a value of another type");
  CHECK(complaint([](Graph& g) { g.updates.push_back(g.updates[0]); }) ==
        "graph: \"loss_sum\" is updated twice");
  CHECK(complaint([](Graph& g) { g.metrics[0].value = 3; }) ==
        "graph: metric \"loss\" is not a scalar");
  CHECK(complaint([](Graph& g) { g.nodes[3].region = Region::backward; }) ==
        "graph: total \"total\" runs in region forward but reads the result of dot \"dense0/dot\", "
        "which runs later, in region backward");
  CHECK(complaint([](Graph& g) {
          g.nodes[5].region = Region::apply;
        }).rfind("graph: the update of accumulator", 0) == 0);
  CHECK(complaint([](Graph& g) {
          g.nodes[5].operands[0] = 4, g.updates.erase(g.updates.begin());
        }).rfind("graph: scale \"scale\" runs once per step but reads", 0) == 0);
}

TEST_CASE("the structural hash sees everything but names") {
  const std::uint64_t original = hash([](Graph&) {});
  CHECK(hash([](Graph& g) {
          g.nodes[3].name = "other", g.inputs[0].name = "y", g.metrics[0].name = "z";
        }) == original);
  CHECK(hash([](Graph& g) { g.nodes[3].op = &sample::add; }) != original);
  CHECK(hash([](Graph& g) { g.nodes[4].attributes.set("note", 1.0); }) != original);
  CHECK(hash([](Graph& g) { std::swap(g.nodes[5].operands[0], g.nodes[5].operands[1]); }) !=
        original);
  CHECK(hash([](Graph& g) { g.values[3].type.dtype = f64; }) != original);
  CHECK(hash([](Graph& g) { g.values[3].type.shape = {4, 2}; }) != original);
  CHECK(hash([](Graph& g) { g.nodes[4].region = Region::backward; }) != original);
  CHECK(hash([](Graph& g) { g.nodes[4].layer = 1; }) != original);
  CHECK(hash([](Graph& g) { g.updates.pop_back(); }) != original);
  CHECK(hash([](Graph& g) { g.metrics[0].value = 5; }) != original);
  CHECK(hash([](Graph& g) { g.num_micro_batches = 4; }) != original);
}

TEST_CASE("the structural hash does not depend on how values are numbered") {
  const std::uint64_t original = hash([](Graph&) {});
  CHECK(hash([](Graph& g) {
          const auto swapped = [](int v) { return v == 3 ? 4 : v == 4 ? 3 : v; };
          for (Node& node : g.nodes) {
            for (int& v : node.operands) v = swapped(v);
            for (int& v : node.results) v = swapped(v);
          }
          std::swap(g.values[3], g.values[4]);
          verify(g);
        }) == original);
}

}  // namespace verify_test
