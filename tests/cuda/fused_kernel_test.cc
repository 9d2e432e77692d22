// The run-time compiler needs no card, so what it accepts is tested everywhere.
#include "src/cuda/fused_kernel.h"

#include "alpa/base/error.h"
#include "device_call.h"
#include "kernels/cpu/kernels.h"
#include "src/cuda/compile_kernel.h"

namespace alpa {
namespace {

using namespace testing;

int code(ElementwiseOp op) { return static_cast<int>(op); }

TEST_CASE("a generated kernel reads as the program that it computes") {
  ElementwiseProgram program;
  program.num_inputs = 2;
  program.constants = {0.5};
  program.steps = {{code(ElementwiseOp::add), 0, 1, -1}, {code(ElementwiseOp::mul), 3, 2, -1}};
  program.outputs = {4};
  const std::vector<HostTensor> in = {HostTensor({f32, {64, 128}}), HostTensor({bf16, {128}})};
  const Attributes none;
  const KernelCall call = planned_call(in, {{f32, {64, 128}}}, none);
  CHECK(cuda::elementwise_source(cpu::plan_elementwise(program, call), call) ==
        R"(#include "kernels/cuda/fused.h"

using namespace alpa;
using namespace alpa::cuda;
using S = float;
constexpr int kPack = 8;
constexpr std::int64_t kElements = 8192;

extern "C" __global__ void __launch_bounds__(256) fused(const float* x0, const Bf16* x1, float* y0, bool aligned) {
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x * kPack;
  std::int64_t begin = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  for (; begin < kElements; begin += stride) {
    const int n = kElements - begin < kPack ? int(kElements - begin) : kPack;
    const bool packed = aligned && n == kPack;
    S v0[kPack], v1[kPack], w0[kPack];
    load_flat(v0, x0, begin, n, packed);
    const auto at1 = [](const unsigned e) -> std::int64_t { return e % 128; };
    load_flat(v1, x1, at1(begin), n, packed);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const Real<S> r0(v0[i]);
      const Real<S> r1(v1[i]);
      const Real<S> r2(0.5);
      const Real<S> r3 = elementwise::apply<ElementwiseOp::add>(r0, r1, r0);
      const Real<S> r4 = elementwise::apply<ElementwiseOp::mul>(r3, r2, r3);
      w0[i] = r4.v;
    }
    store_flat(y0, w0, begin, n, packed);
  }
}
)");
}

/// All operators one after the other, over inputs of every kind and type.
ElementwiseProgram every_operator(int inputs) {
  ElementwiseProgram program;
  program.num_inputs = inputs;
  program.constants = {0.1, -2, INFINITY, NAN, 1e300};
  for (int op = 0; op < kNumElementwiseOps; ++op) {
    const int last = program.num_registers() - 1, arity = info(static_cast<ElementwiseOp>(op)).arity;
    program.steps.push_back({op, last, arity > 1 ? op % inputs : -1, arity > 2 ? last - 1 : -1});
  }
  program.outputs = {program.num_registers() - 1, program.num_registers() - 5};
  return program;
}

TEST_CASE("every operator, type and way of broadcasting compiles for sm_80 and sm_90") {
  const Attributes none;
  for (const bool wide : {false, true}) {
    std::vector<HostTensor> in;
    for (const Shape& shape :
         {Shape{6, 5, 16}, Shape{16}, Shape{5, 1}, Shape{6, 1, 1}, Shape{}, Shape{6, 1, 16}})
      in.emplace_back(
          TensorType{wide ? kDTypes[in.size()] : std::vector{f32, bf16, f16, u8}[in.size() % 4], shape});
    const DType out = wide ? i32 : f16;
    const KernelCall call = planned_call(in, {{out, {6, 5, 16}}, {u8, {6, 5, 16}}}, none);
    const std::string source =
        cuda::elementwise_source(cpu::plan_elementwise(every_operator(6), call), call);
    for (const int architecture : {80, 90}) CHECK(cuda::compile_kernel(source, architecture).size() > 1000);
  }
}

TEST_CASE("a source that does not compile is our bug, reported with the compiler's words") {
  std::string message;
  try {
    cuda::compile_kernel("void broken( {}", 90);
  } catch (const Bug& bug) {
    message = bug.what();
  }
  CHECK(message.find("fused.cu(1): error") != std::string::npos);
}

TEST_CASE("compiled programs agree with the CPU, aligned or not") {
  if (no_device()) return;
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  ElementwiseProgram program;
  program.num_inputs = 4;
  program.constants = {0.5};
  program.steps = {{code(ElementwiseOp::add), 0, 1, -1},
                   {code(ElementwiseOp::gelu), 5, -1, -1},
                   {code(ElementwiseOp::mul), 6, 2, -1},
                   {code(ElementwiseOp::sub), 7, 3, -1},
                   {code(ElementwiseOp::mul), 8, 4, -1}};
  program.outputs = {9, 6};
  for (const Shape& shape : {Shape{64, 128}, Shape{7, 13}})
    for (const DType dtype : {f32, bf16, f64})
      for (const std::size_t shift : {0, 8}) {
        const std::vector<HostTensor> in = {
            random_tensor({dtype, shape}, 1), random_tensor({dtype, {shape[1]}}, 2),
            random_tensor({dtype, {shape[0], 1}}, 3), random_tensor({dtype, {}}, 4)};
        const std::vector<TensorType> out(2, {dtype, shape});
        const Attributes none;
        const KernelCall call = planned_call(in, out, none);
        const cuda::FusedKernel kernel(cpu::plan_elementwise(program, call), call,
                                       properties.major * 10 + properties.minor);
        std::vector<DeviceBuffer> buffers;
        std::vector<const void*> inputs;
        std::vector<void*> outputs;
        for (const HostTensor& t : in) inputs.push_back(buffers.emplace_back(t, shift).data());
        for (const TensorType& t : out)
          outputs.push_back(buffers.emplace_back(static_cast<std::size_t>(t.bytes()), shift).data());
        check(kernel.run(inputs.data(), outputs.data(), nullptr));
        CallOptions options;
        options.attributes = to_attributes(program);
        const auto expected = run_kernel(cpu::fused, in, {HostTensor(out[0]), HostTensor(out[1])}, options);
        for (std::size_t o = 0; o < 2; ++o)
          CHECK(difference(buffers[4 + o].download(out[o]), values_of(expected[o])) <=
                (dtype == f64 ? 1e-13 : std::max(2 * epsilon(dtype), 2e-6)));
      }
}

}  // namespace
}  // namespace alpa
