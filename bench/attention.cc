// Attention and its gradient against the processor's peak: multiply-adds on registers alone,
// measured beside them. Products that a causal mask hides are not counted.
//   bench_attention --help
// One JSON object per line: milliseconds, GFLOP/s, and their share of the peak.
#include <fmt/core.h>

#include <random>
#include <string>

#include "alpa/base/error.h"
#include "arguments.h"
#include "interleave.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "report.h"
#include "src/base/thread_team.h"
#include "src/runtime/host_arenas.h"

using namespace alpa;

namespace {

struct Options {
  int rounds = 7, threads = 1;
  std::string only;
};

/// q [batch, queries, heads, width]; k and v have as many rows, and `key_heads`.
struct Layer {
  std::int64_t batch, queries, heads, key_heads, width;
  bool causal = false, mask = false;
  double dropout = 0;
};
constexpr Layer kLayers[] = {{4, 256, 8, 8, 64},
                             {4, 256, 8, 8, 64, true},
                             {4, 196, 8, 8, 64},
                             {4, 197, 8, 8, 64},
                             {4, 256, 16, 16, 32},
                             {4, 197, 16, 16, 32},
                             {1, 1024, 8, 8, 64},
                             {1, 1024, 8, 8, 64, true},
                             {1, 1024, 8, 2, 64, true},
                             {2, 512, 8, 8, 128, true},
                             {4, 256, 8, 8, 64, false, true},
                             {4, 256, 8, 8, 64, true, false, 0.1},
                             {1, 256, 2, 2, 64}};

std::string name_of(const Layer& l) {
  return fmt::format("{}x{}x{}{}x{}{}{}{}", l.batch, l.queries, l.heads,
                     l.key_heads < l.heads ? fmt::format("/{}", l.key_heads) : "", l.width,
                     l.causal ? " causal" : "", l.mask ? " mask" : "",
                     l.dropout > 0 ? " dropout" : "");
}

/// Operations of one product of all scores with a head's width.
double product_flops(const Layer& l) {
  const double keys = l.causal ? (static_cast<double>(l.queries) + 1) / 2 : l.queries;
  return 2.0 * static_cast<double>(l.batch * l.heads * l.queries * l.width) * keys;
}

/// A call and its memory: an arena, as a device's, with large pages where there are some.
struct State {
  static constexpr std::int64_t kArena = 64 << 20;

  Attributes attributes;
  StepContext step;
  KernelCall call;
  runtime::HostArenas memory;
  std::int64_t used = 0;

  State() { require(memory.add(kArena), "bench_attention: no memory"); }

  std::byte* place(std::int64_t bytes) {
    std::byte* const at = memory.arenas.front() + used;
    used += (bytes + 63) / 64 * 64;
    require(used <= kArena, "bench_attention: a layer needs more than {} bytes", kArena);
    return at;
  }

