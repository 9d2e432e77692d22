// Tokens of a GPT (tied head, learnt positions) on CPU devices, one after the other, with a
// cache of keys and values. With --on-request it answers numbers of tokens with the seconds in
// which they follow the first one, for bench/peers/generation.py. With --load it is the decoder of
// a file, whose kernels stay in blocks as they are stored.
//   bench_generation --help
#include "alpa/models/gpt.h"
#include "alpa/models/hugging_face.h"
#include "alpa/models/pretrained.h"
#include "arguments.h"
#include "on_request.h"

using namespace alpa;

namespace {

constexpr std::int64_t kLength = 1024;  ///< of a text

struct Sizes {
  models::DecoderOptions model{.layers = 12,
                               .hidden = 768,
                               .heads = 12,
                               .sequence = kLength,
                               .vocabulary = 50257,
                               .head_bias = false};
  std::int64_t prompt = 16, count = 64, rows = 1;
  std::string dtype = "f32";  ///< of the parameters
  std::string load;           ///< a GGUF file; "": weights are random
  std::string weights = {};   ///< of the decoder that is loaded
  std::vector<Quantized> quantized = {};
  bench::Timing timing;
};

/// Continues a prompt.
class Writer {
 public:
  explicit Writer(const Sizes& sizes)
      : generator_(models::Decoder(sizes.model), sizes.timing.place.method(),
                   Cluster::local(sizes.timing.place.devices),
                   {.rows = sizes.rows,
                    .length = kLength,
                    .chunk = sizes.prompt,
                    .evaluation = {.quantized = sizes.quantized}}),
        state_(generator_.init(0)),
        prompts_(sizes.rows, TokenIds(sizes.prompt)) {
    if (!sizes.weights.empty())
      models::load_hugging_face(state_, TensorFile(sizes.weights), sizes.model);
    for (TokenIds& prompt : prompts_)
      for (std::size_t i = 0; i < prompt.size(); ++i)
        prompt[i] = static_cast<std::int32_t>(i * 7919 % sizes.model.vocabulary);
    fmt::print(stderr, "{}\n{} bytes per device\n", to_string(generator_.tokens().planned()),
               generator_.tokens().memory_bytes());
  }

  /// Seconds of the prompts with the first tokens behind them, and of so many more of each.
  std::pair<double, double> seconds_of(std::int64_t count) {
    const Stopwatch watch;
    double first = 0;
    generate(generator_, state_, prompts_,
             {.count = count + 1, .temperature = 0, .on_token = [&](std::size_t, std::int32_t) {
                if (first == 0) first = watch.seconds();
              }});
    return {first, watch.seconds() - first};
  }

  /// Bytes of the parameters that a token reads.
  std::int64_t parameter_bytes() const {
    std::int64_t bytes = 0;
    for (const DistributedArray& parameter : state_.parameters())
      if (parameter.name() != "positions.table") bytes += parameter.type().bytes();
    return bytes;
  }

 private:
  Generator generator_;
  TrainState state_;
  std::vector<TokenIds> prompts_;
};

void load(Sizes& sizes) {
  const models::Pretrained file = models::read_pretrained(sizes.load);
  sizes.model = file.decoder;
  sizes.weights = file.weights;
  sizes.quantized = models::stored_quantization(TensorFile(file.weights), file.decoder);
}

void measure(const Sizes& sizes) {
  Writer writer(sizes);
  writer.seconds_of(2);
  std::vector<double> prompts, tokens;
  for (int round = 0; round < sizes.timing.rounds; ++round) {
    const auto [prompt, all] = writer.seconds_of(sizes.count);
    prompts.push_back(prompt), tokens.push_back(all / static_cast<double>(sizes.count));
  }
  const double token = median(tokens);
  fmt::print(
      R"({{"name": "alpa", "devices": {}, "prompt_seconds": {:.4g}, "token_seconds": {:.4g}, )"
      R"("tokens_per_second": {:.4g}, "parameter_bytes_per_second": {:.4g}}})"
      "\n",
      sizes.timing.place.devices, median(prompts), token, static_cast<double>(sizes.rows) / token,
      static_cast<double>(writer.parameter_bytes()) / token);
}

void answer(const Sizes& sizes) {
  Writer writer(sizes);
  for (std::int64_t count = 0; std::cin >> count;) {
    fmt::print("{:.6g}\n", writer.seconds_of(count).second);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  const std::vector<cli::Flag> flags = bench::with_timing(
      {cli::whole("--layers", &sizes.model.layers, "Blocks", 1),
       cli::whole("--hidden", &sizes.model.hidden, "Width", 1),
       cli::whole("--heads", &sizes.model.heads, "Heads", 1),
       cli::whole("--vocabulary", &sizes.model.vocabulary, "Different tokens", 2),
       cli::text("--load", &sizes.load, "Instead of these: the decoder of a GGUF file"),
       cli::text("--dtype", &sizes.dtype, "Element type of the parameters"),
       cli::whole("--prompt", &sizes.prompt, "Tokens of a prompt", 1, 512),
       cli::whole("--count", &sizes.count, "Counted tokens behind it", 1, 512),
       cli::whole("--rows", &sizes.rows, "Prompts at once", 1, 64)},
      sizes.timing);
  return bench::run(argc, argv, "Tokens of a GPT on CPU devices.", flags, [&] {
    sizes.model.dtype = parse_dtype(sizes.dtype);
    if (!sizes.load.empty()) load(sizes);
    sizes.timing.on_request ? answer(sizes) : measure(sizes);
  });
}
