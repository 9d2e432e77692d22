#pragma once
/// Trace of a step that an executor has run.
#include <optional>

#include "src/report/step_trace.h"

namespace alpa::runtime {
class Executor;
}  // namespace alpa::runtime

namespace alpa {

/// The last step of `executor`, which runs by `plan`. Throws Error if no times were recorded.
StepTrace trace_of(const Plan& plan, const runtime::Executor& executor);

/// The same; none if no times were recorded, or no step has run.
std::optional<StepTrace> trace_if_recorded(const Plan& plan, const runtime::Executor& executor);

}  // namespace alpa
