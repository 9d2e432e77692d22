// kernels/cuda/elementwise_lower.cc — lowers elementwise programs to
// instructions of the interpreter
#include "kernels/cuda/elementwise_lower.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace alpa::cuda {
namespace {

/// An instruction before values have places: operands are the program's registers, -1 when unused.
struct Draft {
  int op, a, b, c;
  int result;  ///< register
  int output = -1;
};

/// Loads come right before the first step that reads them; all outputs but that of the last step
/// are written at the end, by copies.
std::vector<Draft> draft(const ElementwiseProgram& program) {
  std::vector<Draft> drafts;
  std::vector<bool> loaded(static_cast<std::size_t>(program.num_inputs));
  const auto load = [&](int r) {
    if (r < 0 || r >= program.num_inputs || loaded[r]) return;
    drafts.push_back({kLoadCode, r, -1, -1, r});
    loaded[r] = true;
  };
  for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
    const ElementwiseStep& step = program.steps[s];
    for (int r : {step.a, step.b, step.c}) load(r);
    drafts.push_back({step.op, step.a, step.b, step.c, program.register_of_step(s)});
  }
  for (int r : program.outputs) load(r);
  const int last = static_cast<int>(drafts.size()) - 1;
  for (int o = 0; o < static_cast<int>(program.outputs.size()); ++o)
    if (last >= 0 && program.outputs[o] == drafts[last].result)
      drafts[last].output = o;
    else
      drafts.push_back({static_cast<int>(ElementwiseOp::copy), program.outputs[o], -1, -1, -1, o});
  return drafts;
}

/// Gives registers places. A value stays with the next instruction; one that is read
/// later gets a slot until then.
class Places {
 public:
  Places(const ElementwiseProgram& program, const std::vector<Draft>& drafts)
      : program_(program),
        made_(static_cast<std::size_t>(program.num_registers()), -2),
        last_(made_.size(), -1),
        slot_(made_.size(), -1) {
    for (int i = 0; i < static_cast<int>(drafts.size()); ++i) {
      if (drafts[i].op != kLoadCode)
        for (int r : {drafts[i].a, drafts[i].b, drafts[i].c})
          if (r >= 0) last_[r] = i;
      if (drafts[i].result >= 0) made_[drafts[i].result] = i;
    }
  }

  ElementwiseOperand operand(int i, int r) const {
    if (r < 0) return {};
    const int constant = r - program_.num_inputs;
    if (constant >= 0 && constant < static_cast<int>(program_.constants.size()))
      return {OperandKind::constant, static_cast<std::uint8_t>(constant)};
    if (made_[r] == i - 1) return {OperandKind::previous, 0};
    return {OperandKind::slot, static_cast<std::uint8_t>(slot_[r])};
  }

  /// After instruction i has read r.
  void release(int i, int r) {
    if (r < 0 || last_[r] != i || slot_[r] < 0) return;
    free_.push_back(slot_[r]);
    slot_[r] = -1;
  }

  /// The slot of what instruction i made, -1 if the next instruction alone reads it.
  int keep(int i, int r) {
    if (r < 0 || last_[r] <= i + 1) return -1;
    if (free_.empty()) free_.push_back(count_++);
    slot_[r] = free_.back();
    free_.pop_back();
    return slot_[r];
  }

  int count() const { return count_; }

 private:
  const ElementwiseProgram& program_;
  std::vector<int> made_, last_,
      slot_;  ///< by register: instruction that makes it, reads it last; its slot now
  std::vector<int> free_;
  int count_ = 0;
};

bool within_limits(const kernels::ElementwisePlan& plan, const std::vector<Draft>& drafts) {
  return plan.program.num_inputs <= kMaxElementwiseInputs &&
         plan.program.outputs.size() <= static_cast<std::size_t>(kMaxElementwiseOutputs) &&
         plan.program.constants.size() <= static_cast<std::size_t>(kMaxElementwiseConstants) &&
         drafts.size() <= static_cast<std::size_t>(kMaxInstructions) &&
         plan.outer.size() <= static_cast<std::size_t>(kMaxDims);
}

/// Whether packs that begin at multiples of their length are neighbours in
/// memory, at such multiples too.
bool is_packed(const kernels::ElementwisePlan& plan, const kernels::ElementwiseInput& input) {
  const std::int64_t pack = pack_of(plan.wide);
  return input.inner_stride == 1 && plan.row % pack == 0 &&
         std::all_of(input.strides.begin(), input.strides.end(),
                     [&](std::int64_t s) { return s % pack == 0; });
}

ElementwiseSource source_of(const kernels::ElementwisePlan& plan,
                            const kernels::ElementwiseInput& input, DType dtype) {
  ElementwiseSource source;
  source.dtype = dtype;
  source.kind = input.kind == kernels::InputAccess::flat     ? ElementwiseSource::flat
                : input.kind == kernels::InputAccess::scalar ? ElementwiseSource::scalar
                                                             : ElementwiseSource::rows;
  if (source.kind != ElementwiseSource::rows) return source;
  source.packed = is_packed(plan, input);
  source.inner_stride = static_cast<std::uint8_t>(input.inner_stride);
  std::copy(input.strides.begin(), input.strides.end(), source.stride);
  return source;
}

void place_instructions(ElementwiseLaunch& launch, const ElementwiseProgram& program,
                        const std::vector<Draft>& drafts) {
  Places places(program, drafts);
  for (int i = 0; i < static_cast<int>(drafts.size()); ++i) {
    const Draft& d = drafts[i];
    Instruction& out = launch.instructions[i];
    out.op = static_cast<std::uint8_t>(d.op);
    if (d.op == kLoadCode) {
      out.a.index = static_cast<std::uint8_t>(d.a);
    } else {
      out.a = places.operand(i, d.a), out.b = places.operand(i, d.b),
      out.c = places.operand(i, d.c);
      for (int r : {d.a, d.b, d.c}) places.release(i, r);
    }
    out.slot = static_cast<std::int8_t>(places.keep(i, d.result));
    out.output = static_cast<std::int8_t>(d.output);
  }
  launch.num_instructions = static_cast<int>(drafts.size());
  launch.num_slots = places.count();
}

}  // namespace

std::optional<ElementwiseLaunch> lower_elementwise(const kernels::ElementwisePlan& plan,
                                                   const KernelCall& call) {
  const std::vector<Draft> drafts = draft(plan.program);
  if (!within_limits(plan, drafts)) return std::nullopt;
  ElementwiseLaunch launch;
  place_instructions(launch, plan.program, drafts);
  if (launch.num_slots > kMaxSlots) return std::nullopt;
  launch.elements = plan.elements;
  launch.row = plan.row;
  launch.wide = plan.wide;
  launch.outer_dims = static_cast<int>(plan.outer.size());
  std::copy(plan.outer.begin(), plan.outer.end(), launch.outer);
  std::copy(plan.program.constants.begin(), plan.program.constants.end(), launch.constants);
  launch.num_inputs = plan.program.num_inputs;
  for (int i = 0; i < launch.num_inputs; ++i)
    launch.inputs[i] = source_of(plan, plan.inputs[i], call.inputs[i].type.dtype);
  launch.num_outputs = static_cast<int>(call.outputs.size());
  for (int o = 0; o < launch.num_outputs; ++o) launch.outputs[o].dtype = call.outputs[o].type.dtype;
  return launch;
}

}  // namespace alpa::cuda
