#pragma once
/// What the planner chooses by itself, beside every choice planned one by one: stages,
/// micro-batches and rematerialised layers of small random steps, on small random clusters, under
/// memory budgets.
#include <alpa/alpa.h>

#include <optional>

namespace alpa::testing {

/// Checks so many steps. The first 10 seeds from a multiple of 20 hold three layers, three devices,
/// attention, convolutions, budgets and split state.
void check_joint_search(std::optional<ScheduleKind> schedule, int first_seed, int count);

}  // namespace alpa::testing
