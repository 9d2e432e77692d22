// models/moe.cc — alpa-moe: trains a decoder with mixtures of experts on CPU or CUDA devices
#include "models/moe.h"

#include "models/common/language.h"
#include "models/common/run.h"

using namespace alpa;
using namespace models;

namespace {

struct MoeFlags : LanguageFlags {
  std::int64_t layers = 0, hidden = 0, heads = 0, experts = 0, choices = 2, group = 2048;
  double capacity_factor = 1, balance_weight = 0.01;
};

std::vector<cli::Flag> rows_of_moe(MoeFlags& flags) {
  std::vector<std::string> sizes;
  for (const MoeDecoderSize& size : kMoeSizes) sizes.emplace_back(size.name);
  std::vector<cli::Flag> own = cli::in_group(
      "Model",
      {number_of_layers(&flags.layers, "blocks; 0: those of the size", 0, kBlockNodes),
       cli::whole("--hidden", &flags.hidden, "width of the blocks; 0: that of the size", 0),
       cli::whole("--heads", &flags.heads, "heads of a block; 0: those of the size", 0),
       cli::whole("--experts", &flags.experts, "experts of a layer; 0: as many as --model says", 0),
       cli::whole("--choices", &flags.choices, "experts of a token", 1, 2),
       cli::whole("--group", &flags.group, "tokens that share the places of an expert", 1),
       cli::number("--capacity-factor", &flags.capacity_factor,
                   "places of an expert, as a multiple of its even share", 0.01, 1000),
       cli::number("--balance-weight", &flags.balance_weight,
                   "of the loss that balances the experts' loads", 0, 1000)});
  return cli::joined({own, rows_of_language(flags, sizes)});
}

MoeDecoderOptions options_of(const MoeFlags& flags) {
  MoeDecoderOptions options{.sequence = flags.sequence,
                            .vocabulary = flags.vocabulary,
                            .choices = static_cast<int>(flags.choices),
                            .capacity_factor = flags.capacity_factor,
                            .group = flags.group,
                            .balance_weight = flags.balance_weight,
                            .dtype = own_dtype(flags.dtype),
                            .remat = marks_remat(flags)};
  for (const MoeDecoderSize& size : kMoeSizes)
    if (size.name == flags.model)
      options.layers = size.layers, options.hidden = size.hidden, options.heads = size.heads,
      options.experts = size.experts;
  const auto set = [](std::int64_t& option, std::int64_t flag) {
    option = flag > 0 ? flag : option;
  };
  set(options.layers, flags.layers), set(options.hidden, flags.hidden);
  set(options.heads, flags.heads), set(options.experts, flags.experts);
  return options;
}

int run_moe(int argc, char** argv) {
  MoeFlags flags;
  if (read_flags(argc, argv,
                 "Trains a decoder with mixtures of experts with an automatic parallel plan.",
                 rows_of_moe(flags), flags))
    return 0;
  run_task(flags, [&] {
    return language_task(flags, [decoder = MoeDecoder(options_of(flags))](const Batch& b) {
      return decoder.loss(b["tokens"], b["labels"]);
    });
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-moe", run_moe, argc, argv); }
