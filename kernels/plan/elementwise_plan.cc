// kernels/plan/elementwise_plan.cc — plans an elementwise program: element types,
// strides of inputs, blocks
#include "kernels/plan/elementwise_plan.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/elementwise.h"
#include "kernels/plan/vector_bytes.h"

namespace alpa::kernels {
namespace {

bool is_wide(const ElementwiseProgram& program, const KernelCall& call) {
  const auto wide = [](const KernelTensor& t) { return needs_double(t.type.dtype); };
  return std::any_of(call.inputs.begin(), call.inputs.end(), wide) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), wide) ||
         std::any_of(program.steps.begin(), program.steps.end(), [](const ElementwiseStep& s) {
           return s.op == static_cast<int>(ElementwiseOp::cast_f64);
         });
}

// ---- iteration space
// -----------------------------------------------------------------------------------------

/// strides[i][d]: step in elements of input i when result dimension d advances by one.
using Strides = std::vector<std::vector<std::int64_t>>;

std::vector<std::int64_t> strides_in(const Shape& space, const Shape& shape,
                                     const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(space.size(), 0);
  std::int64_t stride = 1;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    invariant(shape[d] == 1 || shape[d] == space.at(dims[d]),
              "elementwise: input {} does not broadcast to {}", to_string(shape), to_string(space));
    if (shape[d] != 1) strides[dims[d]] = stride;
    stride *= shape[d];
  }
  return strides;
}

Strides input_strides(const ElementwiseProgram& program, const KernelCall& call,
                      const Shape& space) {
  Strides all;
  auto mapped = program.dims.begin();
  for (const KernelTensor& input : call.inputs) {
    const Shape& shape = input.type.shape;
    std::vector<std::int64_t> dims(shape.size());
    for (std::size_t d = 0; d < dims.size(); ++d)
      dims[d] = program.dims.empty() ? static_cast<std::int64_t>(space.size() - shape.size() + d)
                                     : *mapped++;
    all.push_back(strides_in(space, shape, dims));
  }
  return all;
}

/// Whether advancing dimension `outer` by one equals advancing `inner` by
/// its extent, for every input.
bool mergeable(const Strides& strides, int outer, int inner, std::int64_t inner_extent) {
  return std::all_of(strides.begin(), strides.end(),
                     [&](const auto& s) { return s[outer] == s[inner] * inner_extent; });
}

/// Drops dimensions of extent 1 and merges neighbours; `space` and `strides` are rewritten.
void merge_dimensions(Shape& space, Strides& strides) {
  Shape merged;
  Strides kept(strides.size());
  int last = -1;  // the dimension merged last, in the old numbering
  for (int d = 0; d < static_cast<int>(space.size()); ++d) {
    if (space[d] == 1) continue;
    const bool merge = last >= 0 && mergeable(strides, last, d, space[d]);
    if (merge)
      merged.back() *= space[d];
    else
      merged.push_back(space[d]);
    for (std::size_t i = 0; i < strides.size(); ++i) {
      if (merge)
        kept[i].back() = strides[i][d];
      else
        kept[i].push_back(strides[i][d]);
    }
    last = d;
  }
  space = merged;
  strides = kept;
}

InputAccess kind_of(const std::vector<std::int64_t>& strides, const Shape& space) {
  if (std::all_of(strides.begin(), strides.end(), [](std::int64_t s) { return s == 0; }))
    return space.empty() ? InputAccess::flat : InputAccess::scalar;
  return space.size() == 1 ? InputAccess::flat : InputAccess::rows;
}

/// A tensor that repeats nowhere is flat although another one made its dimensions stay apart.
bool is_dense(const std::vector<std::int64_t>& strides, const Shape& space) {
  std::int64_t expected = 1;
  for (int d = static_cast<int>(space.size()) - 1; d >= 0; expected *= space[d--])
    if (strides[d] != expected) return false;
  return true;
}

void plan_space(ElementwisePlan& plan, const KernelCall& call) {
  Shape space = call.outputs.at(0).type.shape;
  for (const KernelTensor& output : call.outputs)
    invariant(output.type.shape == space, "elementwise: results of shapes {} and {}",
              to_string(space), to_string(output.type.shape));
  plan.elements = num_elements(space);
  if (plan.elements == 0) return;
  Strides strides = input_strides(plan.program, call, space);
  merge_dimensions(space, strides);
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    ElementwiseInput& input = plan.inputs[i];
    input.kind = is_dense(strides[i], space) ? InputAccess::flat : kind_of(strides[i], space);
    input.strides = strides[i];
    if (space.empty()) continue;
    input.inner_stride = input.strides.back();
    invariant(input.inner_stride <= 1, "elementwise: the dimensions of input {} are not ascending",
              i);
    input.strides.pop_back();
  }
  if (space.empty()) return;
  plan.row = space.back();
  plan.outer.assign(space.begin(), space.end() - 1);
}

