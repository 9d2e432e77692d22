// The training step of a GPT (tied embeddings, learnt positions, Adam) on CPU devices, with --half
// in bf16 mixed beside f32. With
// --on-request it answers numbers of steps with their seconds, for bench/peers/gpt_step.py.
//   bench_gpt_step --help
#include "arguments.h"
#include "interleave.h"
#include "models/gpt.h"
#include "on_request.h"

using namespace alpa;

namespace {

struct Sizes {
  models::DecoderOptions model{
      .layers = 4, .hidden = 512, .heads = 8, .sequence = 256, .vocabulary = 8192};
  std::int64_t batch = 4;
  int rounds = 7;
  bool half = false;
  bench::Placement place;
};

std::function<void()> runner(const Sizes& sizes, const bench::Placement& place,
                             Precision precision = Precision::as_written) {
  const TensorType tokens{i32, {sizes.batch, sizes.model.sequence}};
  const TrainingStep step =
      training_step({{"tokens", tokens}, {"labels", tokens}},
                    [decoder = models::Decoder(sizes.model)](const Batch& b) {
                      return decoder.loss(b["tokens"], b["labels"]);
                    },
                    optim::Adam{.learning_rate = 1e-7}, {.precision = precision});
  std::vector<std::int32_t> ids(tokens.elements());
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>((i * 7919) % sizes.model.vocabulary);
  const Array array(ids, tokens.shape);
  return bench::runner(step, place, {{"tokens", array}, {"labels", array}});
}

void measure(const Sizes& sizes) {
  std::vector<bench::Variant> variants{{"one device", runner(sizes, {})}};
  if (sizes.place.devices > 1)
    variants.push_back({fmt::format("{} devices, {}", sizes.place.devices, sizes.place.of_several),
                        runner(sizes, sizes.place)});
  if (sizes.half)
    variants.push_back({"one device, bf16 mixed", runner(sizes, {}, Precision::bf16_mixed)});
  bench::interleave(variants, sizes.rounds);
  bench::print(variants);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  bool on_request = false;
  const std::vector<cli::Flag> flags = bench::with_placement(
      {cli::whole("--layers", &sizes.model.layers, "Blocks", 1),
       cli::whole("--hidden", &sizes.model.hidden, "Width", 1),
       cli::whole("--heads", &sizes.model.heads, "Heads", 1),
       cli::whole("--sequence", &sizes.model.sequence, "Tokens of an example", 1),
       cli::whole("--vocabulary", &sizes.model.vocabulary, "Different tokens", 2),
       cli::whole("--batch", &sizes.batch, "Examples", 1),
       cli::whole("--rounds", &sizes.rounds, "Counted rounds", 1, 1000),
       cli::on("--half", &sizes.half, "The step in bf16 mixed, too"),
       cli::on("--on-request", &on_request, "Answer numbers of steps with seconds")},
      sizes.place);
  return bench::run(argc, argv, "The training step of a GPT on CPU devices.", flags, [&] {
    if (!on_request) return measure(sizes);
    bench::answer(runner(sizes, sizes.place));
  });
}
