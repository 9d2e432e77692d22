// What a kernel throws, whatever it is and on whichever thread, is the
// step's failure with its place.
#include <doctest/doctest.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "src/base/thread_team.h"
#include "src/ir/recorder.h"
#include "src/runtime/executor.h"
#include "src/tensor/kernel.h"
#include "support/copying_op.h"
#include "support/error_text.h"
#include "support/steps.h"

namespace thrown_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Called by every slice of the operator's work on every device.
std::function<void(std::int64_t row)> on_row;

void run_thrower(const KernelCall& call) {
  std::copy_n(call.inputs[0].data, call.inputs[0].type.bytes(), call.outputs[0].data);
  call.team->parallel_for(call.inputs[0].type.shape[0], 1,
                          [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t row = begin; row < end; ++row)
                              on_row(call.inputs[0].offset[0] + row);
                          });
}
const KernelDef kThrowerKernel{run_thrower, nullptr, nullptr};

const OpDef thrower = copying_op("thrower", kThrowerKernel);

Value model(Recorder& g, Value x, Value y) { return small_mlp(g, g.emit_one(thrower, {x}), y); }

struct Thrown {
  std::function<void()> act;
  std::string text;
};

const std::vector<Thrown>& all_thrown() {
  static const std::vector<Thrown> all{
      {[] { throw 42; }, "unknown exception"},
      {[] { throw std::bad_alloc(); }, "out of memory"},
      {[] { throw std::system_error(std::make_error_code(std::errc::too_many_files_open)); },
       "Too many open files"},
      {[] { throw Error("no ink"); }, "no ink"}};
  return all;
}

}  // namespace

TEST_CASE(
    "whatever a kernel throws becomes one Error with the place, and the executor stays usable") {
  const Graph graph = training_graph({f32, {12, 10}}, {f32, {12, 6}}, model, {});
  const spmd::SpmdProgram program =
      lowered(graph, following_plan(graph, mesh_of({2}), {{"x", "S0@0"}, {"y", "S0@0"}}));
  const auto batch = random_batch(graph, 1);
  const auto scalars = scalars_of(graph, 1);
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    for (int threads : {0, 1, 2, 3})
      for (const std::int64_t failing : {6, 11})  // first and last row of the second device
        for (const Thrown& thrown : all_thrown()) {
          runtime::Executor executor(program, {.threads_per_device = threads, .overlap = overlap});
          CAPTURE(threads);
          on_row = [&](std::int64_t row) {
            if (row == failing) thrown.act();
          };
          const auto state = executor.make_state(0);
          CHECK(error_of([&] { executor.run(*state, batch, scalars); }) ==
                "device 1: instruction 1 'thrower' (thrower, forward): " + thrown.text);
          on_row = [](std::int64_t) {};
          CHECK(executor.run(*executor.make_state(0), batch, scalars).at("loss") > 0);
        }
}

TEST_CASE("a Bug thrown by a kernel stays a Bug") {
  const Graph graph = training_graph({f32, {12, 10}}, {f32, {12, 6}}, model, {});
  runtime::Executor executor(lowered(graph, replicated_plan(graph, mesh_of({1}))));
  on_row = [](std::int64_t) { bug("two plus two"); };
  CHECK_THROWS_WITH_AS(
      executor.run(*executor.make_state(0), random_batch(graph, 1), scalars_of(graph, 1)),
      "device 0: instruction 1 'thrower' (thrower, forward): two plus two", Bug);
}

}  // namespace thrown_test
