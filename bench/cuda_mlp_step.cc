// The whole training step of an MLP (Dense + bias, ReLU between, mean squared error, Adam) on one
// GPU, in bf16, TF32 and f32, against its matrix products alone, and against the time of its
// kernels: what the step takes beyond them are the gaps. With --logical the step of 8 logical
// devices against that of one. A round is STEPS steps, started without looking at the loss.
//   bench_cuda_mlp_step --help
// bench/peers/mlp_step.py is the same step in PyTorch and JAX. Their batch stays on the
// card, as in our rows "batch": "resident"; in rows "batch": "uploaded" it comes from the
// host's memory in every step.
#include <algorithm>

#include "arguments.h"
#include "cuda_resident_step.h"
#include "mlp.h"
#include "report.h"
#include "src/cuda/captured_step.h"
#include "src/cuda_loader/cuda_library.h"

using namespace alpa;

namespace {

struct Sizes : bench::MlpSizes {
  int rounds = 5, steps = 200;
};

struct Precision {
  const char* name;
  DType dtype;
  bool tf32;
};
constexpr Precision kPrecisions[] = {
    {"bf16", bf16, false}, {"tf32", f32, true}, {"f32", f32, false}};

/// What the step should be: at least so much of its time is its products', and
/// less than so much is gaps.
const bench::Aim kProducts{"products_over_step", 0.80}, kGaps{"gaps_over_step", 0.05, true};

template <class M>
M with_precision(M method, const Precision& precision) {
  method.executor.tf32 = precision.tf32;
  return method;
}

/// The products of a step on their own, each on operands of its own: forward and kernel gradient of
/// every layer, input gradient of all but the first.
std::vector<bench::Queue> products_of(const Sizes& sizes, const Precision& precision,
                                      const cuda::Gpu& card) {
  const TensorType x{precision.dtype, {sizes.batch, sizes.dim}},
      w{precision.dtype, {sizes.dim, sizes.dim}};
  const auto product = [&](const char* equation, const TensorType& a, const TensorType& b) {
    return bench::loaded(ops::einsum, {{"equation", equation}}, {a, b}, card);
  };
  std::vector<bench::Queue> products;
  for (std::int64_t i = 0; i < sizes.layers; ++i) products.push_back(product("mk,kn->mn", x, w));
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    products.push_back(product("mk,mn->kn", x, x));
    if (i > 0) products.push_back(product("mn,kn->mk", x, w));
  }
  return products;
}

/// All of them `steps` times, as a graph that was captured after each had run.
std::function<void()> replayed(const std::vector<bench::Queue>& products, int steps) {
  const auto stream = std::make_shared<cuda::StreamHandle>(cuda::make_stream());
  const auto queue = [=] {
    for (const bench::Queue& product : products) product(stream->get());
  };
  const auto wait = [=] {
    cuda::check(cudaStreamSynchronize(stream->get()), "cudaStreamSynchronize");
  };
  queue();
  wait();
  const auto graph = std::make_shared<cuda::GraphExec>(cuda::capture(stream->get(), queue));
  return [=] {
    for (int i = 0; i < steps; ++i)
      cuda::check(cudaGraphLaunch(graph->get(), stream->get()), "cudaGraphLaunch");
    wait();
  };
}

/// The executor's steps, which read the batch from the host. The last loss goes into `loss`.
bench::Variant uploaded(std::string name, const Sizes& sizes, const Precision& precision,
                        const Method& method, int devices,
                        std::shared_ptr<double> loss = std::make_shared<double>()) {
  return {std::move(name),
          [loss,
           run = bench::mlp_runner(sizes, method, Cluster::local(devices, "cuda"), precision.dtype),
           steps = sizes.steps] {
            for (int i = 1; i < steps; ++i) run();
            *loss = run().loss();
          }};
}

/// Median seconds of one step.
double seconds_of_step(const bench::Variant& variant, int steps) {
  return median(variant.seconds) / steps;
}

/// Where the time of a step goes, by operator, and what is left: the gaps.
void print_kernels(const std::map<std::string, bench::ResidentStep::Kernels>& kernels, double step,
                   const Precision& precision) {
  const bench::Labels labels{{"who", "alpa"}, {"precision", precision.name}};
  double sum = 0, with_gaps = 0;
  for (const auto& [op, of_operator] : kernels) {
    sum += of_operator.seconds, with_gaps += of_operator.with_gaps;
    bench::print_row(fmt::format("kernels of {}", op.empty() ? "loads and fills" : op),
                     {{"instructions", static_cast<double>(of_operator.instructions)},
                      {"seconds", of_operator.seconds},
                      {"of_step", of_operator.seconds / step}},
                     {}, labels);
  }
  bench::print_row(
      "kernels of the step",
      {{"seconds", sum}, {"seconds_with_gaps", with_gaps}, {kGaps.figure, 1 - sum / step}}, kGaps,
      labels);
}