  KernelTensor tensor(DType dtype, const Shape& shape) {
    KernelTensor t{nullptr, {dtype, shape}, Shape(shape.size(), 0), shape};
    t.data = place(t.type.bytes());
    std::mt19937 generator(static_cast<unsigned>(used));
    std::uniform_real_distribution<float> random(-1, 1);
    for (std::int64_t i = 0, n = t.type.elements(); i < n; ++i)
      if (dtype == f32)
        t.as<float>()[i] = random(generator);
      else
        t.as<std::uint8_t>()[i] = random(generator) < 0.9F;
    return t;
  }
};

std::shared_ptr<State> state_of(const Layer& l, ThreadTeam& team) {
  auto state = std::make_shared<State>();
  state->attributes = {{"causal", std::int64_t{l.causal}},
                       {"scale", 0.125},
                       {"dropout", l.dropout},
                       {"stream", std::int64_t{1}}};
  state->call.attributes = &state->attributes;
  state->call.step = &state->step;
  state->call.team = &team;
  state->call.threads = team.size();
  return state;
}

struct Pass {
  std::shared_ptr<State> state;
  const KernelDef* kernel;
};

/// The layer, and its gradient, which reads what the layer wrote.
std::pair<Pass, Pass> passes_of(const Layer& l, ThreadTeam& team) {
  const auto forward = state_of(l, team), backward = state_of(l, team);
  const Shape q{l.batch, l.queries, l.heads, l.width}, k{l.batch, l.queries, l.key_heads, l.width},
      rows{l.batch, l.heads, l.queries};
  KernelCall &f = forward->call, &b = backward->call;
  for (const Shape& shape : {q, k, k}) f.inputs.push_back(forward->tensor(f32, shape));
  if (l.mask) f.inputs.push_back(forward->tensor(u8, {l.batch, l.queries}));
  f.outputs = {forward->tensor(f32, q), forward->tensor(f32, rows)};
  f.workspace = forward->place(cpu::attention.workspace_bytes(f));
  cpu::attention.run(f);
  b.inputs = {
      backward->tensor(f32, q), f.inputs[0], f.inputs[1], f.inputs[2], f.outputs[0], f.outputs[1]};
  if (l.mask) b.inputs.push_back(f.inputs[3]);
  for (const Shape& shape : {q, k, k}) b.outputs.push_back(backward->tensor(f32, shape));
  b.workspace = backward->place(cpu::attention_grad.workspace_bytes(b));
  return {{forward, &cpu::attention}, {backward, &cpu::attention_grad}};
}

// ---- the peak

constexpr int kSums = 24, kSteps = 1 << 16;

/// kSums · kSteps multiply-adds of vectors that stay in registers. Returns their operations.
template <int bytes>
inline __attribute__((always_inline)) double multiply_add() {
  typedef float Vector __attribute__((vector_size(bytes)));
  constexpr int kUsed = bytes == 64 ? kSums : kSums / 2;
  Vector sums[kUsed] = {}, factor = Vector{} + 0.5F;
  asm volatile("" : "+m"(factor));
  for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 24
    for (int s = 0; s < kUsed; ++s) sums[s] = sums[s] * factor + factor;
  }
  for (Vector& sum : sums) asm volatile("" : : "m"(sum));
  return 2.0 * kSteps * kUsed * (bytes / 4);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) double multiply_add_avx512() { return multiply_add<64>(); }
__attribute__((target("avx2,fma"))) double multiply_add_avx2() { return multiply_add<32>(); }
#endif

/// On one core, in the instruction set of the kernels.
double run_peak() {
#if defined(__x86_64__)
  const std::string name = cpu::isa().name;
  if (name == "avx512") return multiply_add_avx512();
  if (name == "avx2") return multiply_add_avx2();
#endif
  return multiply_add<16>();
}

void measure(const Options& options) {
  ThreadTeam team(options.threads);
  double peak_flops = 0;
  for (const Layer& layer : kLayers) {
    if (name_of(layer).find(options.only) == std::string::npos) continue;
    const auto [forward, backward] = passes_of(layer, team);
    std::vector<bench::Variant> variants;
    variants.push_back({"peak", [&] { peak_flops = run_peak(); }});
    for (const Pass& pass : {forward, backward})
      variants.push_back({"", [pass] { pass.kernel->run(pass.state->call); }});
    bench::repeat_short_ones(variants, 0.03);
    bench::interleave(variants, options.rounds);
    const double peak = peak_flops * options.threads / median(variants[0].seconds);
    for (int pass = 0; pass < 2; ++pass) {
      const double seconds = median(variants[pass + 1].seconds),
                   flops = product_flops(layer) * (pass == 0 ? 2 : 5);
      bench::print_row((pass == 0 ? "forward " : "backward ") + name_of(layer),
                       {{"ms", 1e3 * seconds},
                        {"gflops", 1e-9 * flops / seconds},
                        {"peak_gflops", 1e-9 * peak},
                        {"of_peak", flops / seconds / peak}},
                       {.figure = "of_peak", .bound = 0.8});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const std::vector<cli::Flag> flags = {
      cli::whole("--rounds", &options.rounds, "Counted rounds", 1, 1000),
      cli::text("--only", &options.only, "Layers whose name has this in it"),
      cli::whole("--threads", &options.threads, "Threads", 1, 1024)};
  return bench::run(argc, argv, "Attention on the CPU against the processor's peak.", flags,
                    [&] { measure(options); });
}
