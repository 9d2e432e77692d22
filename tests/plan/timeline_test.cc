// Schedules on a clock: the executed schedules of Alpa, their lengths, what they keep in flight.
#include "src/plan/schedules/timeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "plan/waiting_schedule.h"
#include "support/error_text.h"

namespace timeline_test {

using namespace alpa;
using namespace alpa::testing;
using pipeline::make_schedule;

namespace {

constexpr int kStages[] = {2, 3, 4, 6, 8, 16, 32};
constexpr int kMicroBatches[] = {1, 2, 4, 8, 16, 32, 64, 128};

std::string played(ScheduleKind kind, int meshes, int micro_batches, int stages_per_mesh = 1) {
  return fmt::format(
      "{} {}", name_of(kind),
      to_string(pipeline::play(make_schedule(kind, meshes, micro_batches, stages_per_mesh))));
}

/// The cases that Alpa 0.2's schedules list when they are printed (alpa/pipeline_parallel/
/// schedules.py; its name for 1f1b_overlap is 1f1b_overlap_friendly).
constexpr const char* kAlpaTimelines = R"(gpipe mesh 2 mb 4 clocks 11
  m0: F0 F1 F2 F3 . . B0 B1 B2 B3 A3
  m1: . F0 F1 F2 F3 B0 B1 B2 B3 . A3
  max in flight [4, 4]
gpipe mesh 3 mb 4 clocks 13
  m0: F0 F1 F2 F3 . . . . B0 B1 B2 B3 A3
  m1: . F0 F1 F2 F3 . . B0 B1 B2 B3 . A3
  m2: . . F0 F1 F2 F3 B0 B1 B2 B3 . . A3
  max in flight [4, 4, 4]
gpipe mesh 4 mb 8 clocks 23
  m0: F0 F1 F2 F3 F4 F5 F6 F7 . . . . . . B0 B1 B2 B3 B4 B5 B6 B7 A7
  m1: . F0 F1 F2 F3 F4 F5 F6 F7 . . . . B0 B1 B2 B3 B4 B5 B6 B7 . A7
  m2: . . F0 F1 F2 F3 F4 F5 F6 F7 . . B0 B1 B2 B3 B4 B5 B6 B7 . . A7
  m3: . . . F0 F1 F2 F3 F4 F5 F6 F7 B0 B1 B2 B3 B4 B5 B6 B7 . . . A7
  max in flight [8, 8, 8, 8]
1f1b mesh 2 mb 4 clocks 11
  m0: F0 F1 . B0 F2 B1 F3 B2 . B3 A3
  m1: . F0 B0 F1 B1 F2 B2 F3 B3 . A3
  max in flight [2, 1]
1f1b mesh 3 mb 4 clocks 13
  m0: F0 F1 F2 . . B0 F3 B1 . B2 . B3 A3
  m1: . F0 F1 . B0 F2 B1 F3 B2 . B3 . A3
  m2: . . F0 B0 F1 B1 F2 B2 F3 B3 . . A3
  max in flight [3, 2, 1]
1f1b mesh 4 mb 8 clocks 23
  m0: F0 F1 F2 F3 . . . B0 F4 B1 F5 B2 F6 B3 F7 B4 . B5 . B6 . B7 A7
  m1: . F0 F1 F2 . . B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 . B6 . B7 . A7
  m2: . . F0 F1 . B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 . B7 . . A7
  m3: . . . F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 . . . A7
  max in flight [4, 3, 2, 1]
1f1b_overlap mesh 2 mb 4 clocks 11
  m0: F0 F1 F2 B0 F3 B1 . B2 . B3 A3
  m1: . F0 B0 F1 B1 F2 B2 F3 B3 . A3
  max in flight [3, 1]
1f1b_overlap mesh 3 mb 4 clocks 13
  m0: F0 F1 F2 F3 . B0 . B1 . B2 . B3 A3
  m1: . F0 F1 F2 B0 F3 B1 . B2 . B3 . A3
  m2: . . F0 B0 F1 B1 F2 B2 F3 B3 . . A3
  max in flight [4, 3, 1]
1f1b_overlap mesh 4 mb 8 clocks 23
  m0: F0 F1 F2 F3 F4 F5 F6 B0 F7 B1 . B2 . B3 . B4 . B5 . B6 . B7 A7
  m1: . F0 F1 F2 F3 F4 B0 F5 B1 F6 B2 F7 B3 . B4 . B5 . B6 . B7 . A7
  m2: . . F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 . B6 . B7 . . A7
  m3: . . . F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 . . . A7
  max in flight [7, 5, 3, 1]
inference mesh 2 mb 4 clocks 6
  m0: F0 F1 F2 F3 . A3
  m1: . F0 F1 F2 F3 A3
  max in flight [4, 4]
inference mesh 3 mb 4 clocks 7
  m0: F0 F1 F2 F3 . . A3
  m1: . F0 F1 F2 F3 . A3
  m2: . . F0 F1 F2 F3 A3
  max in flight [4, 4, 4]
inference mesh 4 mb 8 clocks 12
  m0: F0 F1 F2 F3 F4 F5 F6 F7 . . . A7
  m1: . F0 F1 F2 F3 F4 F5 F6 F7 . . A7
  m2: . . F0 F1 F2 F3 F4 F5 F6 F7 . A7
  m3: . . . F0 F1 F2 F3 F4 F5 F6 F7 A7
  max in flight [8, 8, 8, 8]
)";

}  // namespace

