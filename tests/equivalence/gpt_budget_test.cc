// A GPT-like step under memory budgets, as a user asks for them: planned within 1 % of the proven
// bound, within the budget to the byte, measured as planned, and trained as without a budget.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "support/gpt_stack.h"

namespace gpt_budget_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr GptStack kStack{.layers = 1, .batch = 16, .sequence = 16, .hidden = 32, .heads = 4};

Array wave(double frequency) {
  std::vector<float> values;
  for (int i = 0; i < kStack.batch * kStack.sequence * kStack.hidden; ++i)
    values.push_back(static_cast<float>(std::sin(frequency * i)));
  return Array(std::move(values), {kStack.batch, kStack.sequence, kStack.hidden});
}

/// Two steps.
std::vector<double> losses_of(const Executable& executable) {
  TrainState state = executable.init(3);
  std::vector<double> losses;
  for (int step = 1; step <= 2; ++step)
    losses.push_back(
        executable.run(state, {{"x", wave(0.7 * step)}, {"y", wave(1.3 * step)}}).loss());
  CHECK(executable.measured_bytes(state) == executable.memory_bytes());
  return losses;
}

struct Case {
  std::vector<int> mesh;
  int micro_batches;
  double share;  ///< of the bytes of the best plan
};

void check(const Case& c) {
  const Cluster cluster = Cluster::local(4);
  ShardParallel method{.num_micro_batches = c.micro_batches, .mesh_shape = c.mesh};
  const TrainingStep step = gpt_step(kStack);
  const Executable free = parallelize(step, method, cluster);
  method.memory_budget_bytes =
      static_cast<std::int64_t>(c.share * static_cast<double>(free.memory_bytes()));
  const Executable tight = parallelize(step, method, cluster);
  CHECK(tight.memory_bytes() <= *method.memory_budget_bytes);
  CHECK(tight.plan().cost.objective_seconds > free.plan().cost.objective_seconds);
  CHECK(tight.plan().cost.gap() <= 0.01);
  const std::vector<double> expected = losses_of(free), losses = losses_of(tight);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-5));
}

}  // namespace

TEST_CASE(
    "a GPT-like step under a budget keeps it to the byte, is near the bound, and trains the same") {
  for (const Case& c :
       {Case{{4}, 1, 0.9}, Case{{4}, 4, 0.9}, Case{{2, 2}, 1, 0.85}, Case{{2, 2}, 4, 0.9}}) {
    CAPTURE(c.mesh.size());
    CAPTURE(c.micro_batches);
    check(c);
  }
}

}  // namespace gpt_budget_test