void measure_one_device(const Sizes& sizes, const Precision& precision) {
  cuda::Matmuls products({.tf32 = precision.tf32});
  const Serial method = with_precision(Serial{}, precision);
  bench::ResidentStep resident(bench::mlp_step(sizes, precision.dtype), method,
                               bench::random_batch(sizes, precision.dtype));
  Serial overlapping = method;
  overlapping.executor.overlap_updates = true;
  bench::ResidentStep aside(bench::mlp_step(sizes, precision.dtype), overlapping,
                            bench::random_batch(sizes, precision.dtype));
  const auto loss = std::make_shared<double>();
  std::vector<bench::Variant> variants{
      {"products alone",
       replayed(products_of(sizes, precision, bench::first_card(products)), sizes.steps)},
      {"step", [&] { resident.run(sizes.steps); }},
      uploaded("step", sizes, precision, method, 1, loss),
      {"step, updates beside products", [&] { aside.run(sizes.steps); }}};
  bench::interleave(variants, sizes.rounds);
  const auto print = [&](int i, const char* batch, std::vector<bench::Figure> more,
                         const bench::Aim& aim) {
    bench::Labels labels{{"who", "alpa"}, {"model", "mlp"}, {"precision", precision.name}};
    if (*batch != '\0') labels.push_back({"batch", batch});
    std::vector<bench::Figure> figures{
        {"median_seconds", seconds_of_step(variants[i], sizes.steps)},
        {"best_seconds",
         *std::min_element(variants[i].seconds.begin(), variants[i].seconds.end()) / sizes.steps}};
    figures.insert(figures.end(), more.begin(), more.end());
    bench::print_row(variants[i].name, figures, aim, labels);
  };
  const auto products_over = [&](int i) {
    return bench::Figure{kProducts.figure, bench::median_ratio(variants[0], variants[i])};
  };
  print(0, "", {}, {});
  print(1, "resident",
        {products_over(1),
         {"launches", static_cast<double>(resident.launches())},
         {"loss", resident.loss()}},
        kProducts);
  print(2, "uploaded", {products_over(2), {"loss", *loss}}, kProducts);
  print(3, "resident",
        {products_over(3),
         {"over_step", bench::median_ratio(variants[3], variants[1])},
         {"launches", static_cast<double>(aside.launches())},
         {"loss", aside.loss()}},
        kProducts);
  print_kernels(resident.kernels(4 * sizes.rounds), seconds_of_step(variants[1], sizes.steps),
                precision);
}

void measure_logical_devices(const Sizes& sizes) {
  if (cuda_support().devices > 1) {
    fmt::print("skipped: {} cards, and a card each is another measurement\n",
               cuda_support().devices);
    return;
  }
  const Precision& precision = kPrecisions[1];
  const auto on_eight = [&](const char* name, const auto& method) {
    return uploaded(fmt::format("8 logical devices, {}", name), sizes, precision,
                    with_precision(method, precision), 8);
  };
  std::vector<bench::Variant> variants{
      uploaded("1 device", sizes, precision, with_precision(Serial{}, precision), 1),
      on_eight("data", DataParallel{}), on_eight("zero2", Zero2Parallel{}),
      on_eight("zero3", Zero3Parallel{}), on_eight("shard", ShardParallel{})};
  bench::interleave(variants, sizes.rounds);
  for (const bench::Variant& variant : variants)
    bench::print_row(variant.name,
                     {{"median_seconds", seconds_of_step(variant, sizes.steps)},
                      {"ratio_to_1_device", bench::median_ratio(variant, variants[0])}},
                     {}, {{"who", "alpa"}, {"precision", precision.name}, {"batch", "uploaded"}});
}

void measure(const Sizes& sizes, bool logical) {
  if (!cuda_support().usable()) {
    fmt::print("skipped: {}\n", cuda_support().reason);
    return;
  }
  if (logical) return measure_logical_devices(sizes);
  for (const Precision& precision : kPrecisions) measure_one_device(sizes, precision);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  sizes.dim = sizes.batch = 2048;
  bool logical = false;
  std::vector<cli::Flag> flags = bench::size_flags(sizes);
  flags.push_back(cli::whole("--rounds", &sizes.rounds, "Counted rounds", 1, 1000));
  flags.push_back(cli::whole("--steps", &sizes.steps, "Steps of a round", 1, 1 << 20));
  flags.push_back(cli::on("--logical", &logical, "8 logical devices against one instead"));
  return bench::run(argc, argv, "The training step of an MLP on one GPU.", flags,
                    [&] { measure(sizes, logical); });
}
