#pragma once
/// Plans with stages as JSON files, schema "alpa.pipeline/1".
#include <string>
#include <vector>

#include "alpa/executable.h"

namespace alpa {

/// True if this is the text of a plan with stages, of whatever version.
bool is_pipeline_file(const std::string& text);

/// The plans of the stages in a file with this text, in order, each as a plan file's text. Throws
/// Error as `pipeline_from_json`.
std::vector<std::string> stage_plans(const std::string& text, const std::string& origin);

/// A pipelined step's layers, stages with their plans, and schedule.
std::string pipeline_json(const CompiledStep& step);

/// Graph, stages and schedule of a step whose plan is in a file with this text. Throws Error
/// naming `origin` and the place if the text is malformed, or was made for another step.
CompiledStep pipeline_from_json(const std::string& text, const TrainingStep& step,
                                int num_micro_batches, const std::string& origin);

}  // namespace alpa
