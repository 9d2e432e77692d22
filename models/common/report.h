#pragma once
/// Reports of a run, as text and as JSON. Only report.cc includes nlohmann/json.
#include <string>
#include <vector>

#include "models/common/training.h"

namespace programs {

/// The report as JSON: loss, step_seconds, memory, communication, planner,
/// max_abs_parameter_difference, test_accuracy, test_loss, parameters, and what the run was. A loss
/// or difference that is not finite is "nan", "inf" or "-inf". Without a run (`--plan-only`) what
/// only a run knows is null, and communication is the planned one.
std::string report_json(const alpa::CompiledStep& planned, const RunResult* run);

/// A few lines: plan, memory, communication, time.
std::string summary_text(const alpa::CompiledStep& planned, const RunResult* run);

/// Columns as wide as their widest cell; the first is aligned left, the others right. The
/// first row is the heading.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

/// One line per parameter: name, shape, and layout in words.
std::string sharding_text(const alpa::CompiledStep& planned);

}  // namespace programs
