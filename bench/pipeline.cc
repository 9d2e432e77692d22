// Pipelined steps: the share in which devices wait against the formula of the schedule, and the
// step's seconds against those of one device with as many micro-batches, in turns.
//   bench_pipeline [--rounds N]
// With --on-request it reads numbers of steps of two stages from its input, a line each, and
// answers with the seconds they took; bench/peers/pipeline.py asks it and JAX in turn.
#include <alpa/alpa.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "arguments.h"
#include "interleave.h"
#include "mlp.h"
#include "on_request.h"
#include "report.h"
#include "src/base/timing.h"
#include "src/runtime/executor.h"

using namespace alpa;

namespace {

/// A step that is ready to run.
struct Runner {
  Executable executable;
  TrainState state;
  BatchData batch;

  Runner(const TrainingStep& step, const Method& method, int devices)
      : executable(parallelize(step, method, Cluster::local(devices))), state(executable.init(0)) {
    for (const BatchInput& input : step.inputs)
      batch.emplace(input.name, bench::random_array(input.type.shape));
  }

  void run() { executable.run(state, batch).metrics["loss"]; }
};

/// The share of the forward and backward part of the last step in which devices wait.
double waiting(const Executable& executable) {
  double busy = 0, end = 0, begin = 0;
  int devices = 0;
  for (const runtime::DeviceTimes& times : executable.executor().times()) {
    ++devices;
    const lower::DeviceProgram& program = executable.executor().device_program(devices - 1);
    std::size_t instructions = 0;  // of all lists but the last, which is apply
    for (std::size_t run = 0; run + 1 < program.schedule.size(); ++run)
      instructions += program.lists[program.schedule[run].list].instructions.size();
    for (std::size_t i = 0; i < instructions; ++i) {
      const runtime::TimedInstruction& timed = times.own[i];
      if (timed.instruction->kind != lower::Instruction::Kind::wait)
        busy += static_cast<double>(timed.end - timed.begin) * 1e-9;
      end = std::max(end, static_cast<double>(timed.end) * 1e-9);
      begin = begin == 0 ? static_cast<double>(timed.begin) * 1e-9
                         : std::min(begin, static_cast<double>(timed.begin) * 1e-9);
    }
  }
  return 1 - busy / ((end - begin) * devices);
}

void bubble(int stages, int micro_batches, int rounds) {
  PipeshardParallel method{.num_micro_batches = micro_batches,
                           .layers = AutoLayers{stages},
                           .stages = UniformStages{stages}};
  method.executor.record_times = true;
  method.executor.threads_per_device = 1;
  // Layers alike, so that stages take equally long.
  Runner runner(bench::mlp_step({512, 256 * micro_batches, 8}), method, stages);
  runner.run();
  std::vector<double> shares;
  for (int round = 0; round < rounds; ++round) {
    runner.run();
    shares.push_back(waiting(runner.executable));
  }
  const double formula = static_cast<double>(stages - 1) / (micro_batches + stages - 1);
  bench::print_row(fmt::format("1f1b, {} stages, {} micro-batches", stages, micro_batches),
                   {{"waiting", median(shares)},
                    {"formula", formula},
                    {"predicted", runner.executable.planned().plan.bubble},
                    {"percentage_points_apart", 100 * (median(shares) - formula)}});
}

const PipeshardParallel kTwoStages{.num_micro_batches = 16, .layers = AutoLayers{2}};

void answer() {
  Runner stages(bench::mlp_step({}), kTwoStages, 8);
  bench::answer([&] { stages.run(); });
}

void against_one_device(int rounds) {
  const TrainingStep step = bench::mlp_step({});
  Runner serial(step, Serial{.num_micro_batches = 16}, 1), stages(step, kTwoStages, 8);
  std::vector<bench::Variant> variants{
      {"dim 1024, 16 micro-batches, one device", [&] { serial.run(); }},
      {"dim 1024, 16 micro-batches, two stages on 8 devices", [&] { stages.run(); }}};
  bench::interleave(variants, rounds);
  bench::print(variants);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 7;
  bool on_request = false;
  return bench::run(argc, argv, "Waiting and seconds of pipelined steps.",
                    {cli::whole("--rounds", &rounds, "Counted rounds", 1, 1000),
                     cli::on("--on-request", &on_request, "Answer numbers of steps with seconds")},
                    [&] {
                      if (on_request) return answer();
                      for (int micro_batches : {4, 16})
                        for (int stages : {2, 4}) bubble(stages, micro_batches, rounds);
                      against_one_device(rounds);
                    });
}
