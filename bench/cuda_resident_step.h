#pragma once
/// A training step of one card with its batch in the card's memory: loaded as the executor
/// loads it, captured once, and replayed without uploads. Its instructions can be timed one by
/// one, in the order of the step.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "alpa/alpa.h"
#include "cuda_call.h"
#include "kernels/cuda/copy.h"
#include "src/cuda/dnn_plans.h"
#include "src/cuda/mesh_queue.h"
#include "src/cuda/uploads.h"
#include "src/lower/memory_plan.h"
#include "src/lower/step_counts.h"
#include "src/runtime/device_state.h"
#include "src/runtime/initialize.h"
#include "src/tensor/element.h"

namespace alpa::bench {

class ResidentStep {
 public:
  /// Loads `step` on the first card with initial parameters, uploads `batch`, and runs the step
  /// twice, so that everything is loaded before it is captured.
  /// `held_bytes`: what the card clears for each instruction before a step whose instructions are
  /// timed, so that the host is ahead of it; the default takes some 15 µs.
  ResidentStep(const TrainingStep& step, const Serial& method, const BatchData& batch,
               std::int64_t held_bytes = std::int64_t{1} << 26)
      : held_bytes_(held_bytes),
        planned_(plan_only(step, method, Cluster::local(1, "cuda"))),
        products_({.tf32 = method.executor.tf32, .measured = method.executor.tune}),
        dnn_({.tf32 = method.executor.tf32, .measured = method.executor.tune}) {
    const spmd::SpmdProgram& program = *planned_.program;
    lower::DeviceProgram lowered = lower::lower(program, 0, true, lower::memory_rules("cuda"));
    std::vector<lower::Reported> metrics = lowered.reported;
    cuda::Gpu card = first_card(products_);
    card.dnn = &dnn_;
    devices_.push_back(std::make_unique<cuda::LoadedDevice>(program, std::move(lowered), card,
                                                            std::move(metrics)));
    queue_ = std::make_unique<cuda::MeshQueue>(
        devices_, std::vector<int>{0}, std::vector<int>{0}, true,
        [](const std::vector<int>&, bool, int) -> std::unique_ptr<cuda::CollectiveGroup> {
          bug("a step of one device has no collectives");
        },
        cuda::Waiting{[] {}, [] {}});
    arena_ = cuda::allocate_device(device().program().arena_bytes);
    memory_.arenas = {static_cast<std::byte*>(arena_.get())};
    initialize_state();
    upload(step, batch);
    metrics_ = cuda::allocate_mapped(cuda::kMetricBytes * device().program().reported.size());
    device().place(memory_.arenas[0], 0, cuda::device_address(metrics_));
    for (int i = 0; i < 2; ++i) queue_->queue({0, 0}, 0, true);
    wait();
    capture();
  }

  /// Replays the step and waits.
  void run(int steps) {
    for (int i = 0; i < steps; ++i)
      cuda::check(cudaGraphLaunch(graph_.get(), device().compute()), "cudaGraphLaunch");
    wait();
  }

  /// Of the last step that was replayed.
  double loss() const {
    const auto& reported = program().reported;
    const auto at = std::ranges::find_if(reported, [&](const lower::Reported& metric) {
      return graph().metrics[metric.metric].name == "loss";
    });
    invariant(at != reported.end(), "the step reports its loss");
    const double loss = load_element(
        program().buffers[at->buffer].type.dtype,
        static_cast<const std::byte*>(metrics_.get()) + at->metric * cuda::kMetricBytes);
    require(std::isfinite(loss), "the loss of the resident step is {}", loss);
    return loss;
  }

  /// Kernels, copies and fills that a step launches.
  std::size_t launches() const { return launches_; }

  /// Runs the step once, kernel by kernel, and waits.
  void run_uncaptured() {
    queue_->queue({0, 0}, 0, false);
    wait();
  }

  const CompiledStep& planned() const { return planned_; }
  const Graph& graph() const { return planned_.program->graph; }
  const lower::DeviceProgram& program() const { return device().program(); }

  /// What the instructions of one name take in a step.
  struct Kernels {
    int instructions = 0;
    double seconds = 0;           ///< without the gaps between them; rather too small
    double with_gaps = 0;         ///< when each waits for the one before, as the host sees it
    double bytes = 0, flops = 0;  ///< counted as by `count_step`
  };
  using NameOf = std::string (*)(const Graph&, const lower::DeviceProgram&,
                                 const lower::Instruction&);

  /// The name of an instruction's operator; "" for loads, copies and fills.
  static std::string operator_of(const Graph& graph, const lower::DeviceProgram&,
                                 const lower::Instruction& instruction) {
    if (instruction.kind != lower::Instruction::Kind::compute) return "";
    return std::string(graph.nodes[instruction.node].op->name);
  }

  /// Seconds of the kernels of a step, by name: the
  /// median over `rounds` steps of the time between events around each instruction, less the
  /// time that a kernel of one element takes between such events. The instructions run in the
  /// order of the step, so what lies in the cache is what lies there in a step. With each gap
  /// the time of that smallest kernel is subtracted, too: the gaps of a step are at most what
  /// the sum leaves of its time.
  std::map<std::string, Kernels> kernels(int rounds, NameOf name_of = operator_of) {
    const double overhead = seconds_of_smallest_kernel(rounds);
    const std::vector<double> seconds = seconds_of_instructions(rounds);
    std::map<std::string, Kernels> kernels;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const lower::Instruction& instruction = *operations()[i].instruction;
      Kernels& of_name = kernels[name_of(graph(), program(), instruction)];
      ++of_name.instructions;
      of_name.seconds += std::max(0.0, seconds[i] - overhead);
      of_name.with_gaps += seconds[i];
      const lower::KindCount count =
          lower::count_of(graph(), program(), instruction).value_or(lower::KindCount{});
      of_name.bytes += count.bytes, of_name.flops += count.flops;
    }
    return kernels;
  }

