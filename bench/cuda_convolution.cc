// DnnPlans of a Wide-ResNet in bf16, forward and both gradients: cuDNN's engine as programs
// load it against the first one that cuDNN proposes.
//   bench_cuda_convolution --help
// One JSON object per line; bench/peers/convolution.py measures PyTorch on the same layers.
#include "arguments.h"
#include "cuda_call.h"
#include "report.h"
#include "src/cuda/dnn_plans.h"

using namespace alpa;

namespace {

/// Choosing an engine costs no more than engines differ from run to run.
constexpr double kAim = 0.97;

struct Sizes {
  std::int64_t batch = 32;
  int rounds = 11, runs = 10;
  bool tiny = false;
};

/// 3 × 3 with padding 1.
struct Layer {
  std::int64_t side, channels, features, stride;
};

std::vector<Layer> layers_of(bool tiny) {
  if (tiny) return {{6, 8, 8, 1}};
  return {{56, 160, 160, 1},
          {56, 160, 320, 2},
          {28, 320, 320, 1},
          {14, 640, 640, 1},
          {7, 1280, 1280, 1}};
}

struct Measured {
  std::string layer, pass;
  double flops;
  bench::Queue chosen, first;
  std::vector<double> seconds = {}, first_seconds = {};
};

void add_layer(std::vector<Measured>& all, const Layer& layer, std::int64_t batch, cuda::Gpu card,
               cuda::DnnPlans& chosen, cuda::DnnPlans& first) {
  using Numbers = std::vector<std::int64_t>;
  const std::int64_t out = (layer.side - 1) / layer.stride + 1;
  const TensorType x{bf16, {batch, layer.side, layer.side, layer.channels}},
      kernel{bf16, {3, 3, layer.channels, layer.features}},
      y{bf16, {batch, out, out, layer.features}};
  const auto attributes = [&](const Numbers& extents) {
    Attributes all{{"stride", Numbers{layer.stride, layer.stride}},
                   {"dilation", Numbers{1, 1}},
                   {"padding", Numbers{1, 1, 1, 1}},
                   {"groups", std::int64_t{1}}};
    if (!extents.empty()) all.set("extents", extents);
    return all;
  };
  const auto add = [&](const char* pass, const OpDef& op, const TensorType& a, const TensorType& b,
                       const Numbers& extents) {
    const auto loaded = [&](cuda::DnnPlans& dnn) {
      card.dnn = &dnn;
      return bench::loaded(op, attributes(extents), {a, b}, card);
    };
    const double flops = 2.0 * 9 * static_cast<double>(y.elements() * layer.channels);
    all.push_back({fmt::format("{}x{} {} to {} stride {} batch {}", layer.side, layer.side,
                               layer.channels, layer.features, layer.stride, batch),
                   pass, flops, loaded(chosen), loaded(first)});
  };
  add("forward", ops::conv2d, x, kernel, {});
  add("dx", ops::conv2d_grad_x, y, kernel, {layer.side, layer.side});
  add("dkernel", ops::conv2d_grad_kernel, x, y, {3, 3});
}

void print(const Measured& m) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < m.seconds.size(); ++i)
    ratios.push_back(m.first_seconds[i] / m.seconds[i]);
  const double seconds = median(m.seconds);
  bench::print_row(fmt::format("{}, {}", m.layer, m.pass),
                   {{"median_seconds", seconds},
                    {"teraflops", m.flops / seconds * 1e-12},
                    {"ratio_to_first", median(ratios)}},
                   {"ratio_to_first", kAim}, {{"who", "alpa"}, {"precision", "bf16"}});
}

void measure(const Sizes& sizes) {
  if (!bench::have_card()) return;
  cuda::Matmuls products;
  cuda::DnnPlans chosen({.cached = false}), first({.measured = false, .cached = false});
  std::vector<Measured> all;
  for (const Layer& layer : layers_of(sizes.tiny))
    add_layer(all, layer, sizes.batch, bench::first_card(products), chosen, first);
  constexpr std::int64_t kHeldBytes = std::int64_t{1} << 27;
  for (int round = -1; round < sizes.rounds; ++round)
    for (Measured& m : all) {
      const double seconds = bench::timed(m.chosen, kHeldBytes, sizes.runs),
                   first_seconds = bench::timed(m.first, kHeldBytes, sizes.runs);
      if (round >= 0) m.seconds.push_back(seconds), m.first_seconds.push_back(first_seconds);
    }
  for (const Measured& m : all) print(m);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return bench::run(argc, argv, "DnnPlans of a Wide-ResNet through cuDNN.",
                    {cli::whole("--batch", &sizes.batch, "Images", 1, 4096),
                     cli::whole("--rounds", &sizes.rounds, "Counted rounds", 1, 1000),
                     cli::whole("--runs", &sizes.runs, "DnnPlans in a row", 1, 1000),
                     cli::on("--tiny", &sizes.tiny, "One small layer")},
                    [&] { measure(sizes); });
}
