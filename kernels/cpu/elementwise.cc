// kernels/cpu/elementwise.cc — runs elementwise programs block by block on the device's threads
#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cpu/block_io.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/elementwise_plan.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

/// The result of `prepare`: the plan and its constants, each repeated to the length of a vector.
struct Prepared {
  kernels::ElementwisePlan plan;
  std::vector<float> constants32;
  std::vector<double> constants64;

  template <class T>
  const T* constant(int i) const {
    constexpr int lanes = kVectorBytes / sizeof(T);
    if constexpr (sizeof(T) == 4)
      return constants32.data() + i * lanes;
    else
      return constants64.data() + i * lanes;
  }
};

bool overlap(const KernelTensor& a, const KernelTensor& b) {
  return a.data < b.data + b.type.bytes() && b.data < a.data + a.type.bytes();
}

/// Size from which a tensor exceeds a core's own cache.
constexpr std::int64_t kBeyondCaches = std::int64_t{4} << 20;

/// One thread's walk over blocks. `T` is the type of computation.
template <class T>
class Evaluator {
 public:
  Evaluator(const KernelCall& call, const Prepared& prepared, std::byte* scratch)
      : call_(call),
        plan_(prepared.plan),
        loops_(loops<T>(isa().elementwise)),
        lanes_(loops_.lanes),
        scratch_(scratch),
        prefetches_(plan_.program.steps.size() > 1 &&
                    call.outputs[0].type.bytes() >= kBeyondCaches) {
    for (int i = 0; i < plan_.program.num_inputs; ++i)
      if (plan_.inputs[i].kind == kernels::InputAccess::scalar) registers_[i] = repeat(i, 0);
    for (int i = 0; i < static_cast<int>(plan_.program.constants.size()); ++i)
      registers_[plan_.program.register_of_constant(i)] = {prepared.template constant<T>(i), 0};
    choose_direct_outputs();
  }

  /// Computes elements [begin, begin + n) of the results; n is at most plan.block.
  void block(std::int64_t begin, std::int64_t n) {
    if (prefetches_) prefetch(begin + n, n);
    const std::int64_t whole = n & -lanes_;
    if (whole > 0) part(begin, whole, false);
    if (n > whole) part(begin + whole, n - whole, true);
  }

 private:
  /// Fetches what a block reads flat and writes, so that memory works while the
  /// block before is computed.
  void prefetch(std::int64_t begin, std::int64_t n) const {
    for (std::size_t i = 0; i < call_.inputs.size(); ++i)
      if (plan_.inputs[i].kind == kernels::InputAccess::flat)
        prefetch<0>(call_.inputs[i], begin, n);
    for (const KernelTensor& output : call_.outputs) prefetch<1>(output, begin, n);
  }

  template <int kWrite>
  static void prefetch(const KernelTensor& tensor, std::int64_t begin, std::int64_t n) {
    constexpr std::int64_t kLine = 64;
    const auto size = static_cast<std::int64_t>(size_of(tensor.type.dtype));
    const std::int64_t end = std::min(tensor.type.bytes(), (begin + n) * size);
    for (std::int64_t at = begin * size; at < end; at += kLine)
      __builtin_prefetch(tensor.data + at, kWrite, 2);
  }

  T* slot(int i) const {
    return reinterpret_cast<T*>(scratch_ + plan_.program.num_inputs * kVectorBytes) +
           i * plan_.block;
  }
  /// One vector of scratch per input.
  T* vector_of(int input) const { return reinterpret_cast<T*>(scratch_ + input * kVectorBytes); }

  void load(int i, T* out, std::int64_t element, std::int64_t n) const {
    const KernelTensor& input = call_.inputs[i];
    const auto dtype = input.type.dtype;
    loops_.loads[static_cast<int>(dtype)](
        out, input.data + element * static_cast<std::int64_t>(size_of(dtype)), n);
  }

  /// Element `element` of input i as a vector of equal numbers.
  StepOperand<T> repeat(int i, std::int64_t element) const {
    T* const vector = vector_of(i);
    load(i, vector, element, 1);
    std::fill(vector + 1, vector + lanes_, vector[0]);
    return {vector, 0};
  }

