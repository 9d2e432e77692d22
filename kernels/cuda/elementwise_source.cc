// kernels/cuda/elementwise_source.cc — generates CUDA C++ for elementwise programs
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

/// Elements are counted in 32 bits where they fit: `Index` of the source.
const char* index_type(const kernels::ElementwisePlan& plan) {
  return plan.elements < (std::int64_t{1} << 31) ? "unsigned" : "std::uint64_t";
}

/// The element of a repeated input that belongs to result element e, as a
/// lambda: divisions by constants.
std::string position(const kernels::ElementwisePlan& plan, const kernels::ElementwiseInput& input) {
  std::string sum, inner = fmt::format("e % {}", plan.row);
  std::int64_t below = plan.row;
  if (input.inner_stride != 0) sum = inner;
  for (int d = static_cast<int>(plan.outer.size()) - 1; d >= 0; below *= plan.outer[d--]) {
    if (input.strides[d] == 0) continue;
    std::string coordinate = fmt::format("e / {}", below);
    if (d > 0) coordinate += fmt::format(" % {}", plan.outer[d]);
    sum += fmt::format("{}{} * std::int64_t({})", sum.empty() ? "" : " + ", coordinate,
                       input.strides[d]);
  }
  return fmt::format("[](const Index e) -> std::int64_t {{ return {}; }}", sum);
}

/// How a pack of an input is read.
enum class Read {
  scalar,  ///< one element for all
  same,    ///< one element for a pack
  words,   ///< neighbours at a multiple of the pack
  each     ///< element by element
};

Read read_of(const kernels::ElementwisePlan& plan, const kernels::ElementwiseInput& input,
             int pack) {
  if (input.kind == kernels::InputAccess::scalar) return Read::scalar;
  if (input.kind == kernels::InputAccess::flat) return Read::words;
  if (plan.row % pack != 0) return Read::each;  // a pack may lie in two rows
  if (input.inner_stride == 0) return Read::same;
  return std::all_of(input.strides.begin(), input.strides.end(),
                     [&](std::int64_t s) { return s % pack == 0; })
             ? Read::words
             : Read::each;
}

/// The parts of the source that depend on the inputs.
struct InputText {
  std::string positions;        ///< lambdas
  std::string scalars, arrays;  ///< declarations of what is read once, and once a pack
  std::string loads;            ///< of pack p, which begins at element e
  std::string of_pack;          ///< arguments for element i of pack p
  std::string of_element;       ///< arguments for element e
};

void add_input(InputText& text, const kernels::ElementwisePlan& plan, int i, DType dtype,
               int pack) {
  const Read read = read_of(plan, plan.inputs[i], pack);
  const char* const type = type_name(dtype);
  const bool repeated = plan.inputs[i].kind == kernels::InputAccess::rows;
  if (repeated)
    text.positions += fmt::format("  const auto at{} = {};\n", i, position(plan, plan.inputs[i]));
  const std::string place = repeated ? fmt::format("at{}(e)", i) : "e";
  const char *shape = "[kPacks][kPack]", *element = "[p][i]";
  switch (read) {
    case Read::scalar:
      text.scalars += fmt::format("    const {0} v{1} = *x{1};\n", type, i);
      element = "";
      break;
    case Read::same:
      text.loads += fmt::format("      v{0}[p] = x{0}[{1}];\n", i, place);
      shape = "[kPacks]", element = "[p]";
      break;
    case Read::words:
      text.loads += fmt::format("      load_words(v{0}[p], x{0} + {1});\n", i, place);
      break;
    case Read::each:
      text.loads += fmt::format("      load_each(v{0}[p], x{0}, e, at{0});\n", i);
      break;
  }
  if (read != Read::scalar) text.arrays += fmt::format("    {} v{}{};\n", type, i, shape);
  text.of_pack += fmt::format("widen<S>(v{}{}), ", i, element);
  text.of_element += read == Read::scalar ? fmt::format("widen<S>(*x{}), ", i)
                                          : fmt::format("widen<S>(x{}[{}]), ", i, place);
}

