#include <doctest/doctest.h>

#include <cmath>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"
#include "src/tensor/elementwise_program.h"

namespace alpa::fused_test {
namespace {

using namespace testing;

int code(ElementwiseOp op) { return static_cast<int>(op); }

double apply(int op, double a, double b, double c) {
  switch (static_cast<ElementwiseOp>(op)) {
    case ElementwiseOp::add: return a + b;
    case ElementwiseOp::sub: return a - b;
    case ElementwiseOp::mul: return a * b;
    case ElementwiseOp::max: return std::fmax(a, b);
    case ElementwiseOp::lt: return a < b;
    case ElementwiseOp::where: return a != 0 ? b : c;
    case ElementwiseOp::neg: return -a;
    default: return NAN;
  }
}
constexpr ElementwiseOp kOps[] = {ElementwiseOp::add, ElementwiseOp::sub, ElementwiseOp::mul,
                                  ElementwiseOp::max, ElementwiseOp::lt,  ElementwiseOp::where,
                                  ElementwiseOp::neg};

/// A random program of `steps` steps over `inputs` inputs; its last steps are the results.
ElementwiseProgram random_program(std::mt19937& random, int inputs, int steps, int outputs) {
  ElementwiseProgram program;
  program.num_inputs = inputs;
  program.constants = {0.5, -1.25};
  for (int i = 0; i < steps; ++i) {
    const ElementwiseOp op = kOps[random() % std::size(kOps)];
    const auto any = [&] {
      return static_cast<int>(random() % static_cast<unsigned>(program.register_of_step(i)));
    };
    const int arity = info(op).arity;
    program.steps.push_back({code(op), any(), arity > 1 ? any() : -1, arity > 2 ? any() : -1});
  }
  for (int o = 0; o < outputs; ++o) program.outputs.push_back(program.num_registers() - 1 - o);
  return program;
}

/// The value of every register for one element.
std::vector<double> evaluate(const ElementwiseProgram& program, std::vector<double> registers) {
  registers.insert(registers.end(), program.constants.begin(), program.constants.end());
  const auto at = [&](int r) { return r < 0 ? 0 : registers[static_cast<std::size_t>(r)]; };
  for (const ElementwiseStep& s : program.steps) {
    const double value = apply(s.op, at(s.a), at(s.b), at(s.c));
    registers.push_back(value);
  }
  return registers;
}

/// Results of the program over inputs whose dimension d is dimension dims[i][d] of `shape`.
std::vector<std::vector<double>> naive(const ElementwiseProgram& program,
                                       const std::vector<HostTensor>& in, const Shape& shape,
                                       const std::vector<std::vector<std::int64_t>>& dims) {
  std::vector<std::vector<double>> results(program.outputs.size());
  for_each_index(shape, [&](const Shape& index) {
    std::vector<double> values;
    for (std::size_t i = 0; i < in.size(); ++i) {
      Shape own;
      for (std::size_t d = 0; d < dims[i].size(); ++d)
        own.push_back(in[i].type.shape[d] == 1 ? 0 : index[static_cast<std::size_t>(dims[i][d])]);
      values.push_back(in[i].get(flat_index(in[i].type.shape, own)));
    }
    const auto registers = evaluate(program, values);
    for (std::size_t o = 0; o < results.size(); ++o)
      results[o].push_back(registers[static_cast<std::size_t>(program.outputs[o])]);
  });
  return results;
}

std::vector<std::vector<std::int64_t>> aligned(const std::vector<HostTensor>& in,
                                               const Shape& shape) {
  std::vector<std::vector<std::int64_t>> dims;
  for (const HostTensor& t : in) {
    dims.emplace_back();
    for (std::size_t d = 0; d < t.type.shape.size(); ++d)
      dims.back().push_back(static_cast<std::int64_t>(shape.size() - t.type.shape.size() + d));
  }
  return dims;
}

/// Inputs are multiples of 1/8 so small that every result is exact in f32 for short programs.
HostTensor coarse(TensorType type, std::mt19937& random) {
  HostTensor t(std::move(type));
  for (std::int64_t i = 0; i < t.type.elements(); ++i)
    t.put(i, static_cast<double>(random() % 9) / 4 - 1);
  return t;
}

TEST_CASE(
    "random programs over random broadcasts equal the naive evaluation exactly, "
    "in place and with any threads") {
  std::mt19937 random(3);
  const std::vector<std::pair<Shape, std::vector<Shape>>> cases{
      {{7}, {{7}, {7}, {1}}},
      {{2000}, {{2000}, {}, {2000}}},
      {{3, 70}, {{3, 70}, {70}, {3, 1}}},
      {{3, 1024}, {{3, 1024}, {1024}, {3, 1}}},
      {{2, 2100}, {{2, 2100}, {2100}, {1}}},
      {{4, 5, 6}, {{4, 5, 6}, {4, 1, 6}, {5, 1}}},
      {{40, 3, 16}, {{40, 3, 16}, {3, 1}, {40, 1, 1}}},
      {{0, 5}, {{0, 5}, {5}, {}}}};
  for (const auto& [shape, inputs] : cases)
    for (int round = 0; round < 12; ++round) {
      const ElementwiseProgram program = random_program(random, 3, 1 + round % 4, 1);
      std::vector<HostTensor> in;
      for (const Shape& s : inputs) in.push_back(coarse({f32, s}, random));
      const auto expected = naive(program, in, shape, aligned(in, shape));
      CAPTURE(to_string(shape));
      CAPTURE(to_string(to_attributes(program)));
      for (int threads : {1, 2, 3}) {
        CallOptions options{.attributes = to_attributes(program), .threads = threads};
        CHECK(difference(run_kernel(cpu::fused, in, {HostTensor({f32, shape})}, options)[0],
                         expected[0]) == 0);
        options.in_place = {{0, 0}};
        CHECK(difference(run_kernel(cpu::fused, in, {HostTensor({f32, shape})}, options)[0],
                         expected[0]) == 0);
      }
    }
}

TEST_CASE("several results may take the buffers of several inputs that are read later") {
  std::mt19937 random(5);
  for (std::int64_t n : {5, 1000, 5000})
    for (DType dtype : {f32, bf16, f64})
      for (int round = 0; round < (n > 1000 ? 3 : 30); ++round) {
        const ElementwiseProgram program = random_program(random, 3, 4, 3);
        std::vector<HostTensor> in;
        for (int i = 0; i < 3; ++i) in.push_back(coarse({dtype, {n}}, random));
        const auto expected = naive(program, in, {n}, aligned(in, {n}));
        const std::vector<HostTensor> out(3, HostTensor({dtype, {n}}));
        const auto apart = run_kernel(cpu::fused, in, out, {.attributes = to_attributes(program)});
        const auto in_place = run_kernel(cpu::fused, in, out,
                                         {.attributes = to_attributes(program),
                                          .threads = 2,
                                          .in_place = {{0, 2}, {1, 0}, {2, 1}}});
        CAPTURE(to_string(to_attributes(program)));
        CHECK(in_place == apart);
        if (dtype != bf16)
          for (int o = 0; o < 3; ++o)
            CHECK(difference(apart[static_cast<std::size_t>(o)],
                             expected[static_cast<std::size_t>(o)]) == 0);
      }
}

TEST_CASE("a result may be an input, a scalar or a constant, and the same register twice") {
  const HostTensor x = random_tensor({f32, {50}}, 1), s = random_tensor({f32, {}}, 2);
  const ElementwiseProgram program{.num_inputs = 2,
                                   .constants = {2.5},
                                   .steps = {{code(ElementwiseOp::neg), 0, -1, -1}},
                                   .outputs = {0, 1, 2, 3, 3},
                                   .dims = {}};
  const std::vector<HostTensor> out(5, HostTensor({f32, {50}}));
  const auto got = run_kernel(cpu::fused, {x, s}, out, {.attributes = to_attributes(program)});
  const auto expected = naive(program, {x, s}, {50}, {{0}, {}});
  for (std::size_t o = 0; o < 5; ++o) CHECK(difference(got[o], expected[o]) == 0);
}

TEST_CASE("attribute dims places the inputs' dimensions anywhere") {
  std::mt19937 random(9);
  const HostTensor x = coarse({f32, {3, 40, 5}}, random), row = coarse({f32, {3}}, random),
                   pair = coarse({f32, {3, 40}}, random);
  ElementwiseProgram program{
      .num_inputs = 3,
      .constants = {},
      .steps = {{code(ElementwiseOp::mul), 0, 1, -1}, {code(ElementwiseOp::add), 3, 2, -1}},
      .outputs = {4},
      .dims = {0, 1, 2, 0, 0, 1}};
  const auto expected = naive(program, {x, row, pair}, {3, 40, 5}, {{0, 1, 2}, {0}, {0, 1}});
  CHECK(difference(run_kernel(cpu::fused, {x, row, pair}, {HostTensor({f32, {3, 40, 5}})},
                              {.attributes = to_attributes(program)})[0],
                   expected[0]) == 0);
}

TEST_CASE("in f32 a fused chain gives the same bits as its operators one by one") {
  const HostTensor x = random_tensor({f32, {1234}}, 1), y = random_tensor({f32, {1234}}, 2);
  const ElementwiseProgram program{.num_inputs = 2,
                                   .constants = {},
                                   .steps = {{code(ElementwiseOp::mul), 0, 1, -1},
                                             {code(ElementwiseOp::add), 2, 0, -1},
                                             {code(ElementwiseOp::tanh), 3, -1, -1}},
                                   .outputs = {4},
                                   .dims = {}};
  const std::vector<HostTensor> out{HostTensor(x.type)};
  const auto product = run_kernel(cpu::elementwise<ElementwiseOp::mul>, {x, y}, out);
  const auto sum = run_kernel(cpu::elementwise<ElementwiseOp::add>, {product[0], x}, out);
  const auto expected = run_kernel(cpu::elementwise<ElementwiseOp::tanh>, sum, out);
  CHECK(run_kernel(cpu::fused, {x, y}, out, {.attributes = to_attributes(program)}) == expected);
}

TEST_CASE("a cast inside a chain rounds to its type") {
  const HostTensor x = random_tensor({f32, {100}}, 1);
  for (auto [op, dtype] :
       {std::pair{ElementwiseOp::cast_bf16, bf16}, std::pair{ElementwiseOp::cast_f16, f16}}) {
    const ElementwiseProgram program{
        .num_inputs = 1,
        .constants = {3.0},
        .steps = {{code(op), 0, -1, -1}, {code(ElementwiseOp::mul), 2, 1, -1}},
        .outputs = {3},
        .dims = {}};
    HostTensor rounded({dtype, {100}});
    std::vector<double> expected;
    for (int i = 0; i < 100; ++i)
      rounded.put(i, x.get(i)), expected.push_back(static_cast<float>(3 * rounded.get(i)));
    CHECK(difference(run_kernel(cpu::fused, {x}, {HostTensor(x.type)},
                                {.attributes = to_attributes(program)})[0],
                     expected) == 0);
  }
}

TEST_CASE("a program survives its attributes, and their text") {
  std::mt19937 random(1);
  ElementwiseProgram program = random_program(random, 3, 5, 2);
  CHECK(parse_elementwise_program(to_attributes(program), 3) == program);
  program.dims = {0, 1, 0};
  program.constants.clear();
  program.steps = {{code(ElementwiseOp::add), 0, 1, -1}};
  program.outputs = {3};
  CHECK(parse_elementwise_program(parse_attributes(to_string(to_attributes(program))), 3) ==
        program);
}

TEST_CASE("a program of a hundred live registers runs in smaller blocks") {
  ElementwiseProgram program{
      .num_inputs = 1, .constants = {1.0}, .steps = {}, .outputs = {}, .dims = {}};
  for (int i = 0; i < 100; ++i)
    program.steps.push_back(
        {code(ElementwiseOp::add), i == 0 ? 0 : program.register_of_step(i - 1), 1, -1});
  for (int i = 0; i < 99; ++i)
    program.steps.push_back({code(ElementwiseOp::max),
                             program.register_of_step(i == 0 ? 0 : 99 + i),
                             program.register_of_step(99 - i), -1});
  program.outputs = {program.num_registers() - 1};
  const HostTensor x = random_tensor({f32, {3000}}, 1);
  const auto expected = naive(program, {x}, {3000}, {{0}});
  CHECK(difference(run_kernel(cpu::fused, {x}, {HostTensor(x.type)},
                              {.attributes = to_attributes(program)})[0],
                   expected[0]) <= 1e-5);
}

}  // namespace
}  // namespace alpa::fused_test
