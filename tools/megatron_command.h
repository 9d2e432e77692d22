#pragma once
/// Command lines of Megatron-LM's pretrain_gpt.py, and scripts that hold one.
#include <string>
#include <vector>

#include "alpa/models/gpt.h"

namespace plan {

/// What a command line asks for.
struct MegatronCommand {
  alpa::models::DecoderOptions decoder = {};  ///< its vocabulary is padded as Megatron-LM does
  std::int64_t sequence = 0;                  ///< tokens of an example
  std::int64_t batch = 0;                     ///< global; 0: one micro-batch of every device
  std::int64_t rows = 0;                      ///< of a micro-batch
  int tensor = 1, pipeline = 1, virtual_stages = 1;
  std::vector<int> layers = {};  ///< of the stages, if a layout says so
  bool sequence_parallel = false, distributed_optimizer = false, recomputes = false;
  std::string precision = "as_written", optimizer = "adam";
};

/// Reads the flags of a text: one command, or a shell script with variables that are assigned
/// before. Flags that change neither costs nor bytes are passed over. `vocabulary`: of a text
/// without --vocab-size; 0: none. Throws Error that names `origin` and the flag, for values that
/// are missing or wrong, and for flags whose cost is not known here.
MegatronCommand read_megatron(const std::string& text, const std::string& origin,
                              std::int64_t vocabulary);

}  // namespace plan
