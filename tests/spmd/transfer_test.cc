// Programs over several meshes: what verify refuses, what passes keep apart, and their text.
#include <doctest/doctest.h>

#include "support/two_meshes.h"

namespace transfer_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// The part of two stages that ends with the loss is on devices 2 and 3.
spmd::SpmdProgram two_stages() {
  const Graph graph = training_graph({f32, {8, 4}}, {f32, {8, 2}}, one_layer_per_stage(2, 4),
                                     {.num_micro_batches = 2});
  return on_meshes(graph, {{mesh_from(0, {2}), {{"x", "S0@0"}, {"cut0", "S0@0"}}},
                           {mesh_from(2, {2}), {{"y", "S0@0"}, {"cut0", "S0@0"}}}});
}

std::string mistake_of(const spmd::SpmdProgram& program) {
  try {
    verify(program);
  } catch (const Bug& bug) {
    return bug.what();
  }
  return "";
}

int transfer_in(const spmd::SpmdProgram& program) {
  int n = 0;
  while (!spmd::is_transfer(program.graph.nodes[n])) ++n;
  return n;
}

}  // namespace

TEST_CASE("a transfer leads from one mesh to another, in specs that are not partial") {
  const spmd::SpmdProgram program = two_stages();
  CHECK(mistake_of(program) == "");
  const Node transfer = program.graph.nodes[transfer_in(program)];

  spmd::SpmdProgram wrong = program;
  wrong.specs[transfer.operands[0]] = parse_spec("P+@0");
  CHECK(mistake_of(wrong) != "");
  wrong = program;
  wrong.specs[transfer.results[0]] = parse_spec("P+@0");
  CHECK(mistake_of(wrong) ==
        "partitioned program: \"tanh.transfer\" (transfer) cannot take S0@0 to P+@0");
  wrong = program;
  wrong.mesh_of_value[transfer.results[0]] = 0;
  CHECK(mistake_of(wrong) ==
        "partitioned program: \"tanh.transfer\" (transfer) on mesh 0 reads a value on mesh 0");
}

TEST_CASE("values, updates and devices on the wrong mesh are found out") {
  const spmd::SpmdProgram program = two_stages();
  spmd::SpmdProgram wrong = program;
  wrong.mesh_of_value[program.graph.inputs[0].value] = 1;
  CHECK(mistake_of(wrong).find("reads a value on mesh 1") != std::string::npos);
  wrong = program;
  wrong.meshes[1] = mesh_from(1, {2});
  CHECK(mistake_of(wrong) == "partitioned program: device 1 is in two meshes");
  wrong = program;
  wrong.mesh_of_value.clear();
  CHECK(mistake_of(wrong) == "partitioned program: 2 meshes, and no value says on which it is");
  wrong = program;
  std::swap(wrong.graph.updates[0].value, wrong.graph.updates[1].value);
  CHECK(mistake_of(wrong) != "");
}

TEST_CASE("passes keep the nodes of different meshes apart") {
  const spmd::SpmdProgram program = two_stages();
  for (const Node& node : program.graph.nodes)
    for (int value : node.results)
      CHECK(program.mesh_index(value) == program.mesh_index(node.results[0]));
  const auto sent = spmd::traffic(program);
  // Half of the activations (2 x 4 floats) of two micro-batches, and the
  // learning rate to one device.
  CHECK(sent.at("transfer") == Traffic{3, 2 * (2 * 4 * 4) + 4});
}

TEST_CASE("the text of a program of several meshes says on which each node is") {
  const std::string text = to_string(two_stages());
  CHECK(text.starts_with("mesh 2 of devices 0 1\nmesh 2 of devices 2 3\ngraph micro_batches=2\n"));
  CHECK(text.find("= transfer(") != std::string::npos);
  CHECK(text.find("\"tanh.transfer\" -> S0@0 on mesh 1\n") != std::string::npos);
}

}  // namespace transfer_test
