// Attention through cuDNN: its results, engines and pieces, what runs where cuDNN refuses, and a
// training step of it on cards.
#include <algorithm>
#include <cmath>

#include "alpa/alpa.h"
#include "cuda/device_run.h"
#include "emulation.h"
#include "emulation/on_machine.h"
#include "emulation/step_on_cards.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cuda/attention_plan.h"
#include "src/cuda/dnn_library.h"
#include "src/ops/all_ops.h"
#include "support/captured_stderr.h"

namespace alpa::attention_test {
namespace {

using namespace testing;
using cuda::DnnPlans;
using cuda::MatmulOptions;

constexpr MatmulOptions kUntuned{.measured = false, .cached = false};
/// Engines of the emulation (dataflow.cc): with as much workspace as was planned, with less, and of
/// the fallback list. And one that adds in any order.
constexpr int kFirst = 62, kSecond = 28, kFallback = 0, kAnyOrder = 25;

/// q [B, T, H, D], k and v [B, S, K, D].
struct Problem {
  std::int64_t batch = 2, queries = 5, heads = 4, keys = 5, key_heads = 2, width = 16;
  bool causal = true;
  DType dtype = bf16;
  double dropout = 0;
  bool mask = false;
  std::int64_t first_query = 0, all_queries = queries;  ///< of a part of the queries
  bool repeats = true;

