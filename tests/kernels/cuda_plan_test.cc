// What the CUDA kernels are told to do, against brute force; no card needed.
#include <doctest/doctest.h>

#include <map>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cuda/copy.h"
#include "kernels/cuda/elementwise_lower.h"
#include "kernels/cuda/random.h"
#include "kernels/cuda/reduce.h"

namespace alpa::cuda_plan_test {
namespace {

using namespace testing;
using cuda::OperandKind;

int code(ElementwiseOp op) { return static_cast<int>(op); }

KernelCall call_of(const std::vector<TensorType>& in, const std::vector<TensorType>& out) {
  static const Attributes none;
  KernelCall call;
  for (const TensorType& t : in)
    call.inputs.push_back({nullptr, t, Shape(t.shape.size(), 0), t.shape});
  for (const TensorType& t : out)
    call.outputs.push_back({nullptr, t, Shape(t.shape.size(), 0), t.shape});
  call.attributes = &none;
  return call;
}

/// Arithmetic that tells all operands and operators apart; copies are
/// copies, for planning adds some.
double apply(int op, double a, double b, double c) {
  return op == code(ElementwiseOp::copy) ? a : op * 0.5 + 2 * a - 3 * b + 5 * c;
}

double value_of(const cuda::ElementwiseLaunch& p, cuda::ElementwiseOperand operand,
                const std::map<int, double>& slots, double previous) {
  if (operand.kind == OperandKind::slot) return slots.at(operand.index);
  if (operand.kind == OperandKind::constant) return p.constants[operand.index];
  return operand.kind == OperandKind::previous ? previous : 0;
}

/// The results of the instructions for one element; after the first result, inputs are gone.
std::vector<double> interpret(const cuda::ElementwiseLaunch& p, std::vector<double> inputs) {
  std::vector<double> outputs(static_cast<std::size_t>(p.num_outputs), NAN);
  std::map<int, double> slots;
  double result = NAN;
  for (int i = 0; i < p.num_instructions; ++i) {
    const cuda::Instruction& step = p.instructions[i];
    result = step.op == cuda::kLoadCode
                 ? inputs.at(step.a.index)
                 : apply(step.op, value_of(p, step.a, slots, result),
                         value_of(p, step.b, slots, result), value_of(p, step.c, slots, result));
    if (step.slot >= 0) slots[step.slot] = result;
    if (step.output < 0) continue;
    outputs.at(static_cast<std::size_t>(step.output)) = result;
    inputs.assign(inputs.size(), NAN);
  }
  return outputs;
}

std::vector<double> evaluate(const ElementwiseProgram& program, std::vector<double> registers) {
  registers.insert(registers.end(), program.constants.begin(), program.constants.end());
  const auto at = [&](int r) { return r < 0 ? 0 : registers.at(static_cast<std::size_t>(r)); };
  for (const ElementwiseStep& s : program.steps) {
    const double value = apply(s.op, at(s.a), at(s.b), at(s.c));
    registers.push_back(value);
  }
  std::vector<double> results;
  for (const int r : program.outputs) results.push_back(at(r));
  return results;
}

ElementwiseProgram random_program(std::mt19937& random, int inputs, int steps, int outputs) {
  ElementwiseProgram program;
  program.num_inputs = inputs;
  program.constants = {0.5, -1.25};
  for (int i = 0; i < steps; ++i) {
    const auto any = [&] {
      return static_cast<int>(random() % static_cast<unsigned>(program.register_of_step(i)));
    };
    const ElementwiseOp op = static_cast<ElementwiseOp>(random() % code(ElementwiseOp::copy));
    const int arity = info(op).arity;
    program.steps.push_back({code(op), any(), arity > 1 ? any() : -1, arity > 2 ? any() : -1});
  }
  for (int o = 0; o < outputs; ++o)
    program.outputs.push_back(
        static_cast<int>(random() % static_cast<unsigned>(program.num_registers())));
  return program;
}

TEST_CASE(
    "instructions compute what the program says, read no input after a result and no slot too "
    "early") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 500; ++trial) {
    const int inputs = 1 + trial % 4, outputs = 1 + trial % 3;
    const ElementwiseProgram program = random_program(random, inputs, trial % 20, outputs);
    const KernelCall call = call_of(std::vector<TensorType>(inputs, {f32, {8}}),
                                    std::vector<TensorType>(outputs, {f32, {8}}));
    const auto launch = cuda::lower_elementwise(kernels::plan_elementwise(program, call), call);
    REQUIRE(launch.has_value());
    std::vector<double> values;
    for (int i = 0; i < inputs; ++i) values.push_back(i * 1.5 - 2);
    CAPTURE(trial);
    CHECK(interpret(*launch, values) == evaluate(program, values));
  }
}