TEST_CASE("timelines equal those that Alpa executes, clock by clock") {
  std::string text;
  for (ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                            ScheduleKind::one_f_one_b_overlap, ScheduleKind::inference})
    for (const auto& [stages, micro_batches] : {std::pair(2, 4), {3, 4}, {4, 8}})
      text += played(kind, stages, micro_batches);
  CHECK(text == kAlpaTimelines);
}

TEST_CASE("training takes 2 (meshes + micro-batches - 1) clocks and one to apply") {
  for (ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap})
    for (int meshes : kStages)
      for (int batches : kMicroBatches) {
        CAPTURE(name_of(kind));
        CAPTURE(meshes);
        CAPTURE(batches);
        const auto schedule = make_schedule(kind, meshes, batches);
        CHECK(pipeline::play(schedule).clocks == 2 * (meshes + batches - 1) + 1);
      }
}

TEST_CASE("inference takes meshes + micro-batches - 1 clocks and one to apply") {
  for (int meshes : kStages)
    for (int batches : kMicroBatches)
      CHECK(pipeline::play(pipeline::inference(meshes, batches)).clocks == meshes + batches);
}

TEST_CASE("every mesh runs each region of each micro-batch once, apply last") {
  for (ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                            ScheduleKind::one_f_one_b_overlap, ScheduleKind::inference})
    for (const auto& runs : make_schedule(kind, 3, 4)) {
      std::set<std::pair<Region, int>> seen;
      for (const pipeline::RegionRun& run : runs)
        CHECK(seen.insert({run.region, run.micro_batch}).second);
      CHECK(seen.size() == (kind == ScheduleKind::inference ? 5 : 9));
      CHECK(runs.back() == pipeline::RegionRun{Region::apply, 0});
    }
}

TEST_CASE("micro-batches in flight are as few as each schedule says") {
  for (int n : kStages)
    for (int m : kMicroBatches)
      for (int i = 0; i < n; ++i) {
        const auto in_flight = [&](ScheduleKind kind) {
          return pipeline::play(make_schedule(kind, n, m)).in_flight[i];
        };
        CHECK(in_flight(ScheduleKind::gpipe) == m);
        CHECK(in_flight(ScheduleKind::one_f_one_b) == std::min(m, n - i));
        CHECK(in_flight(ScheduleKind::one_f_one_b_overlap) == std::min(m, 2 * (n - i) - 1));
        CHECK(in_flight(ScheduleKind::inference) == m);
      }
}

