// Self-attention as models write it: the fused operator against its composition, under plans.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

namespace attention_test {

using namespace alpa;

namespace {

constexpr std::int64_t kBatch = 6, kTime = 5, kWidth = 24, kHeads = 4;

/// softmax(q kᵀ / sqrt(D)) v from einsums, with every head's keys repeated for its group.
Value composed(const nn::SelfAttention& layer, std::int64_t key_heads, Value x, Value key_mask) {
  const auto heads = layer.heads(x);
  const std::int64_t group = kHeads / key_heads, width = kWidth / kHeads;
  const auto repeated = [&](Value k) {
    const Shape spread{kBatch, kTime, key_heads, group, width};
    return reshape(broadcast_to(reshape(k, {kBatch, kTime, key_heads, 1, width}), spread),
                   {kBatch, kTime, kHeads, width});
  };
  Value products = einsum("bthd,bshd->bhts", heads.queries, repeated(heads.keys)) /
                   std::sqrt(static_cast<double>(width));
  const Value row = reshape(iota(x, {i32, {kTime}}), {kTime, 1}), column = iota(x, {i32, {kTime}});
  products = where(ge(row, column), products, -1e30);
  if (key_mask) products = where(reshape(key_mask, {kBatch, 1, 1, kTime}), products, -1e30);
  return layer.project(einsum("bhts,bshd->bthd", softmax(products), repeated(heads.values)));
}

struct Setting {
  std::int64_t key_heads;
  bool rotary, mask;
};

std::vector<double> trained(const Setting& s, bool fused, const Method& method,
                            const Cluster& cluster) {
  nn::SelfAttentionOptions options{.key_heads = s.key_heads};
  if (s.rotary) options.rotary = RotaryOptions{};
  const nn::SelfAttention layer(kWidth, kHeads, options);
  const TrainingStep step = training_step(
      {{"x", {f32, {kBatch, kTime, kWidth}}}},
      [=](const Batch& b) {
        const Value x = b["x"];
        // The first token is never hidden, so every query sees a key.
        const Value hidden = eq(iota(x, {i32, {kTime}}), 2);
        const Value mask = broadcast_to(eq(cast(hidden, i32), 0), {kBatch, kTime});
        const Value key_mask = s.mask ? mask : Value{};
        const Value y = fused ? layer(x, key_mask) : composed(layer, s.key_heads, x, key_mask);
        return sum(square(y - x));
      },
      optim::Sgd{.learning_rate = 1e-3});
  std::vector<float> x(kBatch * kTime * kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.7F * static_cast<float>(i));
  const Executable executable = parallelize(step, method, cluster);
  TrainState state = executable.init(3);
  for (int i = 0; i < 2; ++i) executable.run(state, {{"x", Array(x, {kBatch, kTime, kWidth})}});
  std::vector<double> numbers;
  for (const DistributedArray& parameter : state.parameters())
    for (double number : parameter.to_host().to_doubles()) numbers.push_back(number);
  return numbers;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("fused attention trains like its composition, whatever the heads, positions and masks") {
  for (const Setting& s :
       {Setting{4, false, false}, Setting{2, true, false}, Setting{1, true, true}}) {
    CAPTURE(s.key_heads);
    const std::vector<double> expected = trained(s, false, Serial{}, Cluster::local(1));
    CHECK(largest_difference(trained(s, true, Serial{}, Cluster::local(1)), expected) <= 1e-6);
    for (int devices : {3, 4})
      CHECK(largest_difference(trained(s, true, ShardParallel{}, Cluster::local(devices)),
                               expected) <= 1e-6);
  }
}

TEST_CASE("a query that sees no key gives 0 and has no gradient") {
  const TrainingStep step = training_step(
      {{"x", {f32, {2, 3, 1, 4}}}},
      [](const Batch& b) {
        const Value x = b["x"];
        const Value gain = x.builder->parameter("gain", {f32, {4}}, ones);
        const Value none = broadcast_to(gt(iota(x, {i32, {3}}), 2), {2, 3});
        const Value q = x * gain;
        return LossAndMetrics(sum(square(attention(q, q, q, {.key_mask = none}))));
      },
      optim::Sgd{.learning_rate = 1});
  const Executable executable = parallelize(step, ShardParallel{}, Cluster::local(2));
  TrainState state = executable.init(0);
  const std::vector<float> x(24, 0.5F);
  CHECK(executable.run(state, {{"x", Array(x, {2, 3, 1, 4})}}).loss() == 0);
  CHECK(state["gain"].to_host().to_doubles() == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("dropout of probabilities keeps their mean, and its gradient has the same mask") {
  // The loss Σ y·w is linear in v, so it equals Σ v·dv if the mask is the same both times.
  const TrainingStep step = training_step(
      {{"x", {f32, {8, 16, 2, 4}}}},
      [](const Batch& b) {
        const Value x = b["x"];
        const Value v = x.builder->parameter("v", {f32, {8, 16, 2, 4}}, ones);
        return LossAndMetrics(mean(attention(x, x, v, {.dropout = 0.25})));
      },
      optim::Sgd{.learning_rate = 1});
  std::vector<double> first;
  for (int devices : {1, 3}) {
    const Executable executable = parallelize(step, ShardParallel{}, Cluster::local(devices));
    TrainState state = executable.init(0);
    const std::vector<float> x(8 * 16 * 2 * 4, 0.1F);
    const double loss = executable.run(state, {{"x", Array(x, {8, 16, 2, 4})}}).loss();
    CHECK(std::abs(loss - 1) < 0.05);
    CHECK(loss != 1);
    const std::vector<double> v = state["v"].to_host().to_doubles();
    double product = 0;
    for (double element : v) product += 1 - element;
    CHECK(std::abs(product - loss) < 1e-5);
    if (first.empty()) first = v;
    CHECK(largest_difference(v, first) <= 1e-6);
  }
}

}  // namespace attention_test