  TensorType q_type() const { return {dtype, {batch, queries, heads, width}}; }
  TensorType k_type() const { return {dtype, {batch, keys, key_heads, width}}; }
  TensorType lse_type() const { return {f32, {batch, heads, queries}}; }
  HostTensor part(const TensorType& type, unsigned seed) const {
    HostTensor tensor = random_tensor(type, seed);
    tensor.offset = {0, first_query, 0, 0};
    tensor.global_shape = {batch, all_queries, heads, width};
    return tensor;
  }
  Attributes attributes() const {
    Attributes all{{"causal", std::int64_t{causal}}, {"scale", 0.3}, {"dropout", dropout}};
    if (dropout > 0) all.set("stream", std::int64_t{3});
    if (!repeats) all.set("varies", std::int64_t{1});
    return all;
  }
  std::vector<HostTensor> operands() const {
    std::vector<HostTensor> all = {part(q_type(), 1), random_tensor(k_type(), 2),
                                   random_tensor(k_type(), 3)};
    if (mask) all.push_back(random_tensor({u8, {batch, keys}}, 4));
    return all;
  }
  /// y and lse, then dq, dk and dv, of this machine or the CPU.
  std::vector<HostTensor> results(DnnPlans* dnn, bool captured = false) const;
  double error(DnnPlans& dnn, bool captured = false) const;
  int engine_of(const MatmulOptions& options) const;
};

std::vector<HostTensor> Problem::results(DnnPlans* dnn, bool captured) const {
  const auto run = [&](const OpDef& op, const KernelDef& cpu, const std::vector<HostTensor>& in,
                       const std::vector<HostTensor>& out) {
    const StepContext step{.seed = 5, .step = 1, .micro_batch = 0};
    if (dnn == nullptr) return run_kernel(cpu, in, out, {.attributes = attributes(), .step = step});
    return run_on_device(
        op, in, out, {.attributes = attributes(), .step = step, .captured = captured, .dnn = dnn});
  };
  std::vector<HostTensor> in = operands();
  std::vector<HostTensor> all =
      run(ops::attention, cpu::attention, in, {HostTensor(q_type()), HostTensor(lse_type())});
  // What the CPU computed, so that only the gradient's own error counts.
  const std::vector<HostTensor> saved = dnn == nullptr ? all : results(nullptr);
  std::vector<HostTensor> backward = {part(q_type(), 5), in[0], in[1], in[2], saved[0], saved[1]};
  if (mask) backward.push_back(in[3]);
  const std::vector<HostTensor> gradients =
      run(ops::attention_grad, cpu::attention_grad, backward,
          {HostTensor(q_type()), HostTensor(k_type()), HostTensor(k_type())});
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

/// The largest, of what rounding explains.
double Problem::error(DnnPlans& dnn, bool captured) const {
  const std::vector<HostTensor> expected = results(nullptr), got = results(&dnn, captured);
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    largest = std::max(largest, difference(got[i], values_of(expected[i])) / epsilon(dtype));
  return largest;
}

int Problem::engine_of(const MatmulOptions& options) const {
  DnnPlans dnn(options);
  CHECK(error(dnn) <= 2);
  return emulation::last_engine();
}

TEST_CASE("attention is right with cuDNN and without") {
  DnnPlans first(kUntuned), second(kUntuned);  // one line on stderr
  for (DnnPlans* dnn : {&first, &second})
    for (const DType dtype : {bf16, f16}) CHECK(Problem{.dtype = dtype}.error(*dnn) <= 2);
}

TEST_CASE("every kind of attention that cuDNN is asked for gives what the CPU gives") {
  const On machine({});
  for (const Problem& problem :
       {Problem{}, Problem{.causal = false}, Problem{.queries = 3, .keys = 7},
        Problem{.queries = 3, .keys = 7, .causal = false}, Problem{.heads = 6, .key_heads = 6},
        Problem{.heads = 6, .key_heads = 1}, Problem{.queries = 70, .keys = 70, .width = 8},
        Problem{.queries = 3, .keys = 6, .first_query = 0, .all_queries = 6},
        Problem{.queries = 3, .keys = 6, .first_query = 3, .all_queries = 6}})
    for (const bool captured : {false, true}) {
      CAPTURE(problem.queries);
      CAPTURE(problem.first_query);
      DnnPlans dnn(kUntuned);
      emulation::restart({});
      CHECK(problem.error(dnn, captured) <= 2);
      CHECK(emulation::last_engine() == kFirst);
    }
}

TEST_CASE(
    "a gradient whose bits may vary takes the engine for that, and gives what the CPU gives") {
  for (const Problem& problem :
       {Problem{.repeats = false}, Problem{.key_heads = 4, .repeats = false},
        Problem{.queries = 3, .keys = 7, .causal = false, .repeats = false}})
    for (const bool captured : {false, true}) {
      const On machine({});
      DnnPlans dnn(kUntuned);
      CHECK(problem.error(dnn, captured) <= 2);
      CHECK(emulation::last_engine() == kAnyOrder);
    }
}

TEST_CASE("what cuDNN is not asked for runs on kernels of our own") {
  for (const Problem& problem :
       {Problem{.width = 12}, Problem{.width = 136}, Problem{.dropout = 0.25},
        Problem{.mask = true}, Problem{.dtype = f32},
        Problem{.queries = 2, .keys = 6, .first_query = 2, .all_queries = 6}}) {
    const On machine({});
    DnnPlans dnn(kUntuned);
    CHECK(problem.error(dnn) <= (problem.dtype == f32 ? 30 : 2));
    CHECK(emulation::last_engine() == -1);
  }
}

TEST_CASE("kernels of our own on tensor cores give what the CPU gives, in several tiles, too") {
  const On machine({.refused_engines = {kFirst, kSecond, kFallback}});
  DnnPlans dnn(kUntuned);
  for (const Problem& problem :
       {Problem{.queries = 70, .keys = 70, .key_heads = 4},
        Problem{.batch = 1, .queries = 67, .keys = 130, .width = 64},
        Problem{.batch = 1,
        .queries = 130,
        .heads = 2,
        .keys = 35,
        .key_heads = 1,
        .width = 72,
        .causal = false,
        .dtype = f16},
        Problem{.batch = 1, .queries = 40, .keys = 70, .width = 128, .dtype = f16},
        Problem{.queries = 3, .keys = 70, .width = 128, .dropout = 0.25},
        Problem{.queries = 70, .keys = 40, .width = 20, .causal = false, .dropout = 0.25},
        // packed, with draws at the keys' multiples of four, and beside them
        Problem{.queries = 70, .heads = 2, .keys = 72, .width = 64, .dropout = 0.5},
        Problem{.batch = 1, .queries = 70, .keys = 67, .width = 64, .dtype = f16, .dropout = 0.1},
        Problem{.queries = 20, .keys = 80, .dropout = 0.3, .first_query = 40, .all_queries = 80},
        Problem{.queries = 33, .keys = 66, .width = 24, .dropout = 0.2, .mask = true},
        Problem{.queries = 5, .keys = 66, .width = 64, .dropout = 1 - 1e-12},
        Problem{.queries = 33, .keys = 66, .width = 20, .mask = true},
        Problem{.queries = 33, .keys = 66, .width = 24, .causal = false, .mask = true},
        Problem{.queries = 20, .keys = 80, .first_query = 40, .all_queries = 80}}) {
    CAPTURE(problem.queries);
    CAPTURE(problem.width);
    CHECK(problem.error(dnn) <= 4);  // sums of more probabilities that were rounded
    CHECK(emulation::last_engine() == -1);
  }
}

TEST_CASE("engines that cuDNN refuses are passed over, then kernels of our own compute") {
  const On machine({.refused_engines = {kFirst}});
  const Problem problem;
  CHECK(problem.engine_of(kUntuned) == kSecond);
  emulation::restart({.refused_engines = {kFirst, kSecond}});
  CHECK(problem.engine_of(kUntuned) == kFallback);
  emulation::restart({.refused_engines = {kFirst, kSecond, kFallback}});
  CHECK(problem.engine_of(kUntuned) == -1);
  emulation::restart({.failing_engines = {kFirst, kSecond, kFallback}});
  CHECK(problem.engine_of({}) == -1);
}

TEST_CASE("attention takes cuDNN from 9.16 on; of an earlier one, one line on stderr tells") {
  for (const std::size_t version : {90000, 90501, 90800, 91000, 91001, 91500, 91501}) {
    const On machine({.dnn_version = version});
    const CapturedStderr captured("attention_version.txt");
    CHECK(Problem{}.engine_of(kUntuned) == -1);
    CHECK(captured.text() ==
          "alpa: attention runs on plain kernels, which are slow: cuDNN is " +
              cuda::dnn_version_text(version) +
              ", which has known errors here; install 9.16.0 or later, or name its folder in "
              "LD_LIBRARY_PATH\n");
  }
  for (const std::size_t version : {91600, 91900, 92600}) {
    const On machine({.dnn_version = version});
    const CapturedStderr captured("attention_version.txt");
    CHECK(Problem{}.engine_of(kUntuned) == kFirst);
    CHECK(captured.text().empty());
  }
}

TEST_CASE("the fastest engine is taken and remembered") {
  const On machine({.slow_engines = {kFirst, kFallback}});
  const Problem problem;
  CHECK(problem.engine_of({}) == kSecond);
  emulation::restart({.slow_engines = {kSecond}});
  CHECK(problem.engine_of({}) == kSecond);
  CHECK(problem.engine_of(kUntuned) == kFirst);
}

TEST_CASE("a captured attention is one kernel") {
  const On machine({});
  DnnPlans dnn(kUntuned);
  CHECK(Problem{}.error(dnn, true) <= 2);
  CHECK(emulation::last_graph().kernels == 1);
  CHECK(emulation::last_graph().copies + emulation::last_graph().clears == 0);
}

TEST_CASE("a gradient whose workspace is above the limit runs in pieces of rows, or of heads") {
  // A query and a key in each head need 16 KiB; 512 MiB have room for 32768 of them.
  constexpr std::int64_t kMany = 40960;
  for (const Problem& problem :
       {Problem{.batch = kMany, .queries = 1, .heads = 1, .keys = 2, .key_heads = 1, .width = 8},
        Problem{
            .batch = 1, .queries = 1, .heads = kMany, .keys = 2, .key_heads = kMany, .width = 8}}) {
    const On machine({});
    DnnPlans dnn(kUntuned);
    CHECK(problem.error(dnn, true) <= 2);
    CHECK(emulation::last_engine() == kFirst);
    CHECK(emulation::last_graph().kernels == 2);
  }
}

// ---- a step

TrainingStep attention_step(bool repeats) {
  const nn::SelfAttention layer(32, 4, {.key_heads = 2, .repeats = repeats});
  return training_step(
      {{"x", {f32, {4, 6, 32}}}},
      [=](const Batch& batch) {
        return nn::mean_squared_error(cast(layer(cast(batch["x"], bf16)), f32), batch["x"]);
      },
      optim::Sgd{.learning_rate = 0.1});
}

TEST_CASE("a step of attention gives the CPU's losses on one card and several, as planned") {
  std::vector<float> x(4 * 6 * 32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.7F * static_cast<float>(i));
  for (const bool repeats : {true, false}) {
    const TrainingStep step = attention_step(repeats);
    CHECK((to_string(step.trace(1)).find("varies=1") == std::string::npos) == repeats);
    check_step_on_cards(step, {{"x", Array(x, {4, 6, 32})}}, 1e-2);
  }
}

}  // namespace
}  // namespace alpa::attention_test