  /// The step that makes a result may write it at once, unless a later step still
  /// reads an input in that memory.
  void choose_direct_outputs() {
    for (int o = 0; o < static_cast<int>(call_.outputs.size()); ++o) {
      const KernelTensor& output = call_.outputs[o];
      const int step = plan_.program.outputs[o] - plan_.program.register_of_step(0);
      bool direct = step >= 0 && output.type.dtype == (sizeof(T) == 8 ? f64 : f32);
      for (std::size_t i = 0; direct && i < call_.inputs.size(); ++i)
        direct = plan_.inputs[i].last_step <= step || !overlap(call_.inputs[i], output);
      if (direct) direct_[step] = output.template as<T>();
      stored_[o] = !direct;
    }
  }

  /// `tail`: fewer elements than a vector; then nothing outside of [begin,
  /// begin + n) may be touched.
  void part(std::int64_t begin, std::int64_t n, bool tail) {
    for (int i = 0; i < plan_.program.num_inputs; ++i)
      if (plan_.inputs[i].kind == kernels::InputAccess::flat)
        registers_[i] = dense(i, begin, n, tail);
      else if (plan_.inputs[i].kind == kernels::InputAccess::rows)
        registers_[i] = row(i, begin, n, tail);
    const std::int64_t padded = (n + lanes_ - 1) & -lanes_;
    for (int s = 0; s < static_cast<int>(plan_.program.steps.size()); ++s)
      run_step(s, begin, padded, tail);
    for (std::size_t o = 0; o < call_.outputs.size(); ++o)
      if (stored_[o] || tail) store(static_cast<int>(o), begin, n);
  }

  /// Elements [element, element + n) of input i: in place, or converted.
  StepOperand<T> dense(int i, std::int64_t element, std::int64_t n, bool tail) const {
    const kernels::ElementwiseInput& input = plan_.inputs[i];
    if (!input.convert && !tail) return {call_.inputs[i].template as<T>() + element, 1};
    T* const buffer = tail ? vector_of(i) : slot(input.slot);
    load(i, buffer, element, n);
    return {buffer, 1};
  }

  /// First element of input i in row `r` of the iteration space.
  std::int64_t row_start(int i, std::int64_t r) const {
    std::int64_t element = 0;
    for (int d = static_cast<int>(plan_.outer.size()) - 1; d >= 0; --d) {
      const Division part = divide(r, plan_.outer[d]);
      element += part.remainder * plan_.inputs[i].strides[d];
      r = part.quotient;
    }
    return element;
  }

  StepOperand<T> row(int i, std::int64_t begin, std::int64_t n, bool tail) {
    const std::int64_t r = begin / plan_.row, column = begin % plan_.row,
                       stride = plan_.inputs[i].inner_stride;
    if (column + n > plan_.row) return gather(i, r, column, n, tail);
    kept_[i] = {};  // the slot may be written
    const std::int64_t element = row_start(i, r) + column * stride;
    return stride == 0 ? repeat(i, element) : dense(i, element, n, tail);
  }

  /// n elements from column `column` of row `r` on, over several rows. Equal rows are gathered once
  /// for all blocks that begin at the same column.
  StepOperand<T> gather(int i, std::int64_t r, std::int64_t column, std::int64_t n, bool tail) {
    T* const buffer = tail ? vector_of(i) : slot(plan_.inputs[i].slot);
    const std::int64_t stride = plan_.inputs[i].inner_stride;
    if (plan_.inputs[i].same_rows && !tail) {
      if (kept_[i].column == column && kept_[i].length >= n) return {buffer, 1};
      kept_[i] = {column, n};
    }
    for (std::int64_t done = 0, length; done < n; done += length, column = 0, ++r) {
      length = std::min(plan_.row - column, n - done);
      const std::int64_t element = row_start(i, r) + column * stride;
      load(i, buffer + done, element, stride == 0 ? 1 : length);
      if (stride == 0) std::fill(buffer + done + 1, buffer + done + length, buffer[done]);
    }
    return {buffer, 1};
  }

  void run_step(int s, std::int64_t begin, std::int64_t n, bool tail) {
    const ElementwiseStep& step = plan_.program.steps[s];
    T* const out = direct_[s] != nullptr && !tail ? direct_[s] + begin : slot(plan_.slots[s]);
    const auto operand = [&](int r) { return r < 0 ? nullptr : &registers_[r]; };
    loops_.steps[step.op](out, operand(step.a), operand(step.b), operand(step.c), n);
    registers_[plan_.program.register_of_step(s)] = {out, 1};
  }

