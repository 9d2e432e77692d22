// models/common/generation.cc — text from a trained decoder, token by token
#include "models/common/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace models {

using namespace alpa;

namespace {

/// One token in, the logits of the next one out; keys and values are state of the step.
TrainingStep decoding_step(const Decoder& decoder) {
  const auto build = [decoder](Builder& builder, const Batch& b) {
    builder.set_training(false);
    const DecoderOptions& o = decoder.options();
    const std::int64_t heads = o.key_heads > 0 ? o.key_heads : o.heads;
    const TensorType type{o.dtype.value_or(f32), {1, o.sequence, heads, o.hidden / o.heads}};
    Values cache;
    for (std::int64_t i = 0; i < 2 * o.layers; ++i)
      cache.push_back(builder.step_state("cache" + std::to_string(i), type, zeros));
    Values keys(cache.begin(), cache.begin() + o.layers),
        values(cache.begin() + o.layers, cache.end());
    const Value logits = decoder.decode(b["token"], b["position"], keys, values);
    for (std::int64_t i = 0; i < o.layers; ++i) {
      builder.update(cache[i], keys[i]);
      builder.update(cache[o.layers + i], values[i]);
    }
    output("logits", cast(logits, f32));
  };
  return custom_step({{"token", {i32, {1, 1}}}, {"position", {i32, {1}}, false}}, build);
}

}  // namespace

std::int32_t sample(std::span<const float> logits, const SamplingOptions& options, double number) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept =
      options.top_k > 0 ? std::min<std::size_t>(order.size(), options.top_k) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
  if (options.temperature == 0) return order[0];
  std::vector<double> sums(kept);
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i)
    sums[i] = sum += std::exp((logits[order[i]] - logits[order[0]]) / options.temperature);
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), number * sum);
  return order[std::min<std::size_t>(drawn - sums.begin(), kept - 1)];
}

void check_lengths(std::int64_t prompt, std::int64_t count, std::int64_t sequence) {
  require(prompt >= 1, "generate: the prompt is empty; give at least one token");
  require(prompt + count <= sequence + 1,
          "generate: a prompt of {} tokens and {} more exceed the model's sequence of {}", prompt,
          count, sequence);
}

std::vector<std::int32_t> generate(const Decoder& decoder, const TrainState& trained,
                                   std::span<const std::int32_t> prompt, std::int64_t count,
                                   const SamplingOptions& options) {
  const auto given = static_cast<std::int64_t>(prompt.size());
  check_lengths(given, count, decoder.options().sequence);
  const Executable executable =
      parallelize(decoding_step(decoder), Serial{}, Cluster::local(1, "cpu"));
  TrainState state = executable.init(0);
  state.copy_from(trained);
  std::mt19937_64 engine(options.seed);
  std::uniform_real_distribution<double> uniform;
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  for (std::int64_t at = 0; at + 1 < given + count; ++at) {
    const StepResult result = executable.run(
        state,
        {{"token", Array(std::vector<std::int32_t>{tokens[at]}, {1, 1})},
         {"position", Array(std::vector<std::int32_t>{static_cast<std::int32_t>(at)}, {1})}});
    if (at + 1 < given) continue;
    const Array logits = result.outputs["logits"];
    const std::span<const float> all = logits.elements_as<float>();
    const auto known =
        options.tokens > 0 ? std::min<std::size_t>(all.size(), options.tokens) : all.size();
    tokens.push_back(sample(all.first(known), options, uniform(engine)));
  }
  return {tokens.begin() + given, tokens.end()};
}

}  // namespace models