// ---- registers
// -----------------------------------------------------------------------------------------------

/// Appends copy steps so that results never are scalars, constants, or one of several that
/// could overwrite each other.
void copy_outputs(ElementwisePlan& plan) {
  ElementwiseProgram& program = plan.program;
  const int first_step = program.register_of_step(0);
  std::vector<bool> taken(program.num_registers() + program.outputs.size());
  for (int& output : program.outputs) {
    const bool lone_input = output < program.num_inputs && program.outputs.size() == 1 &&
                            plan.inputs[output].kind == InputAccess::flat;
    if (!lone_input && (output < first_step || taken[output])) {
      program.steps.push_back({static_cast<int>(ElementwiseOp::copy), output, -1, -1});
      output = program.num_registers() - 1;
    }
    taken[output] = true;
  }
}

/// For every register the last step that reads it; results are read by the end.
std::vector<int> last_reads(const ElementwiseProgram& program) {
  std::vector<int> last(program.num_registers(), -1);
  const int end = static_cast<int>(program.steps.size());
  for (int i = 0; i < end; ++i)
    for (int r : {program.steps[i].a, program.steps[i].b, program.steps[i].c})
      if (r >= 0) last[r] = i;
  for (int r : program.outputs) last[r] = end;
  return last;
}

/// Hands out scratch blocks and takes them back.
class Slots {
 public:
  int take() {
    if (free_.empty()) return count_++;
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(int slot) { free_.push_back(slot); }
  int count() const { return count_; }

 private:
  std::vector<int> free_;
  int count_ = 0;
};

bool needs_slot(const ElementwisePlan& plan, const ElementwiseInput& input) {
  return (input.kind != InputAccess::scalar && input.convert) ||
         (input.kind == InputAccess::rows && !plan.row_blocks);
}

/// A step may write the block of an operand that dies there: it reads each
/// vector before it writes it.
void assign_slots(ElementwisePlan& plan) {
  const ElementwiseProgram& program = plan.program;
  const std::vector<int> last = last_reads(program);
  std::vector<int> slot_of(program.num_registers(), -1);
  Slots slots;
  for (int i = 0; i < program.num_inputs; ++i) {
    plan.inputs[i].last_step = last[i];
    ElementwiseInput& input = plan.inputs[i];
    if (!needs_slot(plan, input)) continue;
    input.slot = slots.take();
    input.same_rows = input.kind == InputAccess::rows && !plan.row_blocks &&
                      std::ranges::all_of(input.strides, [](std::int64_t s) { return s == 0; });
    if (!input.same_rows) slot_of[i] = input.slot;
  }
  for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
    for (int r : {program.steps[s].a, program.steps[s].b, program.steps[s].c})
      if (r >= 0 && last[r] == s && slot_of[r] >= 0) {
        slots.give_back(slot_of[r]);
        slot_of[r] = -1;
      }
    const int result = program.register_of_step(s);
    plan.slots.push_back(slot_of[result] = slots.take());
    if (last[result] < 0) slots.give_back(plan.slots.back()), slot_of[result] = -1;
  }
  plan.num_slots = slots.count();
}

std::int64_t block_length(const ElementwisePlan& plan) {
  const std::int64_t size = plan.wide ? 8 : 4;
  const std::int64_t room = kScratchBytes - plan.program.num_inputs * kVectorBytes;
  const std::int64_t fits = plan.num_slots == 0 ? kMaxBlock : room / (plan.num_slots * size);
  const std::int64_t block = std::min(fits, kMaxBlock) / kVectorBytes * kVectorBytes;
  invariant(block > 0 && plan.program.num_registers() <= kMaxRegisters,
            "elementwise program of {} registers, {} of them alive at once, is too long",
            plan.program.num_registers(), plan.num_slots);
  return block;
}

/// Long rows are walked one by one, so that repeated inputs are read in
/// place; short ones are gathered.
bool walks_rows(const ElementwisePlan& plan) {
  const bool repeats =
      std::any_of(plan.inputs.begin(), plan.inputs.end(),
                  [](const ElementwiseInput& i) { return i.kind == InputAccess::rows; });
  return repeats && plan.row >= (plan.row % kVectorBytes == 0 ? 512 : 2048);
}

}  // namespace

ElementwisePlan plan_elementwise(ElementwiseProgram program, const KernelCall& call) {
  ElementwisePlan plan;
  plan.program = std::move(program);
  plan.wide = is_wide(plan.program, call);
  plan.inputs.resize(call.inputs.size());
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    plan.inputs[i].convert = call.inputs[i].type.dtype != (plan.wide ? f64 : f32);
  plan_space(plan, call);
  plan.row_blocks = walks_rows(plan);
  copy_outputs(plan);
  assign_slots(plan);
  plan.block = block_length(plan);
  return plan;
}

}  // namespace alpa::kernels