TEST_CASE("interleaved 1F1B divides the bubble of 1F1B by the stages per mesh (arXiv 2104.04473)") {
  constexpr int kForward = 2, kBackward = 3, kApply = 1;
  for (int p : {1, 2, 3, 4, 8})
    for (int v : {2, 3, 4})
      for (int m : {p, 2 * p, 5 * p}) {
        CAPTURE(p);
        CAPTURE(v);
        CAPTURE(m);
        // A stage takes 1 / v of what it takes with one stage per mesh.
        const int ideal = m * v * (kForward + kBackward), bubble = (p - 1) * (kForward + kBackward);
        const auto timeline = pipeline::play(pipeline::interleaved_one_f_one_b(p, v, m),
                                             {kForward, kBackward, 0, kApply});
        CHECK(timeline.clocks == ideal + bubble + kApply);
        const auto plain =
            pipeline::play(pipeline::one_f_one_b(p, m), {v * kForward, v * kBackward, 0, kApply});
        CHECK(plain.clocks == ideal + v * bubble + kApply);
        for (int i = 0; i < p; ++i)
          CHECK(timeline.in_flight[i] == std::min(m * v, 2 * (p - i - 1) + (v - 1) * p + 1));
      }
  CHECK(played(ScheduleKind::interleaved_one_f_one_b, 2, 4, 2) ==
        "interleaved_1f1b mesh 2 mb 4 clocks 19\n"
        "  m0: F0 F1 F0/1 F1/1 F2 B0/1 F3 B1/1 F2/1 B0 F3/1 B1 . B2/1 . B3/1 B2 B3 A3\n"
        "  m1: . F0 F1 F0/1 B0/1 F1/1 B1/1 F2 B0 F3 B1 F2/1 B2/1 F3/1 B3/1 B2 B3 . A3\n"
        "  max in flight [5, 3]\n");
}

TEST_CASE("interleaved 1F1B takes any number of micro-batches, a last group of fewer too") {
  CHECK(to_string(pipeline::interleaved_one_f_one_b(2, 2, 3)) ==
        "F0 F1 F0/1 F1/1 F2 B0/1 B1/1 F2/1 B0 B1 B2/1 B2 apply\n"
        "F0 F1 F0/1 B0/1 F1/1 B1/1 F2 B0 B1 F2/1 B2/1 B2 apply\n");
  for (int p = 1; p <= 6; ++p)
    for (int v = 2; v <= 4; ++v)
      for (int m = 1; m <= 3 * p + 1; ++m) {
        CAPTURE(p);
        CAPTURE(v);
        CAPTURE(m);
        const auto schedule = pipeline::interleaved_one_f_one_b(p, v, m);
        const auto timeline = pipeline::play(schedule, {1, 2, 0, 0});
        CHECK(timeline.complete);
        CHECK(timeline.micro_batches == m);
        // No slower, and no more in flight, than with a whole last group.
        const auto whole = pipeline::play(
            pipeline::interleaved_one_f_one_b(p, v, (m + p - 1) / p * p), {1, 2, 0, 0});
        CHECK(timeline.clocks <= whole.clocks);
        for (int i = 0; i < p; ++i) {
          CHECK(timeline.in_flight[i] <= whole.in_flight[i]);
          CHECK(schedule[i].size() == 2 * m * v + 1);
        }
      }
}

TEST_CASE("rounds keep no more micro-batches in flight than one of them") {
  for (ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap,
        ScheduleKind::zero_bubble, ScheduleKind::interleaved_one_f_one_b})
    for (int n : {1, 2, 4})
      for (int m = 1; m <= 9; ++m)
        for (int at_once = 1; at_once <= 5; ++at_once) {
          CAPTURE(name_of(kind));
          CAPTURE(n);
          CAPTURE(m);
          CAPTURE(at_once);
          const int chunks = kind == ScheduleKind::interleaved_one_f_one_b ? 2 : 1;
          const auto timeline =
              pipeline::play(pipeline::make_schedule(kind, n, m, chunks, at_once));
          CHECK(timeline.complete);
          CHECK(timeline.micro_batches == m);
          const auto round = pipeline::play(pipeline::make_schedule(kind, n, at_once, chunks));
          for (int i = 0; i < n; ++i) CHECK(timeline.in_flight[i] <= round.in_flight[i]);
        }
  CHECK(to_string(pipeline::make_schedule(ScheduleKind::gpipe, 2, 3, 1, 2)) ==
        "F0 F1 B0 B1 F2 B2 apply\nF0 F1 B0 B1 F2 B2 apply\n");
}