  void store(int o, std::int64_t begin, std::int64_t n) const {
    const KernelTensor& output = call_.outputs[o];
    const auto dtype = output.type.dtype;
    loops_.stores[static_cast<int>(dtype)](
        output.data + begin * static_cast<std::int64_t>(size_of(dtype)),
        registers_[plan_.program.outputs[o]].data, n);
  }

  const KernelCall& call_;
  const kernels::ElementwisePlan& plan_;
  const ElementwiseLoops<T>& loops_;
  const std::int64_t lanes_;  ///< a power of two
  std::byte* scratch_;
  StepOperand<T> registers_[kernels::kMaxRegisters];
  /// What an input's slot holds of equal rows.
  struct Kept {
    std::int64_t column = 0, length = 0;
  };
  Kept kept_[kernels::kMaxRegisters];
  const bool prefetches_;
  T* direct_[kernels::kMaxRegisters] = {};
  bool stored_[kernels::kMaxRegisters];
};

/// The blocks of a plan: lines (rows, or everything) cut into pieces of plan.block elements.
struct Blocks {
  std::int64_t line, block, per_line, count;
};
Blocks blocks_of(const kernels::ElementwisePlan& plan) {
  const std::int64_t line = plan.row_blocks ? plan.row : plan.elements;
  const std::int64_t per_line = (line + plan.block - 1) / plan.block;
  return {line, plan.block, per_line, plan.elements / line * per_line};
}

/// Calls visit(first element, length) for blocks [begin, end).
template <class Visit>
void for_blocks(const Blocks& blocks, std::int64_t begin, std::int64_t end, const Visit& visit) {
  std::int64_t start = begin / blocks.per_line * blocks.line,
               column = begin % blocks.per_line * blocks.block;
  for (std::int64_t i = begin; i < end; ++i) {
    visit(start + column, std::min(blocks.block, blocks.line - column));
    column += blocks.block;
    if (column >= blocks.line) start += blocks.line, column = 0;
  }
}

template <class T>
void run_blocks(const KernelCall& call, const Prepared& prepared) {
  constexpr std::int64_t kMinElementsPerThread = 16 * 1024;
  const Blocks blocks = blocks_of(prepared.plan);
  const std::int64_t grain = std::max<std::int64_t>(1, kMinElementsPerThread / blocks.block);
  call.team->parallel_for(blocks.count, grain, [&](std::int64_t begin, std::int64_t end) {
    alignas(kVectorBytes) std::byte scratch[kernels::kScratchBytes];
    Evaluator<T> evaluator(call, prepared, scratch);
    for_blocks(blocks, begin, end,
               [&](std::int64_t first, std::int64_t n) { evaluator.block(first, n); });
  });
}

std::shared_ptr<const void> prepare_program(const KernelCall& call, ElementwiseProgram program) {
  auto prepared = std::make_shared<Prepared>();
  for (double x : program.constants) {
    prepared->constants32.insert(prepared->constants32.end(), kVectorBytes / 4,
                                 static_cast<float>(x));
    prepared->constants64.insert(prepared->constants64.end(), kVectorBytes / 8, x);
  }
  prepared->plan = kernels::plan_elementwise(std::move(program), call);
  return prepared;
}

std::shared_ptr<const void> prepare_fused(const KernelCall& call) {
  return prepare_program(
      call, parse_elementwise_program(*call.attributes, static_cast<int>(call.inputs.size())));
}

}  // namespace

std::shared_ptr<const void> detail::prepare_elementwise(const KernelCall& call, ElementwiseOp op) {
  const int arity = info(op).arity;
  invariant(static_cast<int>(call.inputs.size()) == arity, "{}: {} operands", info(op).name,
            call.inputs.size());
  return prepare_program(call, one_step(static_cast<int>(op), arity));
}

void detail::run_elementwise(const KernelCall& call) {
  const auto& prepared = *static_cast<const Prepared*>(call.prepared.get());
  if (prepared.plan.elements == 0) return;
  if (prepared.plan.wide)
    run_blocks<double>(call, prepared);
  else
    run_blocks<float>(call, prepared);
}

namespace {
std::shared_ptr<const void> prepare_cast(const KernelCall& call) {
  ElementwiseProgram program;
  program.num_inputs = 1;
  program.outputs = {0};
  return prepare_program(call, std::move(program));
}
}  // namespace

const KernelDef cast{detail::run_elementwise, prepare_cast, nullptr};
const KernelDef fused{detail::run_elementwise, prepare_fused, nullptr};

}  // namespace alpa::cpu
