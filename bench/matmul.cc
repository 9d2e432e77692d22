// The einsum kernel against dnnl::sgemm called directly (its own threads), shape by shape, and
// batched products against a loop of sgemm calls. --libraries adds others, which are loaded: files
// with oneDNN's or BLAS's interface. They run with the threads that their environment gives them.
//   bench_matmul --help
#include <dlfcn.h>
#include <dnnl.h>

#include <algorithm>
#include <memory>
#include <sstream>

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
constexpr Shape3 kShapes[] = {{'N', 'N', 1, 1024, 1024, 1024},
                              {'N', 'T', 1, 1024, 1024, 1024},
                              {'T', 'N', 1, 1024, 1024, 1024},
                              {'N', 'N', 1, 512, 512, 512},
                              {'N', 'N', 1, 2048, 8192, 2048},
                              {'T', 'N', 1, 2048, 8192, 2048},
                              {'N', 'N', 1, 256, 4096, 1024},
                              {'N', 'T', 1, 256, 1024, 4096},
                              {'T', 'N', 1, 1024, 4096, 256},
                              {'N', 'N', 1, 128, 128, 128},
                              {'N', 'N', 1, 60, 10, 784},
                              {'N', 'T', 64, 256, 256, 64},
                              {'N', 'N', 64, 256, 64, 256},
                              {'N', 'N', 256, 32, 32, 32},
                              {'T', 'N', 8, 512, 512, 512},
                              // Steps of an MLP of 256 and of a GPT of 512, forward and backward.
                              {'N', 'N', 1, 64, 256, 256},
                              {'T', 'N', 1, 256, 256, 64},
                              {'N', 'N', 1, 1024, 512, 512},
                              {'N', 'T', 1, 1024, 512, 512},
                              {'T', 'N', 1, 512, 512, 1024},
                              {'N', 'N', 1, 1024, 2048, 512},
                              {'N', 'N', 1, 1024, 512, 2048},
                              {'N', 'T', 1, 1024, 2048, 512},
                              {'T', 'N', 1, 512, 2048, 1024},
                              {'T', 'N', 1, 2048, 512, 1024},
                              {'N', 'T', 1, 1024, 8192, 512},
                              {'N', 'N', 1, 1024, 512, 8192},
                              {'T', 'N', 1, 8192, 512, 1024}};

struct Options {
  int rounds = 9, threads = usable_cores();
  std::string libraries;
};

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

using Sgemm = decltype(&dnnl_sgemm);
using CblasSgemm = void (*)(int order, int ta, int tb, int m, int n, int k, float alpha,
                            const float* a, int lda, const float* b, int ldb, float beta, float* c,
                            int ldc);

/// A library's product of row-major matrices.
struct Library {
  std::string name = "sgemm";
  Sgemm sgemm = &dnnl_sgemm;
  CblasSgemm cblas = nullptr;

  void multiply(const Shape3& s, const float* x, const float* y, float* z) const {
    const std::int64_t lead_x = s.tx == 'N' ? s.k : s.m, lead_y = s.ty == 'N' ? s.n : s.k;
    constexpr int kRowMajor = 101, kNot = 111, kTransposed = 112;
    if (sgemm)
      sgemm(s.tx, s.ty, s.m, s.n, s.k, 1.0f, x, lead_x, y, lead_y, 0.0f, z, s.n);
    else
      cblas(kRowMajor, s.tx == 'N' ? kNot : kTransposed, s.ty == 'N' ? kNot : kTransposed,
            static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k), 1.0f, x,
            static_cast<int>(lead_x), y, static_cast<int>(lead_y), 0.0f, z, static_cast<int>(s.n));
  }
};

Library load(const std::string& path) {
  void* const file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  require(file != nullptr, "--libraries: {}", file == nullptr ? dlerror() : "");
  Library library{path.substr(path.rfind('/') + 1),
                  reinterpret_cast<Sgemm>(dlsym(file, "dnnl_sgemm")),
                  reinterpret_cast<CblasSgemm>(dlsym(file, "cblas_sgemm"))};
  require(library.sgemm || library.cblas, "--libraries: {} has neither dnnl_sgemm nor cblas_sgemm",
          path);
  return library;
}

std::vector<Library> libraries_of(const Options& options) {
  std::vector<Library> libraries(1);
  std::istringstream paths(options.libraries);
  for (std::string path; std::getline(paths, path, ',');) libraries.push_back(load(path));
  return libraries;
}

void direct(State& state, const Library& library) {
  const Shape3& s = state.s;
  for (std::int64_t b = 0; b < s.batch; ++b)
    library.multiply(s, state.x.data() + b * s.m * s.k, state.y.data() + b * s.k * s.n,
                     state.z.data() + b * s.m * s.n);
}

/// The first variant is oneDNN's sgemm, the second the kernel.
void measure(const Options& options) {
  ThreadTeam team(options.threads);
  const std::vector<Library> libraries = libraries_of(options);
  for (const Shape3& s : kShapes) {
    const auto state = make_state(s, team);
    const double flops = 2.0 * static_cast<double>(s.batch) * s.m * s.n * s.k;
    const int repeats = std::max(1, static_cast<int>(1e9 / flops));
    const auto repeated = [repeats](std::function<void()> run) {
      return [=] {
        for (int i = 0; i < repeats; ++i) run();
      };
    };
    std::vector<bench::Variant> variants;
    for (const Library& library : libraries)
      variants.push_back({library.name, repeated([&] { direct(*state, library); })});
    variants.insert(variants.begin() + 1,
                    {"einsum", repeated([&] { cpu::einsum.run(state->call); })});
    bench::interleave(variants, options.rounds, 0.05);
    fmt::print(R"({{"x": "{}", "y": "{}", "batch": {}, "m": {}, "n": {}, "k": {}, )", s.tx, s.ty,
               s.batch, s.m, s.n, s.k);
    for (const bench::Variant& variant : variants)
      fmt::print(R"("{}_gflops": {:.1f}, )", variant.name,
                 flops * repeats / median(variant.seconds) * 1e-9);
    fmt::print("\"einsum_seconds_per_sgemm_second\": {:.3f}}}\n",
               bench::median_ratio(variants[1], variants[0]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return bench::run(
      argc, argv, "The einsum kernel against oneDNN's sgemm.",
      {cli::whole("--rounds", &options.rounds, "Counted rounds", 1, 1000),
       cli::whole("--threads", &options.threads, "Threads of the kernel", 1, 1024),
       cli::text("--libraries", &options.libraries, "Files of other libraries, with commas")},
      [&] { measure(options); });
}
