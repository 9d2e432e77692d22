// Devices of several processes against the same devices of one: losses and state are equal to the
// bit. Processes are threads with a wire in memory; scripts/processes_check does it under mpirun.
#include <doctest/doctest.h>

#include "equivalence/zoo.h"
#include "support/processes.h"

namespace processes_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// The method with options that all of these tests have.
Method in_micro_batches(Method method, int micro_batches) {
  std::visit(
      [&](auto& options) {
        options.num_micro_batches = micro_batches;
        options.solver_seconds = 100;  // plans are the same only if planning ends by itself
      },
      method);
  return method;
}

void check_like_one_process(const std::string& model, const Method& given, int devices,
                            const std::vector<int>& processes, int micro_batches = 1,
                            Precision precision = Precision::as_written) {
  const Method method = in_micro_batches(given, micro_batches);
  const ZooOutcome one = train(zoo_model(model), method, Cluster::local(devices), precision);
  for (const int size : processes) {
    CAPTURE(size);
    std::vector<ZooOutcome> outcomes(size);
    const std::vector<std::string> errors = run_processes(size, [&](int rank) {
      outcomes[rank] = train(zoo_model(model), method, Cluster::local(devices), precision);
    });
    for (int rank = 0; rank < size; ++rank) {
      CAPTURE(rank);
      CHECK(errors[rank] == "");
      CHECK(outcomes[rank].losses == one.losses);
      CHECK(outcomes[rank].state == one.state);
    }
  }
}

}  // namespace

TEST_CASE("a GPT on 8 devices has the same bits in 1, 2, 4 and 8 processes") {
  check_like_one_process("gpt", DataParallel{}, 8, {2, 8});
  check_like_one_process("gpt", Zero3Parallel{}, 8, {2, 4, 8});
  check_like_one_process("gpt", ShardParallel{.mesh_shape = {2, 4}}, 8, {2, 4, 8}, 2);
  check_like_one_process("gpt", ShardParallel{}, 8, {4}, 1, Precision::bf16_mixed);
}

TEST_CASE("devices that do not fill powers of two: 7 as 7 processes, 6 as 2 and 3, 5 as 2") {
  check_like_one_process("gpt", DataParallel{}, 7, {7});
  check_like_one_process("bert", Zero2Parallel{}, 6, {2, 3});
  check_like_one_process("gpt", ShardParallel{}, 5, {2});
}

TEST_CASE("pipelines of every schedule have the same bits in several processes") {
  for (const auto schedule : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                              ScheduleKind::one_f_one_b_overlap, ScheduleKind::zero_bubble})
    check_like_one_process("gpt", PipeshardParallel{.schedule = schedule}, 4, {2, 4}, 4);
  check_like_one_process("gpt",
                         PipeshardParallel{.layers = AutoLayers{4},
                                           .stages = UniformStages{4, 2},
                                           .schedule = ScheduleKind::interleaved_one_f_one_b},
                         4, {2, 4}, 4);
}

TEST_CASE("experts, convolutions and grouped heads have the same bits in several processes") {
  check_like_one_process("moe", ShardParallel{}, 4, {2, 4});
  check_like_one_process("wide_resnet", ShardParallel{.mesh_shape = {2, 2}}, 4, {2, 4});
  check_like_one_process("llama", ShardParallel{}, 3, {3});
}

}  // namespace processes_test
