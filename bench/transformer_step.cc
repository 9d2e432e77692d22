// The training step of a transformer (GPT or Llama-like decoder, BERT, ViT; Adam) on CPU devices
// beside its limit (limit.h), with --half in bf16 mixed, too. With --on-request it answers numbers
// of steps with their seconds, for bench/peers/transformer_step.py.
//   bench_transformer_step --help
#include <algorithm>

#include "alpa/models/bert.h"
#include "alpa/models/gpt.h"
#include "alpa/models/vit.h"
#include "arguments.h"
#include "interleave.h"
#include "limit.h"
#include "mlp.h"
#include "on_request.h"

using namespace alpa;

namespace {

struct Sizes {
  std::string model = "gpt";
  std::int64_t layers = 4, hidden = 512, heads = 8, sequence = 256, vocabulary = 8192, batch = 4;
  std::int64_t image = 224;  ///< of ViT
  bool half = false;
  std::int64_t lora = 0;  ///< rank of attention's adapters, which alone are trained; 0: none
  bench::Timing timing;
};

constexpr std::int64_t kPatch = 16, kClasses = 1000, kEvery = 7;  ///< BERT hides every 7th token
constexpr double kRate = 1e-7;  ///< so small that nothing converges while it is measured

/// A step and its batch.
struct Task {
  TrainingStep step;
  BatchData batch;
};

Array ids(const Shape& shape, std::int64_t below) {
  std::vector<std::int32_t> values(TensorType{i32, shape}.elements());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>((i * 7919) % static_cast<std::size_t>(below));
  return Array(values, shape);
}

Task vit_task(const Sizes& s, const StepOptions& options) {
  const models::Vit vit(
      {.encoder = {s.layers, s.hidden, s.heads, 0, true}, .patch = kPatch, .classes = kClasses});
  const Shape images{s.batch, s.image, s.image, 3};
  return {training_step(
              {{"images", {f32, images}}, {"labels", {i32, {s.batch}}}},
              [vit](const Batch& b) { return nn::cross_entropy(vit(b["images"]), b["labels"]); },
              optim::Adam{.learning_rate = kRate}, options),
          {{"images", bench::random_array(images)}, {"labels", ids({s.batch}, kClasses)}}};
}

/// The loss of tokens and labels [B, T].
using LossOf = std::function<LossAndMetrics(Value, Value)>;

LossOf loss_of(const Sizes& s) {
  if (s.model == "bert")
    return [bert = models::Bert({{s.layers, s.hidden, s.heads}, s.sequence, s.vocabulary})](
               Value tokens, Value labels) { return bert.loss(tokens, labels); };
  models::DecoderOptions options{.layers = s.layers,
                                 .hidden = s.hidden,
                                 .heads = s.heads,
                                 .sequence = s.sequence,
                                 .vocabulary = s.vocabulary};
  if (s.model == "llama") {
    options.kind = models::DecoderKind::llama;
    options.key_heads = std::max<std::int64_t>(1, s.heads / 4);
    options.feed_forward = 11 * s.hidden / 4;
    options.tied_head = false;
  }
  return [decoder = models::Decoder(options)](Value tokens, Value labels) {
    return decoder.loss(tokens, labels);
  };
}

Task language_task(const Sizes& s, const StepOptions& options) {
  const Shape shape{s.batch, s.sequence};
  const Array tokens = ids(shape, s.vocabulary);
  Array labels = ids(shape, s.vocabulary);
  if (s.model == "bert")
    for (std::int64_t i = 0; i < s.batch * s.sequence; ++i)
      if (i % kEvery != 0) labels.mutable_elements_as<std::int32_t>()[i] = models::Bert::kNotHidden;
  const TensorType type{i32, shape};
  return {training_step(
              {{"tokens", type}, {"labels", type}},
              [loss = loss_of(s)](const Batch& b) { return loss(b["tokens"], b["labels"]); },
              optim::Adam{.learning_rate = kRate}, options),
          {{"tokens", tokens}, {"labels", labels}}};
}

Task task_of(const Sizes& s, Precision precision = Precision::as_written) {
  StepOptions options{.precision = precision};
  if (s.lora > 0) options.lora = Lora{.targets = {"*.attention.*"}, .rank = s.lora};
  return s.model == "vit" ? vit_task(s, options) : language_task(s, options);
}

void measure(const Sizes& sizes) {
  const Task task = task_of(sizes);
  if (!sizes.half) return bench::time_step(task.step, sizes.timing, task.batch);
  bench::time_with_half(task.step, task_of(sizes, Precision::bf16_mixed).step, sizes.timing,
                        task.batch);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  const std::vector<cli::Flag> flags = bench::with_timing(
      {cli::choice("--model", &sizes.model, "Kind of transformer", {"gpt", "llama", "bert", "vit"}),
       cli::whole("--layers", &sizes.layers, "Blocks", 1),
       cli::whole("--hidden", &sizes.hidden, "Width", 1),
       cli::whole("--heads", &sizes.heads, "Heads", 1),
       cli::whole("--sequence", &sizes.sequence, "Tokens of an example", 1),
       cli::whole("--vocabulary", &sizes.vocabulary, "Different tokens", 2),
       cli::whole("--image", &sizes.image, "Rows and columns of ViT's images", kPatch),
       cli::whole("--batch", &sizes.batch, "Examples", 1),
       cli::whole("--lora", &sizes.lora,
                  "Rank of attention's adapters, which alone are trained; 0: none", 0),
       cli::on("--half", &sizes.half, "The step in bf16 mixed, too; on request only")},
      sizes.timing);
  return bench::run(argc, argv, "The training step of a transformer on CPU devices.", flags,
                    [&] { measure(sizes); });
}