std::string parameters(const KernelCall& call) {
  std::string text;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    text += fmt::format("const {}* x{}, ", type_name(call.inputs[i].type.dtype), i);
  for (std::size_t o = 0; o < call.outputs.size(); ++o)
    text += fmt::format("{}* y{}, ", type_name(call.outputs[o].type.dtype), o);
  return text + "bool aligned";
}

/// The function of one element: a line per register and result.
std::string formulas(const ElementwiseProgram& program) {
  std::string text = "__device__ inline void compute(";
  for (int i = 0; i < program.num_inputs; ++i) text += fmt::format("S x{}, ", i);
  for (std::size_t o = 0; o < program.outputs.size(); ++o)
    text += fmt::format("{}S& y{}", o == 0 ? "" : ", ", o);
  text += ") {\n";
  for (int i = 0; i < program.num_inputs; ++i)
    text += fmt::format("  const Real<S> r{0}(x{0});\n", i);
  for (std::size_t c = 0; c < program.constants.size(); ++c)
    text +=
        fmt::format("  const Real<S> r{}({});\n", program.register_of_constant(static_cast<int>(c)),
                    literal(program.constants[c]));
  for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
    const ElementwiseStep& step = program.steps[s];
    const auto operand = [&](int r) { return r < 0 ? step.a : r; };
    const char* const name = info(static_cast<ElementwiseOp>(step.op)).name;
    text +=
        fmt::format("  const Real<S> r{} = elementwise::apply<ElementwiseOp::{}>(r{}, r{}, r{});\n",
                    program.register_of_step(s), name, step.a, operand(step.b), operand(step.c));
  }
  for (std::size_t o = 0; o < program.outputs.size(); ++o)
    text += fmt::format("  y{} = r{}.v;\n", o, program.outputs[o]);
  return text + "}\n";
}

/// Tensors that are read for every result element.
int reads_of(const kernels::ElementwisePlan& plan) {
  return static_cast<int>(std::count_if(plan.inputs.begin(), plan.inputs.end(),
                                        [](const kernels::ElementwiseInput& input) {
                                          return input.kind != kernels::InputAccess::scalar;
                                        }));
}

/// Launch bounds for the compiler. Without them it aims at 32 registers and moves loads
/// behind the first uses; four resident blocks of short programs leave it 64, enough
/// for all of a tile's loads.
std::string launch_bounds(const kernels::ElementwisePlan& plan) {
  const bool is_short = plan.program.steps.size() <= 16 && reads_of(plan) <= 4 && !plan.wide;
  return std::to_string(kFusedThreads) + (is_short ? ", 4" : "");
}

/// Bytes of the largest element that is read or written for every result element.
int largest_element(const kernels::ElementwisePlan& plan, const KernelCall& call) {
  std::size_t largest = 1;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i)
    if (plan.inputs[i].kind != kernels::InputAccess::scalar)
      largest = std::max<std::size_t>(largest, size_of(call.inputs[i].type.dtype));
  for (const KernelTensor& y : call.outputs)
    largest = std::max<std::size_t>(largest, size_of(y.type.dtype));
  return static_cast<int>(largest);
}

}  // namespace

FusedTile fused_tile(const kernels::ElementwisePlan& plan, const KernelCall& call) {
  constexpr int kReads = 4;  // under way together
  // steps of a program, which are repeated for every element
  constexpr std::int64_t kUnrolled = 512;
  constexpr std::int64_t kThreads = 2 * 132 * 256;  // that the packs should feed: two blocks an SM
  FusedTile tile;
  tile.pack = std::min(16 / largest_element(plan, call), 8);
  const int reads = reads_of(plan);
  const auto steps = static_cast<std::int64_t>(plan.program.steps.size());
  for (; reads > 0 && tile.packs * reads < kReads; tile.packs *= 2) {
    const std::int64_t doubled = std::int64_t{2} * tile.packs * tile.pack;
    if (steps * doubled > kUnrolled || plan.elements < kThreads * doubled) break;
  }
  return tile;
}

