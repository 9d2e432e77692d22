// The einsum kernel against dnnl::sgemm called directly (its own threads), shape by shape, and
// batched products against a loop of sgemm calls.
//   bench_matmul --help
#include <dnnl.h>

#include <memory>

#include "arguments.h"
#include "interleave.h"
#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"

using namespace alpa;

namespace {

/// Rows of x and columns of y; 'T': stored transposed.
struct Shape3 {
  char tx, ty;
  std::int64_t batch, m, n, k;
};
constexpr Shape3 kShapes[] = {{'N', 'N', 1, 1024, 1024, 1024}, {'N', 'T', 1, 1024, 1024, 1024},
                              {'T', 'N', 1, 1024, 1024, 1024}, {'N', 'N', 1, 512, 512, 512},
                              {'N', 'N', 1, 2048, 8192, 2048}, {'T', 'N', 1, 2048, 8192, 2048},
                              {'N', 'N', 1, 256, 4096, 1024},  {'N', 'T', 1, 256, 1024, 4096},
                              {'T', 'N', 1, 1024, 4096, 256},  {'N', 'N', 1, 128, 128, 128},
                              {'N', 'N', 1, 60, 10, 784},      {'N', 'T', 64, 256, 256, 64},
                              {'N', 'N', 64, 256, 64, 256},    {'N', 'N', 256, 32, 32, 32},
                              {'T', 'N', 8, 512, 512, 512}};

struct State {
  Shape3 s;
  std::vector<float> x, y, z;
  Attributes attributes;
  KernelCall call;
  std::vector<std::byte> workspace;
};

KernelTensor tensor(std::vector<float>& data, Shape shape) {
  return {reinterpret_cast<std::byte*>(data.data()), {f32, shape}, Shape(shape.size(), 0), shape};
}

std::shared_ptr<State> make_state(const Shape3& s, ThreadTeam& team) {
  auto state = std::make_shared<State>();
  state->s = s;
  const auto fill = [](std::vector<float>& v, std::int64_t n) {
    v.resize(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
  };
  fill(state->x, s.batch * s.m * s.k);
  fill(state->y, s.batch * s.k * s.n);
  fill(state->z, s.batch * s.m * s.n);
  const std::string x = s.tx == 'N' ? "bmk" : "bkm", y = s.ty == 'N' ? "bkn" : "bnk";
  state->attributes = {{"equation", x + "," + y + "->bmn"}};
  KernelCall& call = state->call;
  call.inputs = {
      tensor(state->x, s.tx == 'N' ? Shape{s.batch, s.m, s.k} : Shape{s.batch, s.k, s.m}),
      tensor(state->y, s.ty == 'N' ? Shape{s.batch, s.k, s.n} : Shape{s.batch, s.n, s.k})};
  call.outputs = {tensor(state->z, {s.batch, s.m, s.n})};
  call.attributes = &state->attributes;
  call.team = &team;
  call.threads = team.size();
  call.prepared = cpu::einsum.prepare(call);
  state->workspace.resize(static_cast<std::size_t>(cpu::einsum.workspace_bytes(call)) + 64);
  call.workspace = state->workspace.data() +
                   (64 - reinterpret_cast<std::uintptr_t>(state->workspace.data()) % 64) % 64;
  return state;
}

void direct(State& state) {
  const Shape3& s = state.s;
  for (std::int64_t b = 0; b < s.batch; ++b)
    dnnl_sgemm(s.tx, s.ty, s.m, s.n, s.k, 1.0f, state.x.data() + b * s.m * s.k,
               s.tx == 'N' ? s.k : s.m, state.y.data() + b * s.k * s.n, s.ty == 'N' ? s.n : s.k,
               0.0f, state.z.data() + b * s.m * s.n, s.n);
}

void measure(int rounds) {
  ThreadTeam team(usable_cores());
  for (const Shape3& s : kShapes) {
    const auto state = make_state(s, team);
    const double flops = 2.0 * static_cast<double>(s.batch) * s.m * s.n * s.k;
    const int repeats = std::max(1, static_cast<int>(1e9 / flops));
    std::vector<bench::Variant> variants{{"sgemm",
                                          [&] {
                                            for (int i = 0; i < repeats; ++i) direct(*state);
                                          }},
                                         {"einsum", [&] {
                                            for (int i = 0; i < repeats; ++i)
                                              cpu::einsum.run(state->call);
                                          }}};
    bench::interleave(variants, rounds, 0.05);
    fmt::print(
        R"({{"x": "{}", "y": "{}", "batch": {}, "m": {}, "n": {}, "k": {}, "sgemm_gflops": {:.1f}, "einsum_gflops": {:.1f}, "einsum_seconds_per_sgemm_second": {:.3f}}})"
        "\n",
        s.tx, s.ty, s.batch, s.m, s.n, s.k, flops * repeats / median(variants[0].seconds) * 1e-9,
        flops * repeats / median(variants[1].seconds) * 1e-9,
        bench::median_ratio(variants[1], variants[0]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 9;
  return bench::run(argc, argv, "The einsum kernel against oneDNN's sgemm.",
                    {cli::whole("--rounds", &rounds, "Counted rounds", 1, 1000)},
                    [&] { measure(rounds); });
}
