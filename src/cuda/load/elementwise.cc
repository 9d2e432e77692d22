// src/cuda/load/elementwise.cc — loads elementwise operators and fused programs,
// interpreted or compiled at run time
#include <memory>
#include <optional>
#include <vector>

#include "kernels/elementwise.h"
#include "src/cuda/compile_kernel.h"
#include "src/cuda/fused_kernel.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

/// A program of fewer steps on fewer elements is interpreted: a compilation takes a tenth of a
/// second. On an H200 a step of an interpreted program is 0.7 µs of latency, whatever the number of
/// elements, and a launch takes 2 µs: 14 programs of some 20 steps on 1,280 elements took 0.2 ms.
constexpr std::size_t kCompiledSteps = 4;
constexpr std::int64_t kCompiledElements = 64 * 1024;

ElementwiseProgram program_of(const OpDef& op, std::size_t operands) {
  const auto code = static_cast<ElementwiseOp>(op.elementwise);
  const int arity = info(code).arity;
  invariant(static_cast<int>(operands) == arity, "{}: {} operands", op.name, operands);
  if (code != ElementwiseOp::copy) return one_step(op.elementwise, arity);
  ElementwiseProgram copy;  // cast is a copy too: storing converts
  copy.num_inputs = 1;
  copy.outputs = {0};
  return copy;
}

void point(const KernelCall& call, const void** inputs, void** outputs) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) inputs[i] = call.inputs[i].data;
  for (std::size_t o = 0; o < call.outputs.size(); ++o) outputs[o] = call.outputs[o].data;
}

Launch interpreted(const ElementwiseLaunch& program) {
  return [program](const KernelCall& call, Stream stream) {
    const void* inputs[kMaxElementwiseInputs];
    void* outputs[kMaxElementwiseOutputs];
    point(call, inputs, outputs);
    check_queued(run_elementwise(program, inputs, outputs, stream),
                 "interpreted elementwise program");
  };
}

Launch compiled(const kernels::ElementwisePlan& plan, const KernelCall& call, int architecture) {
  struct Compiled {
    FusedKernel kernel;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
  };
  const auto program = std::make_shared<Compiled>(
      Compiled{FusedKernel(plan, call, architecture), std::vector<const void*>(call.inputs.size()),
               std::vector<void*>(call.outputs.size())});
  return [program](const KernelCall& now, Stream stream) {
    point(now, program->inputs.data(), program->outputs.data());
    check_queued(program->kernel.run(program->inputs.data(), program->outputs.data(), stream),
                 "compiled elementwise program");
  };
}

}  // namespace

Launch load_program(std::string_view op, ElementwiseProgram program, const KernelCall& call,
                    const Gpu& card) {
  const kernels::ElementwisePlan plan = kernels::plan_elementwise(std::move(program), call);
  if (plan.elements == 0) return [](const KernelCall&, Stream) {};
  const std::optional<ElementwiseLaunch> instructions = lower_elementwise(plan, call);
  const bool can_compile =
      card.elementwise != ElementwiseForm::interpreted && can_compile_for(card.architecture);
  const bool worthwhile = card.elementwise == ElementwiseForm::compiled ||
                          plan.elements >= kCompiledElements ||
                          plan.program.steps.size() >= kCompiledSteps;
  if (instructions && !(can_compile && worthwhile)) return interpreted(*instructions);
  require(
      can_compile,
      "{}: a program of {} inputs, {} steps and {} dimensions exceeds what the interpreting kernel "
      "takes, and this NVRTC does not compile for sm_{}; use a CUDA toolkit that knows the card",
      op, plan.program.num_inputs, plan.program.steps.size(), plan.outer.size() + 1,
      card.architecture);
  if (card.sources == nullptr) return compiled(plan, call, card.architecture);
  card.sources->push_back(elementwise_source(plan, call));
  return nullptr;
}

Launch load_elementwise(const OpDef& op, const KernelCall& call, const Gpu& card) {
  return load_program(op.name, program_of(op, call.inputs.size()), call, card);
}

Launch load_fused(const OpDef& op, const KernelCall& call, const Gpu& card) {
  return load_program(
      op.name, parse_elementwise_program(*call.attributes, static_cast<int>(call.inputs.size())),
      call, card);
}

}  // namespace alpa::cuda
