// CUDA kernels against a device copy of the same bytes, measured beside each of them in every
// round.
//   bench_cuda_kernels --help
// One JSON object per line: the bytes that must be read and written, per second, and the seconds of
// the copy over the kernel's (above 1: faster than the copy).
#include <algorithm>
#include <array>

#include "arguments.h"
#include "cuda_call.h"
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/combine.h"
#include "kernels/cuda/copy.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/layer_norm.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/update.h"
#include "kernels/elementwise.h"
#include "report.h"
#include "src/cuda/fused_kernel.h"

using namespace alpa;

namespace {

using cuda::Stream;

/// Of the kernels that a training step spends its time in; of the others nothing is asked.
constexpr double kAim = 0.85, kAimOfAdamBf16 = 0.95, kNoAim = 0;
constexpr int kParameters = 64;
constexpr std::int64_t kHeldBytes = std::int64_t{1} << 27;  ///< cleared before each measurement

void check(int status) { cuda::check(static_cast<cudaError_t>(status), "bench_cuda_kernels"); }

/// Buffers of one element type, each of rows × columns elements, random.
struct Setup {
  std::int64_t rows, columns;
  DType dtype;
  std::array<void*, 4> buffers;
  void* bias;

  std::int64_t elements() const { return rows * columns; }
  std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(size_of(dtype)); }
};

struct Measured {
  std::string name;
  std::int64_t bytes;  ///< read and written
  double aim;          ///< least ratio to the copy
  bench::Queue run;
  std::vector<double> seconds = {}, copy_seconds = {};
};

using All = std::vector<Measured>;

/// A fused elementwise program over (x, bias, z).
struct Fused {
  const char* name;
  std::vector<ElementwiseStep> steps;
  int inputs;  ///< 1: x, 2: x and bias, 3: all
};

std::vector<Fused> fused_programs() {
  const auto code = [](ElementwiseOp op) { return static_cast<int>(op); };
  using Op = ElementwiseOp;
  return {{"bias, gelu, mul",
           {{code(Op::add), 0, 1, -1}, {code(Op::gelu), 3, -1, -1}, {code(Op::mul), 4, 2, -1}},
           3},
          {"bias, relu", {{code(Op::add), 0, 1, -1}, {code(Op::relu), 2, -1, -1}}, 2},
          {"sigmoid, mul", {{code(Op::sigmoid), 0, -1, -1}, {code(Op::mul), 1, 0, -1}}, 1}};
}

void add_elementwise(All& all, const Setup& s, const Fused& fused) {
  ElementwiseProgram program;
  program.num_inputs = fused.inputs;
  program.steps = fused.steps;
  program.outputs = {fused.inputs + static_cast<int>(fused.steps.size()) - 1};
  static const Attributes none;
  KernelCall call;
  call.attributes = &none;
  const auto tensor = [&](Shape shape) {
    return KernelTensor{nullptr, {s.dtype, shape}, Shape(shape.size(), 0), shape};
  };
  const KernelTensor whole = tensor({s.rows, s.columns}),
                     inputs[] = {whole, tensor({s.columns}), whole};
  call.inputs.assign(inputs, inputs + fused.inputs);
  call.outputs = {whole};
  const kernels::ElementwisePlan plan = kernels::plan_elementwise(program, call);
  const std::vector<const void*> in = {s.buffers[0], s.bias, s.buffers[1]};
  const std::vector<void*> out = {s.buffers[2]};
  const std::int64_t bytes = (fused.inputs == 3 ? 3 : 2) * s.bytes();
  const std::string name = fmt::format("{} {}", fused.name, name_of(s.dtype));
  const CudaDevice card = cuda::device(0);
  const auto kernel = std::make_shared<cuda::FusedKernel>(plan, call, card.major * 10 + card.minor);
  all.push_back({name, bytes, kAim,
                 [=](Stream stream) { check(kernel->run(in.data(), out.data(), stream)); }});
  const cuda::ElementwiseLaunch launch = *cuda::lower_elementwise(plan, call);
  all.push_back({name + ", interpreted", bytes, kNoAim, [=](Stream stream) {
                   check(cuda::run_elementwise(launch, in.data(), out.data(), stream));
                 }});
}

