// models/moe.cc — alpa-moe: trains a decoder with mixtures of experts on CPU or CUDA devices
#include "alpa/models/moe.h"

#include "models/common/run.h"
#include "models/common/zoo_tasks.h"

using namespace alpa;
using namespace models;
using namespace programs;

namespace {

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

int run_moe(int argc, char** argv) {
  MoeFlags flags;
  if (read_flags(argc, argv,
                 "Trains a decoder with mixtures of experts with an automatic parallel plan.",
                 rows_of_moe(flags), flags))
    return 0;
  run_task(flags, [&] { return moe_task(flags); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-moe", run_moe, argc, argv); }
