// models/bert.cc — alpa-bert: trains BERT to find hidden tokens, on CPU or CUDA devices
#include "alpa/models/bert.h"

#include "models/common/run.h"
#include "models/common/zoo_tasks.h"

using namespace alpa;
using namespace models;
using namespace programs;

namespace {

int run_bert(int argc, char** argv) {
  BertFlags flags;
  std::vector<std::string> sizes;
  for (const BertSize& size : kBertSizes) sizes.emplace_back(size.name);
  const std::vector<cli::Flag> own = cli::in_group(
      "Model", {cli::number("--dropout", &flags.dropout, "rate of dropout", 0, 0.99),
                cli::number("--hidden-share", &flags.hidden_share, "of the tokens", 0.01, 0.99)});
  if (read_flags(argc, argv, "Trains BERT with an automatic parallel plan.",
                 cli::joined({own, rows_of_language(flags, sizes)}), flags))
    return 0;
  run_task(flags, [&] { return bert_task(flags); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-bert", run_bert, argc, argv); }