 private:
  struct Memory : runtime::DeviceMemory {
    std::int64_t bytes_in_use(int) const override { return 0; }
  };

  cuda::LoadedDevice& device() const { return *devices_[0]; }
  std::vector<cuda::Operation>& operations() const {
    invariant(device().program().schedule.size() == 1, "a step of one micro-batch has one list");
    return device().list(0);
  }
  void wait() const {
    cuda::check(cudaStreamSynchronize(device().compute()), "cudaStreamSynchronize");
  }
  void record(const cuda::EventHandle& event) const {
    cuda::check(cudaEventRecord(event.get(), device().compute()), "cudaEventRecord");
  }

  /// Median time between events around each instruction.
  std::vector<double> seconds_of_instructions(int rounds) {
    std::vector<cuda::EventHandle> events;
    for (std::size_t i = 0; i <= operations().size(); ++i) events.push_back(cuda::make_event(true));
    std::vector<std::vector<double>> seconds(operations().size());
    for (int round = -1; round < rounds; ++round) {
      hold_back();
      record(events[0]);
      for (std::size_t i = 0; i < operations().size(); ++i) {
        device().queue(operations()[i]);
        record(events[i + 1]);
      }
      wait();
      for (std::size_t i = 0; round >= 0 && i < seconds.size(); ++i)
        seconds[i].push_back(cuda::seconds_between(events[i].get(), events[i + 1].get()));
    }
    std::vector<double> medians;
    for (const std::vector<double>& of_rounds : seconds) medians.push_back(median(of_rounds));
    return medians;
  }

  void capture() {
    const cuda::Stream origin = device().compute();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cuda::check(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal),
                "cudaStreamBeginCapture");
    queue_->queue({0, 0}, 0, false);
    device().join(origin);
    cuda::check(cudaStreamEndCapture(origin, &graph), "cudaStreamEndCapture");
    cuda::check(cudaGraphGetNodes(graph, nullptr, &launches_), "cudaGraphGetNodes");
    cuda::check(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority),
                "cudaGraphInstantiate");
    graph_.reset(executable);
    cuda::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }

  /// Zeros are cleared on the card, everything else is drawn in one pinned buffer.
  void initialize_state() {
    const Graph& graph = planned_.program->graph;
    ThreadTeam team(usable_cores());
    cuda::PinnedBlock host;
    std::int64_t held = 0;
    for (const Input& input : graph.inputs) {
      if (input.kind != InputKind::state) continue;
      const int b = device().program().buffer_of_value[input.value];
      const lower::Buffer& buffer = device().program().buffers[b];
      const std::int64_t bytes = buffer.type.bytes();
      std::byte* const there = device().address(memory_.arenas[0], b);
      const Attributes& begins = graph.producer(input.value).attributes;
      if (begins.string("init") == "constant" && begins.real("a") == 0) {
        cuda::check(cudaMemset(there, 0, bytes), "cudaMemset");
        continue;
      }
      if (bytes > held) host = cuda::allocate_pinned(held = bytes);
      runtime::initialize(
          {static_cast<std::byte*>(host.get()), buffer.type, buffer.offset, buffer.global_shape},
          graph, input, 0, team);
      cuda::check(cudaMemcpy(there, host.get(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    }
  }

  void upload(const TrainingStep& step, const BatchData& batch) {
    constexpr std::int64_t kStep = 1000;  // Adam's first steps are its largest
    const std::map<std::string, double> scalars = step.scalars(kStep);
    runtime::StepInputs inputs;
    inputs.step = kStep;
    for (const Input& input : planned_.program->graph.inputs) {
      inputs.batch.push_back(input.kind == InputKind::batch ? batch.at(input.name).data()
                                                            : nullptr);
      inputs.scalars.push_back(input.kind == InputKind::scalar ? scalars.at(input.name) : 0);
    }
    cuda::Uploads uploads(*planned_.program, devices_);
    uploads.pack(inputs, 0);
    uploads.queue(0, memory_, {device().compute()});
    wait();
  }

  void hold_back() const {
    bench::hold_back(held_bytes_ * static_cast<std::int64_t>(operations().size()),
                     device().compute());
  }

  double seconds_of_smallest_kernel(int rounds) {
    const cuda::DeviceBlock one = cuda::allocate_device(4);
    std::vector<cuda::EventHandle> events;
    for (int i = 0; i <= rounds; ++i) events.push_back(cuda::make_event(true));
    hold_back();
    record(events[0]);
    for (int i = 0; i < rounds; ++i) {
      cuda::check(
          static_cast<cudaError_t>(cuda::run_fill(one.get(), f32, 1, 1, device().compute())),
          "run_fill");
      record(events[i + 1]);
    }
    wait();
    std::vector<double> seconds;
    for (int i = 0; i < rounds; ++i)
      seconds.push_back(cuda::seconds_between(events[i].get(), events[i + 1].get()));
    return median(seconds);
  }

  std::int64_t held_bytes_;
  CompiledStep planned_;
  cuda::Matmuls products_;
  cuda::DnnPlans dnn_;
  cuda::LoadedDevices devices_;
  std::unique_ptr<cuda::MeshQueue> queue_;
  cuda::DeviceBlock arena_;
  cuda::PinnedBlock metrics_;
  Memory memory_;
  cuda::GraphExec graph_;
  std::size_t launches_ = 0;
};

}  // namespace alpa::bench
