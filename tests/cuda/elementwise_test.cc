#include <cmath>

#include "device_call.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cuda/elementwise_lower.h"

namespace alpa::elementwise_test {
namespace {

using namespace testing;

struct DeviceOptions {
  std::size_t shift = 0;
  std::vector<std::pair<int, int>> in_place = {};  ///< (output, input) that share a buffer
};

std::vector<HostTensor> run_on_device(const ElementwiseProgram& program,
                                      const std::vector<HostTensor>& in,
                                      const std::vector<TensorType>& out,
                                      const DeviceOptions& options = {}) {
  const Attributes none;
  const KernelCall call = planned_call(in, out, none);
  const auto launch = cuda::lower_elementwise(kernels::plan_elementwise(program, call), call);
  REQUIRE(launch.has_value());
  std::vector<DeviceBuffer> buffers;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const HostTensor& t : in) inputs.push_back(buffers.emplace_back(t, options.shift).data());
  for (const TensorType& t : out)
    outputs.push_back(
        buffers.emplace_back(static_cast<std::size_t>(t.bytes()), options.shift).data());
  for (const auto& [o, i] : options.in_place) outputs[o] = const_cast<void*>(inputs[i]);
  check(cuda::run_elementwise(*launch, inputs.data(), outputs.data(), nullptr));
  std::vector<HostTensor> results;
  for (std::size_t o = 0; o < out.size(); ++o) {
    std::size_t buffer = in.size() + o;
    for (const auto& [shared, i] : options.in_place)
      if (shared == static_cast<int>(o)) buffer = i;
    results.push_back(buffers[buffer].download(out[o]));
  }
  return results;
}

std::vector<HostTensor> run_on_cpu(const ElementwiseProgram& program,
                                   const std::vector<HostTensor>& in,
                                   const std::vector<TensorType>& out) {
  CallOptions options;
  options.attributes = to_attributes(program);
  std::vector<HostTensor> results;
  for (const TensorType& t : out) results.emplace_back(t);
  return run_kernel(cpu::fused, in, results, options);
}

ElementwiseProgram single(int op) {
  return one_step(op, info(static_cast<ElementwiseOp>(op)).arity);
}

/// Two roundings of the type, or the functions' error in float.
double bound(DType dtype) { return dtype == f64 ? 1e-13 : std::max(2 * epsilon(dtype), 2e-6); }

TEST_CASE("every operator on the device agrees with the CPU in every type") {
  if (no_device()) return;
  for (int op = 0; op < kNumElementwiseOps; ++op)
    for (const DType dtype : kDTypes) {
      CAPTURE(std::string(kElementwise[op].name));
      CAPTURE(name_of(dtype));
      const ElementwiseProgram program = single(op);
      const bool positive = op == static_cast<int>(ElementwiseOp::log) ||
                            op == static_cast<int>(ElementwiseOp::pow) ||
                            op == static_cast<int>(ElementwiseOp::sqrt) ||
                            op == static_cast<int>(ElementwiseOp::rsqrt);
      std::vector<HostTensor> in;
      for (int i = 0; i < program.num_inputs; ++i)
        in.push_back(random_tensor({dtype, {3, 347}}, 7 * op + i, positive ? 0.1 : -3, 3));
      if (dtype == i32 && positive)
        for (HostTensor& t : in)
          for (std::int64_t i = 0; i < t.type.elements(); ++i) t.put(i, std::abs(t.get(i)) / 4 + 1);
      const std::vector<TensorType> out = {{dtype, {3, 347}}};
      const HostTensor expected = run_on_cpu(program, in, out)[0];
      for (const std::size_t shift : {0, 8})
        CHECK(difference(run_on_device(program, in, out, {.shift = shift})[0],
                         values_of(expected)) <= (is_floating(dtype) ? bound(dtype) : 0));
    }
}

TEST_CASE("special values come out as on the CPU") {
  if (no_device()) return;
  const double special[] = {0,     -0.0,  1,   -1,   INFINITY,     -INFINITY, NAN, 1e30,
                            -1e30, 1e-42, 300, -300, 2147483648.0, 65520,     3e-8};
  for (int op = 0; op < kNumElementwiseOps; ++op) {
    CAPTURE(std::string(kElementwise[op].name));
    const ElementwiseProgram program = single(op);
    std::vector<HostTensor> in(static_cast<std::size_t>(program.num_inputs),
                               HostTensor({f32, {15, 15}}));
    for (int i = 0; i < 225; ++i)
      for (std::size_t k = 0; k < in.size(); ++k) in[k].put(i, special[k == 0 ? i % 15 : i / 15]);
    const std::vector<TensorType> out = {{f32, {15, 15}}};
    CHECK(difference(run_on_device(program, in, out)[0],
                     values_of(run_on_cpu(program, in, out)[0])) <= 2e-6);
  }
}

const ElementwiseOp kExactOps[] = {ElementwiseOp::add, ElementwiseOp::sub, ElementwiseOp::mul,
                                   ElementwiseOp::max, ElementwiseOp::lt,  ElementwiseOp::where,
                                   ElementwiseOp::neg, ElementwiseOp::relu};

/// Values stay below 2^steps·2, so that absolute bounds hold.
ElementwiseProgram random_program(std::mt19937& random, int inputs, int steps, int outputs) {
  ElementwiseProgram program;
  program.num_inputs = inputs;
  program.constants = {0.5, -0.25};
  for (int i = 0; i < steps; ++i) {
    const ElementwiseOp op = kExactOps[random() % std::size(kExactOps)];
    const auto any = [&] {
      return static_cast<int>(random() % static_cast<unsigned>(program.register_of_step(i)));
    };
    const int arity = info(op).arity;
    program.steps.push_back(
        {static_cast<int>(op), any(), arity > 1 ? any() : -1, arity > 2 ? any() : -1});
  }
  for (int o = 0; o < outputs; ++o) program.outputs.push_back(program.num_registers() - 1 - 2 * o);
  return program;
}

/// Shapes of inputs that broadcast to the last one.
const std::vector<Shape> kBroadcasts[] = {{{1000}, {1}, {1000}},
                                          {{8, 24}, {24}, {8, 24}},
                                          {{8, 24}, {8, 1}, {8, 24}},
                                          {{7, 13}, {13}, {7, 1}, {7, 13}},
                                          {{4, 5, 16}, {5, 1}, {4, 1, 16}, {4, 5, 16}},
                                          {{3, 1, 7}, {1, 5, 1}, {3, 5, 7}},
                                          {{64, 128}, {128}, {1, 128}, {64, 1}, {}, {64, 128}}};

TEST_CASE("random programs with broadcast inputs agree with the CPU") {
  if (no_device()) return;
  std::mt19937 random(1);
  for (int trial = 0; trial < 120; ++trial) {
    const std::vector<Shape>& shapes = kBroadcasts[trial % std::size(kBroadcasts)];
    const DType dtype = trial % 3 == 2 ? f64 : trial % 3 == 1 ? bf16 : f32;
    const int inputs = static_cast<int>(shapes.size()) - 1, outputs = 1 + trial % 3;
    const ElementwiseProgram program = random_program(random, inputs, 6 + trial % 9, outputs);
    std::vector<HostTensor> in;
    for (int i = 0; i < inputs; ++i)
      in.push_back(random_tensor({dtype, shapes[i]}, trial * 10 + i, -1, 1));
    const std::vector<TensorType> out(static_cast<std::size_t>(outputs), {dtype, shapes.back()});
    const auto expected = run_on_cpu(program, in, out);
    const auto got = run_on_device(program, in, out, {.shift = trial % 2 == 0 ? 0u : 8u});
    CAPTURE(trial);
    for (int o = 0; o < outputs; ++o)
      CHECK(difference(got[o], values_of(expected[o])) <= bound(dtype));
  }
}

TEST_CASE(
    "programs of more inputs than are read early agree at the borders of packs and blocks, "
    "from any address") {
  if (no_device()) return;
  std::mt19937 random(3);
  std::vector<std::int64_t> sizes = {511, 512, 513, 1029};
  for (std::int64_t n = 1; n < 18; ++n) sizes.push_back(n);
  for (const DType dtype : {f32, bf16, f16, f64})
    for (const std::int64_t n : sizes) {
      CAPTURE(name_of(dtype));
      CAPTURE(n);
      const ElementwiseProgram program = random_program(random, 6, 12, 2);
      std::vector<HostTensor> in;
      for (int i = 0; i < 6; ++i)
        in.push_back(random_tensor({dtype, {n}}, static_cast<unsigned>(n) * 10 + i, -1, 1));
      const std::vector<TensorType> out(2, {dtype, {n}});
      const auto expected = run_on_cpu(program, in, out);
      for (const std::size_t shift : {std::size_t{0}, size_of(dtype), std::size_t{8}}) {
        const auto got = run_on_device(program, in, out, {.shift = shift});
        for (int o = 0; o < 2; ++o)
          CHECK(difference(got[o], values_of(expected[o])) <= bound(dtype));
      }
    }
}

TEST_CASE("results may be written over flat inputs") {
  if (no_device()) return;
  std::mt19937 random(2);
  for (int trial = 0; trial < 20; ++trial) {
    const ElementwiseProgram program = random_program(random, 3, 9, 2);
    std::vector<HostTensor> in;
    for (int i = 0; i < 3; ++i) in.push_back(random_tensor({f32, {777}}, trial * 3 + i, -1, 1));
    const std::vector<TensorType> out = {{f32, {777}}, {f32, {777}}};
    const auto expected = run_on_cpu(program, in, out);
    const auto got = run_on_device(program, in, out, {.in_place = {{0, 2}, {1, 0}}});
    for (int o = 0; o < 2; ++o) CHECK(difference(got[o], values_of(expected[o])) <= bound(f32));
  }
}

TEST_CASE("a program without steps casts between all types as the CPU does") {
  if (no_device()) return;
  ElementwiseProgram program;
  program.num_inputs = 1;
  program.outputs = {0};
  for (const DType from : kDTypes)
    for (const DType to : kDTypes) {
      CAPTURE(name_of(from));
      CAPTURE(name_of(to));
      const HostTensor x = random_tensor({from, {259}}, 11, -300, 300);
      const HostTensor expected = run_kernel(cpu::cast, {x}, {HostTensor({to, {259}})})[0];
      CHECK(run_on_device(program, {x}, {{to, {259}}})[0].bytes == expected.bytes);
    }
}

}  // namespace
}  // namespace alpa::elementwise_test
