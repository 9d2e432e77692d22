// The same as joint_search_test.cc, on ten more random steps of every schedule.
#include <doctest/doctest.h>

#include "api/joint_search.h"

namespace joint_search_slow_test {

using namespace alpa;
using alpa::testing::check_joint_search;

TEST_CASE("what is searched for 1F1B is as fast as the fastest of all choices, on ten more") {
  check_joint_search(ScheduleKind::one_f_one_b, 10, 10);
}

TEST_CASE("what is searched for GPipe is as fast as the fastest of all choices, on ten more") {
  check_joint_search(ScheduleKind::gpipe, 1010, 10);
}

TEST_CASE("what is searched for eager 1F1B is as fast as the fastest of all choices, on ten more") {
  check_joint_search(ScheduleKind::one_f_one_b_overlap, 2010, 10);
}

TEST_CASE("where the schedule is chosen, too, the step is as fast as the fastest, on ten more") {
  check_joint_search(kAutoSchedule, 4010, 10);
}

TEST_CASE(
    "what is searched for zero bubble is as fast as the fastest of all choices, on ten more") {
  check_joint_search(ScheduleKind::zero_bubble, 3010, 10);
}

}  // namespace joint_search_slow_test