/// Sums of an array of `shape` over the dimensions that `reduced` flags.
void add_sums(All& all, const Setup& s, const char* name, std::array<std::int64_t, 2> shape,
              std::array<bool, 2> reduced) {
  cuda::ReduceLaunch launch;
  require(
      cuda::plan_reduce(launch, ReduceOp::sum, s.dtype, s.dtype, 2, shape.data(), reduced.data()),
      "plan_reduce");
  void* const workspace =
      cuda::allocate_device(cuda::reduce_workspace_bytes(launch) + 16).release();
  all.push_back(
      {fmt::format("sums of {} {}", name, name_of(s.dtype)), s.bytes(), kAim, [=](Stream stream) {
         check(cuda::run_reduce(launch, s.buffers[0], s.buffers[2], workspace, stream));
       }});
}

void add_reductions(All& all, const Setup& s) {
  constexpr std::int64_t kLongLines = 8;
  add_sums(all, s, "columns", {s.rows, s.columns}, {true, false});
  add_sums(all, s, "lines", {s.rows, s.columns}, {false, true});
  add_sums(all, s, "8 long lines", {kLongLines, s.elements() / kLongLines}, {false, true});
  add_sums(all, s, "all", {s.rows, s.columns}, {true, true});
}

/// Rows of as many classes as GPT-2 has tokens, an odd number.
void add_cross_entropy(All& all, const Setup& s) {
  const std::int64_t classes = std::min<std::int64_t>(50257, s.elements());
  const cuda::CrossEntropyLaunch launch{
      .dtype = s.dtype, .rows = s.elements() / classes, .width = classes};
  const std::int64_t bytes = s.bytes() / s.elements() * classes * launch.rows;
  const auto zeros = [&] {
    void* const numbers = cuda::allocate_device(4 * launch.rows).release();
    check(cudaMemset(numbers, 0, 4 * launch.rows));
    return numbers;
  };
  const auto* const labels = static_cast<const std::int32_t*>(zeros());
  void *const lse = zeros(), *const target = zeros();
  all.push_back(
      {fmt::format("cross entropy {}", name_of(s.dtype)), bytes, kAim, [=](Stream stream) {
         check(cuda::run_cross_entropy(launch, s.buffers[0], labels, lse, target, stream));
       }});
  all.push_back({fmt::format("gradient of cross entropy {}", name_of(s.dtype)), 2 * bytes, kAim,
                 [=](Stream stream) {
                   check(cuda::run_cross_entropy_grad(
                       launch, {s.buffers[0], labels, lse, lse, target, s.buffers[2]}, stream));
                 }});
}

/// Rows of models' widths; the gradient, with the residual's added, reads dy and x twice.
void add_layer_norm(All& all, const Setup& s, std::int64_t width) {
  const cuda::LayerNormLaunch launch{
      .dtype = s.dtype, .rows = s.elements() / width, .width = width, .epsilon = 1e-5};
  const auto allocate = [](std::int64_t bytes) { return cuda::allocate_device(bytes).release(); };
  void *const mean = allocate(4 * launch.rows), *const rstd = allocate(4 * launch.rows),
              *const dscale = allocate(4 * width), *const dbias = allocate(4 * width),
              *const sums = allocate(cuda::column_pieces_bytes(launch.rows, width));
  const auto add = [&](const char* name, int tensors, double aim, const auto& queue) {
    all.push_back({fmt::format("{} of {} {}", name, width, name_of(s.dtype)), tensors * s.bytes(),
                   aim, [=](Stream stream) { check(queue(stream)); }});
  };
  add("layer norm", 2, kAim, [=](Stream stream) {
    return cuda::run_layer_norm(launch, {s.buffers[0], s.bias, s.bias, s.buffers[2], mean, rstd},
                                stream);
  });
  add("gradient of layer norm", 4, kNoAim, [=](Stream stream) {
    return cuda::run_layer_norm_grad(
        launch,
        {s.buffers[0], s.buffers[1], s.bias, mean, rstd, s.buffers[3], s.buffers[2], dscale, dbias},
        static_cast<double*>(sums), stream);
  });
}

