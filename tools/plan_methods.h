#pragma once
/// The methods that `alpa plan --compare` puts beside a plan, under the same prices.
#include <functional>
#include <string>
#include <vector>

#include "src/search/space/auto_shard_options.h"
#include "tools/plan_report.h"

namespace plan {

/// "data,zero2" → {"data", "zero2"}. Throws Error that lists the methods if one is unknown or given
/// twice.
std::vector<std::string> parse_methods(const std::string& text);

/// Applied to every method before it plans: what ends planning early.
using Stoppable = std::function<alpa::Method(alpa::Method)>;

/// The best plan of the method called `name`:
///
/// | name | what is tried, within the time limit |
/// |---|---|
/// | data, zero2, zero3 | every number of micro-batches |
/// | intra-only | the same, of the method shard |
/// | intra-zero2 | the same, with ZeRO stage 2 |
/// | inter-only | a stage per device |
/// | pp-dp | stages that are searched for, each with data parallelism alone on one mesh axis |
/// | megatron | `best_of_grid` (frameworks.h) |
///
/// A method that does not fit says what its smallest plan needs.
MethodResult best_of(const std::string& name, const Subject& subject, const Stoppable& stoppable);

/// The plan of the file of --given, priced for the cluster of `subject`. Throws Error if it fits
/// neither the model nor the devices.
MethodResult given_plan(const Subject& subject, const Stoppable& stoppable);

/// All that is set alike for the methods compared.
alpa::Method with_common(alpa::Method method, const PlanFlags& flags, double seconds);

/// "found no plan that fits", or what the smallest plan of the method needs.
std::string no_plan_text(const Subject& subject, const alpa::Method& method,
                         alpa::intra_op::NoPlan why);

/// Plans; where nothing fits the memory, says what the smallest plan needs.
MethodResult planned_with(const std::string& name, const Subject& subject,
                          const alpa::Method& method);

}  // namespace plan
