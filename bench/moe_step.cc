// The training step of a decoder with experts (models/moe.h: 4 layers, hidden 512, 8 experts of
// width 2048, 1024 tokens in one group) on CPU devices, Adam, beside its limit (limit.h). With
// --on-request it answers numbers of steps with their seconds, for bench/peers/moe.py.
//   bench_moe_step --help
#include "alpa/models/moe.h"
#include "arguments.h"
#include "limit.h"
#include "on_request.h"

using namespace alpa;

namespace {

struct Sizes {
  std::int64_t batch = 4, sequence = 256, vocabulary = 8192;
  bench::Timing timing;
};

/// The learning rate is so small that nothing converges while it is measured.
TrainingStep step_of(const Sizes& s) {
  const models::MoeDecoder decoder({.layers = 4,
                                    .hidden = 512,
                                    .heads = 8,
                                    .experts = 8,
                                    .sequence = s.sequence,
                                    .vocabulary = s.vocabulary,
                                    .factor = 4,
                                    .group = s.batch * s.sequence});
  const TensorType type{i32, {s.batch, s.sequence}};
  return training_step(
      {{"tokens", type}, {"labels", type}},
      [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
      optim::Adam{.learning_rate = 1e-7});
}

void measure(const Sizes& s) {
  std::vector<std::int32_t> numbers(s.batch * s.sequence);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] =
        static_cast<std::int32_t>((i * i + 5 * i) % static_cast<std::size_t>(s.vocabulary));
  const Array tokens(numbers, {s.batch, s.sequence});
  bench::time_step(step_of(s), s.timing, {{"tokens", tokens}, {"labels", tokens}});
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  const std::vector<cli::Flag> flags =
      bench::with_timing({cli::whole("--batch", &sizes.batch, "Sequences of the batch", 1),
                          cli::whole("--sequence", &sizes.sequence, "Tokens of a sequence", 1),
                          cli::whole("--vocabulary", &sizes.vocabulary, "Words", 1)},
                         sizes.timing);
  return bench::run(argc, argv, "The training step of a decoder with experts on CPU devices.",
                    flags, [&] { measure(sizes); });
}