std::string elementwise_source(const kernels::ElementwisePlan& plan, const KernelCall& call) {
  const FusedTile tile = fused_tile(plan, call);
  InputText inputs;
  for (int i = 0; i < plan.program.num_inputs; ++i)
    add_input(inputs, plan, i, call.inputs[i].type.dtype, tile.pack);
  std::string results, of_pack, of_element, declared, stores, puts;
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    const char* const comma = o == 0 ? "" : ", ";
    declared += fmt::format("{}w{}[kPack]", comma, o), of_pack += fmt::format("{}w{}[i]", comma, o);
    results += fmt::format("{}w{}", comma, o), of_element += fmt::format("{}w{}", comma, o);
    stores += fmt::format("      store_pack(y{0} + e, w{0});\n", o);
    puts += fmt::format("    put(y{0}[e], w{0});\n", o);
  }
  const std::int64_t whole = plan.elements / tile.pack * tile.pack,
                     at_once = std::int64_t{kFusedThreads} * tile.pack * tile.packs;
  const char* const partial = whole % at_once == 0 ? "" : "      if (e >= kWhole) continue;\n";
  return fmt::format(R"(#include "kernels/cuda/fused.h"

using namespace alpa;
using namespace alpa::cuda;
using S = {wide};
using Index = {index};
constexpr int kPack = {pack}, kPacks = {packs}, kThreads = {threads};
constexpr Index kElements = {elements}, kWhole = {whole}, kStep = kThreads * kPack;

{formulas}
extern "C" __global__ void __launch_bounds__({bounds}) fused({parameters}) {{
{positions}  const Index thread = blockIdx.x * Index(kThreads) + threadIdx.x;
  Index begin = blockIdx.x * (kPacks * kStep) + threadIdx.x * kPack;
  for (; aligned && begin < kWhole; begin += gridDim.x * (kPacks * kStep)) {{
{scalars}{arrays}#pragma unroll
    for (int p = 0; p < kPacks; ++p) {{
      const Index e = begin + p * kStep;
{partial}{loads}    }}
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {{
      const Index e = begin + p * kStep;
{partial}      S {declared};
#pragma unroll
      for (int i = 0; i < kPack; ++i) compute({pack_inputs}{pack_outputs});
{stores}    }}
  }}
  for (Index e = (aligned ? kWhole : 0) + thread; e < kElements; e += gridDim.x * Index(kThreads)) {{
    S {results};
    compute({element_inputs}{element_outputs});
{puts}  }}
}}
)",
                     fmt::arg("wide", plan.wide ? "double" : "float"),
                     fmt::arg("index", index_type(plan)), fmt::arg("pack", tile.pack),
                     fmt::arg("packs", tile.packs), fmt::arg("threads", kFusedThreads),
                     fmt::arg("bounds", launch_bounds(plan)), fmt::arg("elements", plan.elements),
                     fmt::arg("whole", whole), fmt::arg("formulas", formulas(plan.program)),
                     fmt::arg("parameters", parameters(call)),
                     fmt::arg("positions", inputs.positions), fmt::arg("scalars", inputs.scalars),
                     fmt::arg("arrays", inputs.arrays), fmt::arg("partial", partial),
                     fmt::arg("loads", inputs.loads), fmt::arg("declared", declared),
                     fmt::arg("pack_inputs", inputs.of_pack), fmt::arg("pack_outputs", of_pack),
                     fmt::arg("stores", stores), fmt::arg("results", results),
                     fmt::arg("element_inputs", inputs.of_element),
                     fmt::arg("element_outputs", of_element), fmt::arg("puts", puts));
}

}  // namespace alpa::cuda
