// What the machine code of compiled elementwise programs says of their speed: NVRTC needs no card.
#include <unistd.h>

#include "alpa/base/error.h"
#include "device_call.h"
#include "kernels/cuda/elementwise_lower.h"
#include "kernels/elementwise.h"
#include "src/cuda/compile_kernel.h"
#include "support/sass.h"
#include "support/temporary_file.h"

namespace alpa::fused_sass_test {
namespace {

using namespace testing;

#if defined(ALPA_CUDA_FILE)
constexpr bool kMakesMachineCode = true;
#else
constexpr bool kMakesMachineCode = false;
#endif

int code(ElementwiseOp op) { return static_cast<int>(op); }

struct Measured {
  KernelReport report;
  int elements = 0;  ///< of a thread at once
};

/// The program of `steps` over inputs and a result of these shapes and types, compiled for sm_90.
std::optional<Measured> measured(const std::vector<ElementwiseStep>& steps,
                                 const std::vector<HostTensor>& in, const TensorType& out) {
  ElementwiseProgram program;
  program.num_inputs = static_cast<int>(in.size());
  program.steps = steps;
  program.outputs = {program.num_registers() - 1};
  const Attributes none;
  const KernelCall call = planned_call(in, {out}, none);
  const kernels::ElementwisePlan plan = kernels::plan_elementwise(program, call);
  const std::vector<char> machine_code =
      cuda::compile_kernel(cuda::elementwise_source(plan, call), 90);
  const TemporaryFile file("fused_sass_" + std::to_string(getpid()) + ".cubin",
                           std::string(machine_code.begin(), machine_code.end()));
  const auto reports = sass_report(file.path());
  if (!reports) return std::nullopt;
  REQUIRE(reports->size() == 1);
  const cuda::FusedTile tile = cuda::fused_tile(plan, call);
  return Measured{reports->front(), tile.pack * tile.packs};
}

/// At least so many loads and bytes of them under way per thread, at most so
/// many instructions an element.
struct Expected {
  const char* what;
  std::vector<ElementwiseStep> steps;
  std::vector<TensorType> inputs;
  DType result;
  int loads, bytes, instructions;
};

const Shape kMatrix = {4096, 4096}, kRow = {4096}, kColumn = {4096, 1};

std::vector<Expected> expected() {
  using Op = ElementwiseOp;
  const TensorType a{f32, kMatrix}, b{bf16, kMatrix}, h{f16, kMatrix}, rate{f32, {}};
  const ElementwiseStep gelu{code(Op::gelu), 0, -1, -1}, sigmoid{code(Op::sigmoid), 0, -1, -1};
  const std::vector<ElementwiseStep> add = {{code(Op::add), 0, 1, -1}},
                                     relu = {{code(Op::relu), 0, -1, -1}};
  const std::vector<ElementwiseStep> gelu_backward = {{code(Op::gelu_grad), 1, -1, -1},
                                                      {code(Op::mul), 0, 2, -1}};
  const std::vector<ElementwiseStep> step = {{code(Op::mul), 1, 2, -1}, {code(Op::sub), 0, 3, -1}};
  return {
      {"gelu f32", {gelu}, {a}, f32, 4, 64, 11},
      {"gelu bf16", {gelu}, {b}, bf16, 4, 64, 12},
      {"gelu f16", {gelu}, {h}, f16, 4, 64, 11},
      {"sigmoid f32", {sigmoid}, {a}, f32, 4, 64, 7},
      {"sigmoid bf16", {sigmoid}, {b}, bf16, 4, 64, 8},
      {"gelu backward f32", gelu_backward, {a, a}, f32, 4, 64, 24},
      {"gelu backward bf16", gelu_backward, {b, b}, bf16, 4, 64, 25},
      {"relu bf16", relu, {b}, bf16, 4, 64, 4},
      {"sum f32", add, {a, a}, f32, 4, 64, 5},
      {"sum bf16", add, {b, b}, bf16, 4, 64, 7},
      {"row added f32", add, {a, {f32, kRow}}, f32, 4, 64, 6},
      {"row added bf16", add, {b, {bf16, kRow}}, bf16, 4, 64, 8},
      {"column added bf16", add, {b, {bf16, kColumn}}, bf16, 4, 36, 6},
      {"sum of bf16 and f32", add, {b, a}, f32, 4, 48, 7},
      {"plain SGD f32", step, {a, a, rate}, f32, 5, 68, 6},
      {"plain SGD bf16", step, {b, b, rate}, bf16, 5, 68, 7},
  };
}

TEST_CASE(
    "compiled programs have the loads of several packs under way, and few instructions an "
    "element") {
  if (!kMakesMachineCode) {
    std::puts("skipped: the emulated compiler makes no machine code of cards");
    return;
  }
  for (const Expected& row : expected()) {
    CAPTURE(std::string(row.what));
    const std::vector<HostTensor> inputs(row.inputs.begin(), row.inputs.end());
    const std::optional<Measured> found = measured(row.steps, inputs, {row.result, kMatrix});
    if (!found) return;
    MESSAGE(std::string(row.what) << ": " << found->report.widths << " loads, "
                                  << found->report.stores << " stores, " << found->report.registers
                                  << " registers, " << found->report.blocks << " blocks an SM, "
                                  << found->report.instructions << " instructions for "
                                  << found->elements << " elements");
    CHECK(found->report.loads >= row.loads);
    CHECK(found->report.bytes >= row.bytes);
    CHECK(found->report.spills == 0);
    CHECK(found->report.instructions > 0);
    CHECK(found->report.instructions <= row.instructions * found->elements);
    CHECK(accesses(found->report.stores, 128) >= 1);
    CHECK(found->report.blocks >= 4);
  }
}

}  // namespace
}  // namespace alpa::fused_sass_test