TEST_CASE("interleaved 1F1B needs several stages per mesh") {
  CHECK(error_of([] { pipeline::make_schedule(ScheduleKind::interleaved_one_f_one_b, 4, 8); }) ==
        "interleaved_1f1b: stages per mesh: 1; give at least 2, or choose 1f1b");
  CHECK(error_of([] { pipeline::interleaved_one_f_one_b(0, 2, 6); }) ==
        "interleaved_1f1b: 0 stages and 6 micro-batches; give at least one of each");
}

TEST_CASE("zero_bubble has the bubble and the memory of ZB-H1 (arXiv 2401.10241)") {
  // Clocks of forward, gradients of inputs, gradients of weights.
  constexpr int kClocks[][3] = {{1, 1, 1}, {2, 2, 1}, {3, 4, 2}, {10, 11, 9}};
  for (const auto& [f, b, w] : kClocks)
    for (int p : {1, 2, 3, 4, 8})
      for (int m : {p, p + 1, 4 * p}) {
        CAPTURE(f);
        CAPTURE(p);
        CAPTURE(m);
        const int ideal = m * (f + b + w);
        const auto split = pipeline::play(pipeline::zero_bubble(p, m), {f, b, w, 0});
        const auto whole = pipeline::play(pipeline::one_f_one_b(p, m), {f, b + w, 0, 0});
        CHECK(split.clocks - ideal == (p - 1) * (f + b - w));
        CHECK(whole.clocks - ideal == (p - 1) * (f + b + w));
        CHECK(split.in_flight == std::vector<int>(p, whole.in_flight[0]));
      }
  CHECK(played(ScheduleKind::zero_bubble, 3, 4) ==
        "zero_bubble mesh 3 mb 4 clocks 15\n"
        "  m0: F0 F1 F2 . . B0 W0 F3 B1 W1 B2 W2 B3 W3 A3\n"
        "  m1: . F0 F1 . B0 F2 B1 W0 F3 B2 W1 B3 W2 W3 A3\n"
        "  m2: . . F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3 A3\n"
        "  max in flight [3, 3, 3]\n");
}

TEST_CASE("runs take as long as their clocks say") {
  const auto timeline = pipeline::play(pipeline::one_f_one_b(2, 2), {.backward = 2});
  CHECK(to_string(timeline) ==
        "mesh 2 mb 2 clocks 10\n"
        "  m0: F0 F1 . . B0 B0 . B1 B1 A1\n"
        "  m1: . F0 B0 B0 F1 B1 B1 . . A1\n"
        "  max in flight [2, 1]\n");
}

TEST_CASE("a schedule whose runs wait for each other is not complete") {
  const pipeline::Timeline timeline = pipeline::play(waiting_schedule());
  CHECK_FALSE(timeline.complete);
  CHECK(timeline.meshes[0].size() == 1);
  CHECK(pipeline::play(pipeline::gpipe(2, 2)).complete);
}

TEST_CASE("schedules have names that parse") {
  std::set<std::string_view> names;
  for (ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap,
        ScheduleKind::interleaved_one_f_one_b, ScheduleKind::zero_bubble,
        ScheduleKind::inference}) {
    CHECK(parse_schedule(name_of(kind)) == kind);
    names.insert(name_of(kind));
  }
  CHECK(names == std::set<std::string_view>{"1f1b", "1f1b_overlap", "gpipe", "inference",
                                            "interleaved_1f1b", "zero_bubble"});
  CHECK(error_of([] { parse_schedule("pipedream"); }) ==
        "schedule: \"pipedream\" is not known; known are gpipe, 1f1b, 1f1b_overlap, "
        "interleaved_1f1b, zero_bubble, inference");
  CHECK(error_of([] { pipeline::make_schedule(ScheduleKind::gpipe, 2, 4, 2); }) ==
        "gpipe: 2 stages per mesh; give one, or choose interleaved_1f1b, which runs several");
}

}  // namespace timeline_test
