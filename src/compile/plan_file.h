#pragma once
/// Plans as JSON files, schema "alpa.plan/2". Files of earlier versions are read, too:
/// "alpa.plan/1", the sharding of a step on one mesh, and "alpa.pipeline/1", a step in stages.
#include <optional>
#include <string>
#include <vector>

#include "alpa/compile/compiled_step.h"
#include "alpa/train/training_step.h"

namespace alpa {

/// The sharding plans of the stages in a file with this text, in order, each as the text of
/// `to_json(ShardingPlan)`. Throws Error as `plan_from_json`.
std::vector<std::string> sharding_plans(const std::string& text, const std::string& origin);

/// The plan in a file with this text as it was written, for readers: with what was predicted, but
/// without the graph of the whole step, which it cannot be run without. Throws Error as
/// `plan_from_json`.
CompiledStep plan_for_readers(const std::string& text, const std::string& origin);

/// Graph and plan of a step whose plan is in a file with this text. Throws Error naming `origin`
/// and the place if the text is malformed, or was made for another step. Without a number of
/// micro-batches, that of the file.
CompiledStep plan_from_json(const std::string& text, const TrainingStep& step,
                            std::optional<int> num_micro_batches, const std::string& origin);

}  // namespace alpa
