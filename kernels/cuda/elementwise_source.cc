#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/elementwise_lower.h"
#include "kernels/elementwise.h"

namespace alpa::cuda {
namespace {

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float";
    case DType::bf16: return "Bf16";
    case DType::f16: return "F16";
    case DType::f64: return "double";
    case DType::i32: return "std::int32_t";
    case DType::u8: return "std::uint8_t";
  }
  return "";
}

/// A number that reads back to the same double.
std::string literal(double x) {
  if (std::isnan(x)) return "NAN";
  if (std::isinf(x)) return x > 0 ? "INFINITY" : "-INFINITY";
  const std::string text = fmt::format("{}", x);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

/// The element of a repeated input that stands at result element e, as a lambda: divisions by constants.
std::string position(const cpu::ElementwisePlan& plan, const cpu::ElementwiseInput& input) {
  const bool narrow = plan.elements < (std::int64_t{1} << 31);
  std::string sum, inner = fmt::format("e % {}", plan.row);
  std::int64_t below = plan.row;
  if (input.inner_stride != 0) sum = inner;
  for (int d = static_cast<int>(plan.outer.size()) - 1; d >= 0; below *= plan.outer[d--]) {
    if (input.strides[d] == 0) continue;
    std::string coordinate = fmt::format("e / {}", below);
    if (d > 0) coordinate += fmt::format(" % {}", plan.outer[d]);
    sum += fmt::format("{}{} * std::int64_t({})", sum.empty() ? "" : " + ", coordinate, input.strides[d]);
  }
  return fmt::format("[](const {} e) -> std::int64_t {{ return {}; }}",
                     narrow ? "unsigned" : "std::uint64_t", sum);
}

std::string load_line(const cpu::ElementwisePlan& plan, int i) {
  const cpu::ElementwiseInput& input = plan.inputs[i];
  const std::int64_t pack = pack_of(plan.wide);
  if (input.kind == cpu::InputKind::scalar) return fmt::format("    load_same(v{0}, x{0});\n", i);
  if (input.kind == cpu::InputKind::flat)
    return fmt::format("    load_flat(v{0}, x{0}, begin, n, packed);\n", i);
  const std::string at = fmt::format("    const auto at{} = {};\n", i, position(plan, input));
  const bool whole = plan.row % pack == 0;  // a pack lies in one row
  const bool multiples = std::all_of(input.strides.begin(), input.strides.end(),
                                     [&](std::int64_t s) { return s % pack == 0; });
  if (whole && input.inner_stride == 0)
    return at + fmt::format("    load_same(v{0}, x{0} + at{0}(begin));\n", i);
  if (whole && multiples)
    return at + fmt::format("    load_flat(v{0}, x{0}, at{0}(begin), n, packed);\n", i);
  return at + fmt::format("    load_at(v{0}, x{0}, begin, n, at{0});\n", i);
}

std::string parameters(const KernelCall& call) {
  std::string text;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    text += fmt::format("const {}* x{}, ", type_name(call.inputs[i].type.dtype), i);
  for (std::size_t o = 0; o < call.outputs.size(); ++o)
    text += fmt::format("{}* y{}, ", type_name(call.outputs[o].type.dtype), o);
  return text + "bool aligned";
}

/// One line per register and result, for element i of a pack.
std::string formulas(const ElementwiseProgram& program) {
  std::string text;
  for (int i = 0; i < program.num_inputs; ++i)
    text += fmt::format("      const Real<S> r{0}(v{0}[i]);\n", i);
  for (std::size_t c = 0; c < program.constants.size(); ++c)
    text += fmt::format("      const Real<S> r{}({});\n", program.register_of_constant(static_cast<int>(c)),
                        literal(program.constants[c]));
  for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
    const ElementwiseStep& step = program.steps[s];
    const auto operand = [&](int r) { return r < 0 ? step.a : r; };
    const char* const name = info(static_cast<ElementwiseOp>(step.op)).name;
    text += fmt::format("      const Real<S> r{} = elementwise::apply<ElementwiseOp::{}>(r{}, r{}, r{});\n",
                        program.register_of_step(s), name, step.a, operand(step.b), operand(step.c));
  }
  for (std::size_t o = 0; o < program.outputs.size(); ++o)
    text += fmt::format("      w{}[i] = r{}.v;\n", o, program.outputs[o]);
  return text;
}

}  // namespace

std::string elementwise_source(const cpu::ElementwisePlan& plan, const KernelCall& call) {
  std::string declared, loads, stores;
  for (int i = 0; i < plan.program.num_inputs; ++i) {
    declared += fmt::format("{}v{}[kPack]", declared.empty() ? "" : ", ", i);
    loads += load_line(plan, i);
  }
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    declared += fmt::format("{}w{}[kPack]", declared.empty() ? "" : ", ", o);
    stores += fmt::format("    store_flat(y{0}, w{0}, begin, n, packed);\n", o);
  }
  return fmt::format(R"(#include "kernels/cuda/fused.h"

using namespace alpa;
using namespace alpa::cuda;
using S = {};
constexpr int kPack = {};
constexpr std::int64_t kElements = {};

extern "C" __global__ void __launch_bounds__({}) fused({}) {{
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x * kPack;
  std::int64_t begin = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  for (; begin < kElements; begin += stride) {{
    const int n = kElements - begin < kPack ? int(kElements - begin) : kPack;
    const bool packed = aligned && n == kPack;
    S {};
{}#pragma unroll
    for (int i = 0; i < kPack; ++i) {{
{}    }}
{}  }}
}}
)",
                     plan.wide ? "double" : "float", pack_of(plan.wide), plan.elements, kFusedThreads,
                     parameters(call), declared, loads, formulas(plan.program), stores);
}

}  // namespace alpa::cuda