TEST_CASE("a chain keeps its values in registers: no slots") {
  ElementwiseProgram program;
  program.num_inputs = 1;
  program.constants = {2};
  program.steps = {{code(ElementwiseOp::mul), 0, 1, -1},
                   {code(ElementwiseOp::relu), 2, -1, -1},
                   {code(ElementwiseOp::square), 3, -1, -1}};
  program.outputs = {4};
  const KernelCall call = call_of({{f32, {8}}}, {{f32, {8}}});
  const auto launch = cuda::lower_elementwise(kernels::plan_elementwise(program, call), call);
  CHECK(launch->num_slots == 0);
  CHECK(launch->num_instructions == 4);  // with the load
}

TEST_CASE("a program beyond the interpreter's limits is left to the compiler") {
  std::mt19937 random(3);
  const ElementwiseProgram program = random_program(random, 1, 200, 1);
  const KernelCall call = call_of({{f32, {8}}}, {{f32, {8}}});
  CHECK(!cuda::lower_elementwise(kernels::plan_elementwise(program, call), call).has_value());
}

/// All (source, target) pairs of elements, in bytes of the planned element's first byte.
std::vector<std::pair<std::int64_t, std::int64_t>> pairs_of(const cuda::CopyLaunch& c, int bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for_each_index(Shape(c.extent, c.extent + c.dims), [&](const Shape& index) {
    std::int64_t x = c.x_begin, y = c.y_begin;
    for (int d = 0; d < c.dims; ++d) x += index[d] * c.x_stride[d], y += index[d] * c.y_stride[d];
    for (int b = 0; b < c.element; b += bytes)
      pairs.push_back({x * c.element + b, y * c.element + b});
  });
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

TEST_CASE("merging and widening a copy changes no pair of source and target") {
  struct Case {
    Shape extent, x, y;
    std::int64_t x_begin, y_begin;
  };
  const Case cases[] = {{{4, 8, 16}, {128, 16, 1}, {128, 16, 1}, 0, 0},
                        {{4, 8, 16}, {256, 16, 1}, {128, 16, 1}, 32, 0},
                        {{3, 5, 6}, {1, 3, 15}, {30, 6, 1}, 0, 0},
                        {{3, 5, 6}, {0, 6, 1}, {30, 6, 1}, 2, 4},
                        {{2, 1, 4}, {9, 7, 2}, {4, 4, 1}, 1, 0},
                        {{}, {}, {}, 3, 5},
                        {{7, 3}, {3, 1}, {3, 1}, 0, 0}};
  for (const Case& c : cases)
    for (const int element : {1, 2, 4}) {
      cuda::CopyLaunch raw;
      raw.element = element, raw.dims = static_cast<int>(c.extent.size());
      raw.x_begin = c.x_begin, raw.y_begin = c.y_begin;
      for (int d = 0; d < raw.dims; ++d)
        raw.extent[d] = c.extent[d], raw.x_stride[d] = c.x[d], raw.y_stride[d] = c.y[d];
      cuda::CopyLaunch planned;
      REQUIRE(cuda::plan_copy(planned, element, raw.dims, c.extent.data(), c.x.data(), c.y.data(),
                              c.x_begin, c.y_begin));
      CHECK(pairs_of(planned, element) == pairs_of(raw, element));
      alignas(64) static char memory[64];
      for (const int shift : {0, 4, 1}) {
        if (shift % element != 0) continue;
        const cuda::CopyLaunch wide = cuda::widened(planned, memory + shift, memory);
        CHECK(pairs_of(wide, element) == pairs_of(raw, element));
        CHECK((shift == 0 || wide.element <= std::max(element, shift)));
      }
    }
  cuda::CopyLaunch dense;
  const Shape extent = {4, 8, 16}, strides = kernels::dense_strides(extent);
  alignas(64) static char memory[64];
  REQUIRE(cuda::plan_copy(dense, 4, 3, extent.data(), strides.data(), strides.data()));
  CHECK(dense.dims == 1);
  CHECK(cuda::widened(dense, memory, memory).element == 16);
}

TEST_CASE("rows of a local part stand where they are in the whole tensor") {
  const Shape extent = {2, 3, 4, 5}, at = {1, 0, 2, 0}, whole = {4, 3, 9, 5};
  cuda::RandomLaunch launch;
  REQUIRE(cuda::plan_random(launch, cuda::Distribution::uniform, f32, 1, 0, 1, 4, extent.data(),
                            at.data(), whole.data()));
  CHECK(launch.columns == 20);  // the last dimension is whole, the one before prolongs it
  CHECK(launch.row_count == 6);
  std::vector<std::int64_t> expected, planned;
  for_each_index(extent, [&](const Shape& index) {
    Shape global = index;
    for (std::size_t d = 0; d < 4; ++d) global[d] += at[d];
    expected.push_back(flat_index(whole, global));
  });
  for_each_index(Shape(launch.rows.extent, launch.rows.extent + launch.rows.dims),
                 [&](const Shape& index) {
                   std::int64_t first = launch.begin;
                   for (int d = 0; d < launch.rows.dims; ++d)
                     first += index[d] * launch.rows.stride[d];
                   for (std::int64_t c = 0; c < launch.columns; ++c) planned.push_back(first + c);
                 });
  CHECK(planned == expected);
}

TEST_CASE("a transposition moves as many elements at once as both layouts and addresses allow") {
  const auto vector = [](int element, std::int64_t rows, std::int64_t columns, std::uintptr_t x = 0,
                         std::uintptr_t y = 0, std::int64_t begin = 0) {
    const std::int64_t extent[] = {rows, columns}, from[] = {1, rows}, to[] = {columns, 1};
    cuda::CopyLaunch launch;
    REQUIRE(cuda::plan_copy(launch, element, 2, extent, from, to, begin));
    return cuda::transposed_vector(launch, reinterpret_cast<void*>(4096 + x),
                                   reinterpret_cast<void*>(4096 + y));
  };
  for (const int element : {1, 2, 4}) CHECK(vector(element, 256, 512) == 4);
  CHECK(vector(8, 256, 512) == 2);
  CHECK(vector(16, 256, 512) == 1);
  CHECK(vector(2, 130, 512) == 2);  // pairs in words of 4 bytes
  CHECK(vector(2, 256, 66) == 2);
  CHECK(vector(2, 256, 65) == 1);
  CHECK(vector(2, 255, 64) == 1);
  CHECK(vector(1, 130, 512) == 1);
  CHECK(vector(2, 256, 512, 4) == 2);
  CHECK(vector(2, 256, 512, 0, 2) == 1);
  CHECK(vector(4, 256, 512, 8) == 2);
  CHECK(vector(4, 256, 512, 0, 0, 2) == 2);
  CHECK(vector(4, 256, 512, 0, 0, 1) == 1);
}

TEST_CASE("large reductions are cut into pieces that fill a card, small ones are not") {
  const auto plan = [](const Shape& shape, std::vector<char> reduced) {
    cuda::ReduceLaunch launch;
    const bool flags[] = {reduced[0] != 0, reduced[1] != 0};
    REQUIRE(cuda::plan_reduce(launch, ReduceOp::sum, f32, f32, 2, shape.data(), flags));
    CHECK(launch.pieces * launch.per_piece >=
          (launch.inner_reduced ? launch.reduced_count * launch.inner : launch.reduced_count));
    return launch;
  };
  CHECK(plan({1 << 14, 1 << 14}, {1, 1}).pieces == 1024);
  CHECK(plan({64, 128}, {1, 1}).pieces == 1);
  CHECK(plan({8192, 4096}, {0, 1}).pieces == 1);  // enough results
  CHECK(plan({8192, 4096}, {1, 0}).pieces == 64);
  const cuda::ReduceLaunch rows = plan({8192, 4096}, {1, 0});
  CHECK(cuda::reduce_workspace_bytes(rows) == 64 * 4096 * 8);
  CHECK(plan({2048, 2048}, {1, 0}).per_piece == 64);  // two batches of four loads for every thread
  CHECK(plan({2048, 8}, {1, 0}).pieces == 1);
  CHECK(plan({0, 4}, {1, 0}).empty);
}

}  // namespace
}  // namespace alpa::cuda_plan_test