/// Causal heads of 64 over 1024 tokens, on our own tensor-core kernels: what dropout costs.
void add_attention(All& all, const Setup& s, double dropout) {
  if (s.dtype != bf16) return;
  kernels::AttentionShape shape;
  shape.dtype = bf16, shape.width = 64, shape.scale = 0.125, shape.dropout = dropout;
  shape.queries = shape.keys = std::min<std::int64_t>(1024, s.elements() / shape.width);
  shape.heads = shape.key_heads = s.elements() / (shape.width * shape.queries);
  shape.draws_of_head = shape.queries * shape.keys;
  const auto allocate = [](std::int64_t bytes) { return cuda::allocate_device(bytes).release(); };
  void *const lse = allocate(4 * shape.heads * shape.queries),
              *const delta = allocate(4 * shape.heads * shape.queries),
              *const dk = allocate(s.bytes()), *const dv = allocate(s.bytes());
  static void* const step = allocate(sizeof(cuda::StepNumbers));
  check(cudaMemset(step, 0, sizeof(cuda::StepNumbers)));
  check(cudaMemset(delta, 0, 4 * shape.heads * shape.queries));
  const auto* const numbers = static_cast<const cuda::StepNumbers*>(step);
  const void* const x = s.buffers[0];
  all.push_back(
      {fmt::format("attention, dropout {}", dropout), 4 * s.bytes(), kNoAim, [=](Stream stream) {
         check(cuda::run_attention_tiles(shape, {x, x, x, {}, s.buffers[2], lse}, numbers, stream));
       }});
  all.push_back({fmt::format("gradient of attention, dropout {}", dropout), 8 * s.bytes(), kNoAim,
                 [=](Stream stream) {
                   check(cuda::run_attention_grad_tiles(
                       shape,
                       {s.buffers[1], x, x, x, s.buffers[2], lse, {}, delta, s.buffers[3], dk, dv},
                       numbers, stream));
                 }});
}

void add_transpose(All& all, const Setup& s) {
  const std::int64_t extent[] = {s.columns, s.rows}, from[] = {1, s.columns}, to[] = {s.rows, 1};
  cuda::CopyLaunch launch;
  require(cuda::plan_copy(launch, static_cast<int>(size_of(s.dtype)), 2, extent, from, to),
          "plan_copy");
  all.push_back(
      {fmt::format("transpose {}", name_of(s.dtype)), 2 * s.bytes(), kAim,
       [=](Stream stream) { check(cuda::run_copy(launch, s.buffers[0], s.buffers[1], stream)); }});
}

/// Adam of equal parameters, whose m, v and gradient are of their type; then the gradients' norms.
void add_updates(All& all, const Setup& s) {
  const std::int64_t each = s.elements() / kParameters;
  const std::int64_t stride = each * static_cast<std::int64_t>(size_of(s.dtype));
  std::vector<cuda::UpdateTensor> tensors(kParameters);
  std::vector<cuda::NormTensor> norms(kParameters);
  auto* const sums = static_cast<double*>(
      cuda::allocate_device((kParameters * cuda::chunks_of(each) + kParameters) * 8).release());
  for (int i = 0; i < kParameters; ++i) {
    const auto at = [&](int buffer) {
      return static_cast<std::byte*>(s.buffers[buffer]) + i * stride;
    };
    cuda::UpdateTensor& t = tensors[i];
    t.w = t.new_w = at(0), t.first = t.new_first = at(1), t.second = t.new_second = at(2),
    t.gradient = at(3);
    t.w_type = t.first_type = t.second_type = t.gradient_type = s.dtype, t.elements = each;
    norms[i] = {at(3), sums + i, s.dtype, f64, each};
  }
  void* const one = cuda::allocate_device(4).release();
  // a rate with which nothing changes much, and a step number that counts as 1
  const float value = 1e-7F;
  check(cudaMemcpy(one, &value, 4, cudaMemcpyHostToDevice));
  all.push_back(
      {fmt::format("Adam of {} parameters {}", kParameters, name_of(s.dtype)), 7 * s.bytes(),
       s.dtype == bf16 ? kAimOfAdamBf16 : kAim, [=](Stream stream) {
         check(cuda::run_adam(tensors.data(), kParameters, {}, {one, f32}, {one, f32}, stream));
       }});
  all.push_back(
      {fmt::format("squared norms of {} gradients {}", kParameters, name_of(s.dtype)), s.bytes(),
       kNoAim, [=](Stream stream) {
         check(cuda::run_squared_norms(norms.data(), kParameters, sums + kParameters, stream));
       }});
}

void add_random(All& all, const Setup& s) {
  const std::int64_t extent[] = {s.elements()}, at[] = {0};
  static void* const step = cuda::allocate_device(sizeof(cuda::StepNumbers)).release();
  check(cudaMemset(step, 0, sizeof(cuda::StepNumbers)));
  for (const auto distribution : {cuda::Distribution::uniform, cuda::Distribution::normal}) {
    cuda::RandomLaunch launch;
    require(cuda::plan_random(launch, distribution, s.dtype, 1, 0, 1, 1, extent, at, extent),
            "plan_random");
    all.push_back({fmt::format("random {} {}",
                               distribution == cuda::Distribution::normal ? "normal" : "uniform",
                               name_of(s.dtype)),
                   s.bytes(), kNoAim, [=](Stream stream) {
                     check(cuda::run_random(launch, static_cast<const cuda::StepNumbers*>(step),
                                            s.buffers[2], stream));
                   }});
  }
}

