// Elementwise kernels, reductions and movement against the bandwidth of
// memcpy measured beside them.
//   bench_elementwise --help
// One JSON object per line: bytes that must be read and written per second, and their
// ratio to those of memcpy.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "arguments.h"
#include "interleave.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"
#include "src/tensor/elementwise_program.h"

using namespace alpa;

namespace {

struct Buffer {
  explicit Buffer(std::int64_t bytes)
      : data(static_cast<std::byte*>(
            std::aligned_alloc(64, static_cast<std::size_t>((bytes + 63) / 64 * 64)))) {
    float* const x = reinterpret_cast<float*>(data.get());
    for (std::int64_t i = 0; i < bytes / 4; ++i) x[i] = static_cast<float>(i % 1000) * 1e-3f - 0.4f;
  }
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data;
};

/// A kernel with buffers of its own, run `repeats` times per measurement.
struct Case {
  std::string name;
  double bytes = 0;  ///< read and written at least
  std::function<void()> run;
};

struct Setup {
  std::int64_t elements = 0;
  int repeats = 1;
  ThreadTeam* team = nullptr;
};

Case kernel_case(const Setup& setup, const std::string& name, const KernelDef& kernel,
                 const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs,
                 const Attributes& attributes, int in_place = 0) {
  struct State {
    KernelCall call;
    Attributes attributes;
    StepContext step;
    std::vector<Buffer> buffers;
  };
  auto state = std::make_shared<State>();
  state->attributes = attributes;
  KernelCall& call = state->call;
  double bytes = 0;
  const auto tensor = [&](const TensorType& type) {
    bytes += static_cast<double>(type.bytes());
    return KernelTensor{.data = nullptr,
                        .type = type,
                        .offset = Shape(type.shape.size(), 0),
                        .global_shape = type.shape};
  };
  for (const TensorType& type : inputs) call.inputs.push_back(tensor(type));
  for (const TensorType& type : outputs) call.outputs.push_back(tensor(type));
  call.attributes = &state->attributes;
  call.step = &state->step;
  call.team = setup.team;
  call.threads = setup.team->size();
  if (kernel.prepare) call.prepared = kernel.prepare(call);
  const auto place = [&](std::int64_t size) {
    state->buffers.emplace_back(size);
    return state->buffers.back().data.get();
  };
  for (KernelTensor& t : call.inputs) t.data = place(t.type.bytes());
  for (int i = 0; i < static_cast<int>(outputs.size()); ++i)
    call.outputs[i].data = i < in_place ? call.inputs[i].data : place(outputs[i].bytes());
  if (kernel.workspace_bytes) call.workspace = place(kernel.workspace_bytes(call));
  return {name, bytes, [state, &kernel, repeats = setup.repeats] {
            for (int i = 0; i < repeats; ++i) kernel.run(state->call);
          }};
}

/// (x·a + b, relu, ·c, + d): what a fused chain of layer arithmetic looks like.
Attributes chain_program() {
  const auto code = [](ElementwiseOp op) { return static_cast<int>(op); };
  return to_attributes({.num_inputs = 1,
                        .constants = {1.5, 0.25, 0.5, -0.125},
                        .steps = {{code(ElementwiseOp::mul), 0, 1, -1},
                                  {code(ElementwiseOp::add), 5, 2, -1},
                                  {code(ElementwiseOp::relu), 6, -1, -1},
                                  {code(ElementwiseOp::mul), 7, 3, -1},
                                  {code(ElementwiseOp::add), 8, 4, -1}},
                        .outputs = {9},
                        .dims = {}});
}

/// gelu(x + bias) and its use in a residual: matrix, row, matrix.
Attributes bias_program() {
  const auto code = [](ElementwiseOp op) { return static_cast<int>(op); };
  return to_attributes({.num_inputs = 3,
                        .constants = {},
                        .steps = {{code(ElementwiseOp::add), 0, 1, -1},
                                  {code(ElementwiseOp::relu), 3, -1, -1},
                                  {code(ElementwiseOp::add), 4, 2, -1}},
                        .outputs = {5},
                        .dims = {}});
}

Case copy_case(const Setup& setup) {
  const std::int64_t bytes = setup.elements * 4;
  auto from = std::make_shared<Buffer>(bytes), to = std::make_shared<Buffer>(bytes);
  return {"memcpy", 2.0 * static_cast<double>(bytes),
          [=, &team = *setup.team, repeats = setup.repeats] {
            for (int i = 0; i < repeats; ++i)
              team.parallel_for(bytes / 64, 64, [&](std::int64_t begin, std::int64_t end) {
                std::memcpy(to->data.get() + begin * 64, from->data.get() + begin * 64,
                            static_cast<std::size_t>(end - begin) * 64);
              });
          }};
}

/// What the compiler makes of the chain when it sees it whole, for this file's instruction set.
Case compiled_chain(const Setup& setup) {
  const std::int64_t n = setup.elements;
  auto from = std::make_shared<Buffer>(n * 4), to = std::make_shared<Buffer>(n * 4);
  return {"chain compiled as one loop", 8.0 * static_cast<double>(n),
          [=, &team = *setup.team, repeats = setup.repeats] {
            for (int i = 0; i < repeats; ++i)
              team.parallel_for(n, 4096, [&](std::int64_t begin, std::int64_t end) {
                const float* const x = reinterpret_cast<const float*>(from->data.get());
                float* const y = reinterpret_cast<float*>(to->data.get());
                for (std::int64_t j = begin; j < end; ++j) {
                  const float t = x[j] * 1.5f + 0.25f;
                  y[j] = (t > 0 ? t : 0) * 0.5f - 0.125f;
                }
              });
          }};
}

std::vector<Case> all_cases(const Setup& s) {
  const std::int64_t columns = 1024, rows = std::max<std::int64_t>(1, s.elements / columns);
  const TensorType flat{f32, {rows * columns}}, matrix{f32, {rows, columns}}, row{f32, {columns}},
      scalar{f32, {}};
  const TensorType half{bf16, {rows * columns}};
  const Attributes adam{{"beta1", 0.9},
                        {"beta2", 0.999},
                        {"epsilon", 1e-8},
                        {"weight_decay", 0.01},
                        {"decoupled", std::int64_t{1}}};
  const auto axes = [](std::int64_t d) {
    return Attributes{{"axes", std::vector<std::int64_t>{d}}};
  };
  std::vector<Case> cases{copy_case(s), compiled_chain(s)};
  const auto add = [&](const std::string& name, const KernelDef& kernel,
                       const std::vector<TensorType>& in, const std::vector<TensorType>& out,
                       const Attributes& attributes = {}, int in_place = 0) {
    cases.push_back(kernel_case(s, name, kernel, in, out, attributes, in_place));
  };
  add("relu", cpu::elementwise<ElementwiseOp::relu>, {flat}, {flat});
  add("add", cpu::elementwise<ElementwiseOp::add>, {flat, flat}, {flat});
  add("chain mul add relu mul add", cpu::fused, {flat}, {flat}, chain_program());
  add("chain in place", cpu::fused, {flat}, {flat}, chain_program(), 1);
  add("bias relu residual", cpu::fused, {matrix, row, matrix}, {matrix}, bias_program());
  add("exp", cpu::elementwise<ElementwiseOp::exp>, {flat}, {flat});
  add("log", cpu::elementwise<ElementwiseOp::log>, {flat}, {flat});
  add("tanh", cpu::elementwise<ElementwiseOp::tanh>, {flat}, {flat});
  add("gelu", cpu::elementwise<ElementwiseOp::gelu>, {flat}, {flat});
  add("cast to bf16", cpu::cast, {flat}, {half});
  add("add bf16", cpu::elementwise<ElementwiseOp::add>, {half, half}, {half});
  add("adam", cpu::multi_tensor_adam, {flat, flat, flat, flat, scalar, scalar}, {flat, flat, flat},
      adam, 3);
  add("reduce_sum of rows", cpu::reduce<ReduceOp::sum>, {matrix}, {{f32, {rows}}}, axes(1));
  add("reduce_sum of columns", cpu::reduce<ReduceOp::sum>, {matrix}, {row}, axes(0));
  add("reduce_sum to a scalar", cpu::reduce<ReduceOp::sum>, {flat}, {scalar}, axes(0));
  add("reduce_max of rows", cpu::reduce<ReduceOp::max>, {matrix}, {{f32, {rows}}}, axes(1));
  add("reduce_max of columns", cpu::reduce<ReduceOp::max>, {matrix}, {row}, axes(0));
  add("transpose", cpu::transpose, {matrix}, {{f32, {columns, rows}}},
      {{"permutation", std::vector<std::int64_t>{1, 0}}});
  add("broadcast rows", cpu::broadcast, {row}, {matrix}, {{"dims", std::vector<std::int64_t>{1}}});
  add("constant", cpu::constant, {}, {flat}, {{"value", 0.0}});
  add("random_normal", cpu::random_normal, {}, {flat},
      {{"stream", std::int64_t{1}}, {"a", 0.0}, {"b", 1.0}});
  return cases;
}

void measure(const std::string& place, const Setup& setup, int rounds) {
  std::vector<Case> cases = all_cases(setup);
  std::vector<bench::Variant> variants;
  for (const Case& c : cases) variants.push_back({c.name, c.run});
  bench::interleave(variants, rounds);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const double bytes = cases[i].bytes * setup.repeats;
    fmt::print(
        R"({{"place": "{}", "threads": {}, "name": "{}", "gigabytes_per_second": {:.2f}, "best": {:.2f}, "ratio_to_copy": {:.3f}}})"
        "\n",
        place, setup.team->size(), cases[i].name, bytes / median(variants[i].seconds) * 1e-9,
        bytes / *std::min_element(variants[i].seconds.begin(), variants[i].seconds.end()) * 1e-9,
        cases[i].bytes / cases[0].bytes / bench::median_ratio(variants[i], variants[0]));
  }
}

void measure(int rounds) {
  fmt::print(R"({{"instructions": "{}", "cores": {}}})"
             "\n",
             cpu::isa().name, usable_cores());
  ThreadTeam one(1), all(usable_cores());
  measure("L2", {.elements = 32 * 1024, .repeats = 100, .team = &one}, rounds);
  measure("memory", {.elements = 16 * 1024 * 1024, .repeats = 1, .team = &all}, rounds);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15;
  return bench::run(argc, argv, "Memory-bound CPU kernels against a copy.",
                    {cli::whole("--rounds", &rounds, "Counted rounds", 1, 1000)},
                    [&] { measure(rounds); });
}
