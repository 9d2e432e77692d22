// src/inter_op/stage.cc — stages as text
#include "src/inter_op/stage.h"

namespace alpa::inter_op {

std::string to_string(const StagePartition& partition) {
  std::string text;
  for (const Stage& stage : partition.stages) {
    text += fmt::format("{}[layers {}-{} on {}", text.empty() ? "" : " ", stage.first_layer,
                        stage.last_layer, stage.submesh);
    if (stage.configuration >= 0) text += fmt::format(", configuration {}", stage.configuration);
    text += "]";
  }
  return text;
}

std::vector<Submesh> submeshes_of(const StagePartition& partition) {
  std::vector<Submesh> submeshes;
  for (const Stage& stage : partition.stages) submeshes.push_back(stage.submesh);
  return submeshes;
}

}  // namespace alpa::inter_op
