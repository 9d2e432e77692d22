// The run-time compiler needs no card, so what it accepts is tested everywhere.
#include "src/cuda/fused_kernel.h"

#include "alpa/base/error.h"
#include "device_call.h"
#include "kernels/cpu/kernels.h"
#include "src/cuda/compile_kernel.h"

namespace alpa::fused_kernel_test {
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
  CHECK(cuda::elementwise_source(kernels::plan_elementwise(program, call), call) ==
        R"(#include "kernels/cuda/fused.h"

using namespace alpa;
using namespace alpa::cuda;
using S = float;
using Index = unsigned;
constexpr int kPack = 4, kPacks = 1, kThreads = 256;
constexpr Index kElements = 8192, kWhole = 8192, kStep = kThreads * kPack;

__device__ inline void compute(S x0, S x1, S& y0) {
  const Real<S> r0(x0);
  const Real<S> r1(x1);
  const Real<S> r2(0.5);
  const Real<S> r3 = elementwise::apply<ElementwiseOp::add>(r0, r1, r0);
  const Real<S> r4 = elementwise::apply<ElementwiseOp::mul>(r3, r2, r3);
  y0 = r4.v;
}

extern "C" __global__ void __launch_bounds__(256, 4) fused(const float* x0, const Bf16* x1, float* y0, bool aligned) {
  const auto at1 = [](const Index e) -> std::int64_t { return e % 128; };
  const Index thread = blockIdx.x * Index(kThreads) + threadIdx.x;
  Index begin = blockIdx.x * (kPacks * kStep) + threadIdx.x * kPack;
  for (; aligned && begin < kWhole; begin += gridDim.x * (kPacks * kStep)) {
    float v0[kPacks][kPack];
    Bf16 v1[kPacks][kPack];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const Index e = begin + p * kStep;
      load_words(v0[p], x0 + e);
      load_words(v1[p], x1 + at1(e));
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const Index e = begin + p * kStep;
      S w0[kPack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) compute(widen<S>(v0[p][i]), widen<S>(v1[p][i]), w0[i]);
      store_pack(y0 + e, w0);
    }
  }
  for (Index e = (aligned ? kWhole : 0) + thread; e < kElements; e += gridDim.x * Index(kThreads)) {
    S w0;
    compute(widen<S>(x0[e]), widen<S>(x1[at1(e)]), w0);
    put(y0[e], w0);
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
    const int last = program.num_registers() - 1,
              arity = info(static_cast<ElementwiseOp>(op)).arity;
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
      in.emplace_back(TensorType{
          wide ? kDTypes[in.size()] : std::vector{f32, bf16, f16, u8}[in.size() % 4], shape});
    const DType out = wide ? i32 : f16;
    const KernelCall call = planned_call(in, {{out, {6, 5, 16}}, {u8, {6, 5, 16}}}, none);
    const std::string source =
        cuda::elementwise_source(kernels::plan_elementwise(every_operator(6), call), call);
    for (const int architecture : {80, 90})
      CHECK(cuda::compile_kernel(source, architecture).size() > 1000);
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

/// (x + row) gelu · column − scalar, halved; and the gelu.
ElementwiseProgram broadcast_program() {
  ElementwiseProgram program;
  program.num_inputs = 4;
  program.constants = {0.5};
  program.steps = {{code(ElementwiseOp::add), 0, 1, -1},
                   {code(ElementwiseOp::gelu), 5, -1, -1},
                   {code(ElementwiseOp::mul), 6, 2, -1},
                   {code(ElementwiseOp::sub), 7, 3, -1},
                   {code(ElementwiseOp::mul), 8, 4, -1}};
  program.outputs = {9, 6};
  return program;
}

/// Runs the program compiled, in buffers `shift` bytes behind aligned ones,
/// and compares with the CPU.
void check_compiled(const ElementwiseProgram& program, const std::vector<HostTensor>& in,
                    const std::vector<TensorType>& out, const std::vector<std::size_t>& shifts) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  const Attributes none;
  const KernelCall call = planned_call(in, out, none);
  const cuda::FusedKernel kernel(kernels::plan_elementwise(program, call), call,
                                 properties.major * 10 + properties.minor);
  CallOptions options;
  options.attributes = to_attributes(program);
  const auto expected =
      run_kernel(cpu::fused, in, std::vector<HostTensor>(out.begin(), out.end()), options);
  for (const std::size_t shift : shifts) {
    CAPTURE(shift);
    std::vector<DeviceBuffer> buffers;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (const HostTensor& t : in) inputs.push_back(buffers.emplace_back(t, shift).data());
    for (const TensorType& t : out)
      outputs.push_back(buffers.emplace_back(static_cast<std::size_t>(t.bytes()), shift).data());
    check(kernel.run(inputs.data(), outputs.data(), nullptr));
    for (std::size_t o = 0; o < out.size(); ++o)
      CHECK(difference(buffers[in.size() + o].download(out[o]), values_of(expected[o])) <=
            (out[o].dtype == f64 ? 1e-13 : std::max(2 * epsilon(out[o].dtype), 2e-6)));
  }
}

TEST_CASE("compiled programs agree with the CPU, aligned or not") {
  if (no_device()) return;
  // A tile is 1024 elements or more: several whole ones, a part of one, odd
  // rows, and a few elements.
  for (const Shape& shape : {Shape{64, 128}, Shape{7, 13}, Shape{64, 1001}, Shape{1, 5}})
    for (const DType dtype : {f32, bf16, f16, f64}) {
      CAPTURE(name_of(dtype));
      CAPTURE(shape[1]);
      check_compiled(broadcast_program(),
                     {random_tensor({dtype, shape}, 1), random_tensor({dtype, {shape[1]}}, 2),
                      random_tensor({dtype, {shape[0], 1}}, 3), random_tensor({dtype, {}}, 4)},
                     std::vector<TensorType>(2, {dtype, shape}), {0, 8});
    }
}

TEST_CASE("compiled programs of one input agree at the borders of packs and tiles") {
  if (no_device()) return;
  ElementwiseProgram program;
  program.num_inputs = 1;
  program.steps = {{code(ElementwiseOp::sigmoid), 0, -1, -1}};
  program.outputs = {1};
  for (const DType dtype : {f32, bf16})
    for (const std::int64_t elements :
         {1, 3, 8, 15, 2047, 2049, 540672 + 1024 - 1, 1081344 + 4096 + 7}) {
      CAPTURE(name_of(dtype));
      CAPTURE(elements);
      check_compiled(program, {random_tensor({dtype, {elements}}, 1, -9, 9)}, {{dtype, {elements}}},
                     {0});
    }
}

TEST_CASE("compiled programs of several types agree with the CPU") {
  if (no_device()) return;
  ElementwiseProgram program;
  program.num_inputs = 3;
  program.steps = {{code(ElementwiseOp::add), 0, 1, -1}, {code(ElementwiseOp::mul), 3, 2, -1}};
  program.outputs = {4, 3};
  for (const auto& [first, second] : {std::pair{bf16, f32}, {u8, bf16}, {f16, f64}, {i32, f32}})
    check_compiled(
        program,
        {random_tensor({first, {333, 12}}, 1, 0, 9), random_tensor({second, {12}}, 2, 0, 9),
         random_tensor({bf16, {333, 12}}, 3, 0, 2)},
        {{second, {333, 12}}, {f16, {333, 12}}}, {0, 8});
}

}  // namespace
}  // namespace alpa::fused_kernel_test
