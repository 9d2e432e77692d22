#pragma once
/// What the planner chooses by itself, beside every choice planned one by one: stages,
/// micro-batches and rematerialised layers of small random steps, on small random clusters, under
/// memory budgets.

#include <vector>

namespace alpa::testing {

/// Checks so many steps of every schedule, and where the schedule is chosen, too. The first 6
/// seeds hold three layers, three devices, attention, convolutions, budgets and split state. The
/// seeds of the schedule number i begin at 1000 i; those in `left_out` are not checked.
void check_joint_search(int count, const std::vector<int>& left_out);

}  // namespace alpa::testing