/// An all_reduce of eight logical devices: all read, all written.
void add_all_reduce(All& all, const Setup& s) {
  constexpr int kMembers = 8;
  std::vector<void*> members;
  for (int i = 0; i < kMembers; ++i)
    members.push_back(static_cast<std::byte*>(s.buffers[2]) + i * (s.bytes() / kMembers));
  all.push_back({fmt::format("all_reduce of 8 logical devices {}", name_of(s.dtype)), 2 * s.bytes(),
                 kNoAim, [=](Stream stream) {
                   check(cuda::run_combine(s.dtype, Combiner::sum,
                                           cuda::whole_box(s.elements() / kMembers), kMembers,
                                           const_cast<const void* const*>(members.data()), kMembers,
                                           members.data(), stream));
                 }});
}

All measurements(const Setup& s) {
  All all;
  for (const Fused& fused : fused_programs()) add_elementwise(all, s, fused);
  add_reductions(all, s);
  add_cross_entropy(all, s);
  for (const std::int64_t part : {8, 4, 2}) add_layer_norm(all, s, s.columns / part);
  for (const double dropout : {0.0, 0.1}) add_attention(all, s, dropout);
  add_transpose(all, s);
  add_updates(all, s);
  add_random(all, s);
  add_all_reduce(all, s);
  return all;
}

/// Adam's second moments, in buffer 2, are at least 0.
void randomize(const Setup& s) {
  for (std::size_t i = 0; i < s.buffers.size(); ++i)
    bench::randomize(s.buffers[i], s.dtype, s.elements(), i == 2 ? 0 : -1, 1);
  bench::randomize(s.bias, s.dtype, s.columns);
}

void print(const Measured& m) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < m.seconds.size(); ++i)
    ratios.push_back(m.copy_seconds[i] / m.seconds[i]);
  bench::print_row(
      m.name,
      {{"gigabytes_per_second", static_cast<double>(m.bytes) / median(m.seconds) * 1e-9},
       {"ratio_to_copy", median(ratios)}},
      m.aim == kNoAim ? bench::Aim{} : bench::Aim{"ratio_to_copy", m.aim});
}

/// Every measurement and its copy in every round, each on fresh numbers.
void measure(std::int64_t rows, std::int64_t columns, int rounds) {
  if (!bench::have_card()) return;
  void *copied[2], *bias = cuda::allocate_device(4 * columns).release();
  Setup setup{rows, columns, f32, {}, bias};
  for (void*& buffer : setup.buffers) buffer = cuda::allocate_device(setup.bytes()).release();
  // Half of the most bytes that a measurement moves is read, half written.
  for (void*& buffer : copied) buffer = cuda::allocate_device(7 * setup.bytes() / 2).release();
  bench::randomize(copied[0], f32, 7 * setup.elements() / 2);
  for (const DType dtype : {bf16, f32}) {
    setup.dtype = dtype;
    All all = measurements(setup);
    for (int round = -1; round < rounds; ++round)
      for (Measured& m : all) {
        randomize(setup);
        const std::int64_t held = std::min(m.bytes, kHeldBytes);
        const auto copy = [&](Stream stream) {
          check(
              cudaMemcpyAsync(copied[1], copied[0], m.bytes / 2, cudaMemcpyDeviceToDevice, stream));
        };
        const double copy_seconds = bench::timed(copy, held), seconds = bench::timed(m.run, held);
        if (round >= 0) m.seconds.push_back(seconds), m.copy_seconds.push_back(copy_seconds);
      }
    for (const Measured& m : all) print(m);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t rows = 16384, columns = 8192;
  int rounds = 15;
  return bench::run(argc, argv, "CUDA kernels against a copy of the same bytes.",
                    {cli::whole("--rows", &rows, "Rows, a multiple of 64", 64, 1 << 20),
                     cli::whole("--columns", &columns, "Columns, a multiple of 8", 8, 1 << 20),
                     cli::whole("--rounds", &rounds, "Counted rounds", 1, 1000)},
                    [&] { measure(rows, columns, rounds); });
}
