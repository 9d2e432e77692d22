// Every row of the case table as the one node of a step: what an executor makes of it, memory and
// scratch planned, with as many threads as a user may ask for.
#include <doctest/doctest.h>

#include "run_case.h"
#include "src/ir/recorder.h"
#include "src/runtime/executor.h"
#include "support/steps.h"

namespace executor_test {

using namespace alpa::testing::cases;
using namespace alpa;

namespace {

/// The row's operands as batch inputs "0", "1", …; its results become the states "r0", "r1", ….
Graph graph_of(const Case& row) {
  Recorder g;
  Values operands;
  for (const Operand& operand : row.operands)
    operands.push_back(g.input(InputKind::batch, std::to_string(operands.size()), operand.type));
  for (const Value& result : g.emit(*row.op, operands, row.attributes)) {
    const std::string name = "r" + std::to_string(result.id);
    g.update(g.input(InputKind::state, name, result.type(), Initializer::zeros()), result);
  }
  return g.finish();
}

Array array_of(const HostTensor& tensor) {
  Array array(tensor.type);
  std::copy_n(tensor.bytes.data(), tensor.type.bytes(), array.mutable_data());
  return array;
}

std::vector<Array> run(const Graph& graph, const std::vector<HostTensor>& operands, int threads) {
  runtime::Executor executor(
      testing::lowered(graph, testing::replicated_plan(graph, testing::mesh_of({1}))),
      {.threads_per_device = threads});
  std::map<std::string, Array> batch;
  for (std::size_t i = 0; i < operands.size(); ++i)
    batch[std::to_string(i)] = array_of(operands[i]);
  const auto state = executor.make_state(5);
  executor.run(*state, batch, {});
  std::vector<Array> results;
  for (const Update& update : graph.updates)
    results.push_back(executor.read(*state, find_input(graph, update.input)->name));
  return results;
}

/// Floating rows that depend on nothing but their operands.
bool is_step(const Case& row) {
  return is_computed(row) && row.reference != nullptr && row.op->name != "input";
}

}  // namespace

TEST_CASE(
    "every row gives the kernel's result in an executor, with 1, 2, 3, 5 and the default threads") {
  int rows = 0;
  for (const Case& row : all()) {
    if (!is_step(row)) continue;
    CAPTURE(row.label());
    const std::vector<HostTensor> operands = draw_operands(row),
                                  expected = run_unsplit(row, operands);
    const Graph graph = graph_of(row);
    for (int threads : {1, 2, 3, 5, 0}) {
      CAPTURE(threads);
      const std::vector<Array> results = run(graph, operands, threads);
      REQUIRE(results.size() == expected.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        std::vector<double> values = results[i].to_doubles();
        const double rounding = 8 * testing::epsilon(expected[i].type.dtype);
        CHECK(testing::difference(expected[i], values) <= rounding);
      }
    }
    ++rows;
  }
  CHECK(rows > 100);
}

}  // namespace executor_test
