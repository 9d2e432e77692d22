#pragma once
/// Functions and plans as the JSON of alpa_c.h.
#include <nlohmann/json_fwd.hpp>

#include "alpa/compile/compiled_step.h"
#include "alpa/import/stablehlo.h"

namespace bindings {

/// As alpa_function_json.
nlohmann::ordered_json function_json(const alpa::Imported& function);

/// As alpa_plan_json. `step` is a step of `function`.
nlohmann::ordered_json plan_json(const alpa::CompiledStep& step, const alpa::Imported& function);

}  // namespace bindings
