// The whole training step of an MLP (Dense + bias, ReLU between, mean squared error, Adam) on one GPU, in
// f32, f32 with TF32 products, and bf16, against (a) its matrix products alone, with the same algorithms,
// captured as one graph, and (b) the time of its instructions one by one, each repeated: what the step
// takes beyond them are the gaps. Then the step of 8 logical devices against that of one. A round is STEPS
// steps, started without looking at the loss; batches come from the host's memory.
//   bench_cuda_mlp_step [DIM [BATCH [LAYERS [ROUNDS [STEPS]]]]]      defaults: 2048 2048 10 5 20
// bench/peers/mlp_step.py is the same step in PyTorch and JAX.
#include <alpa/alpa.h>

#include <optional>
#include <random>

#include "alpa/device/cuda_library.h"
#include "alpa/runtime/memory_plan.h"
#include "interleave.h"
#include "src/cuda/captured_step.h"
#include "src/cuda/loaded_device.h"
#include "src/cuda/product.h"

using namespace alpa;

namespace {

struct Sizes {
  std::int64_t dim = 2048, batch = 2048, layers = 10;
  int rounds = 5, steps = 20;
};

struct Precision {
  const char* name;
  DType dtype;
  bool tf32;
};
constexpr Precision kPrecisions[] = {{"f32", f32, false}, {"tf32", f32, true}, {"bf16", bf16, false}};

TrainingStep mlp_step(const Sizes& sizes, DType dtype) {
  auto mlp = std::make_shared<nn::Sequential>();
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    mlp->add(nn::Dense(sizes.dim));
    if (i + 1 < sizes.layers) mlp->add(nn::ReLU());
  }
  const TensorType type{dtype, {sizes.batch, sizes.dim}};
  return training_step(
      {{"x", type}, {"y", type}},
      [mlp](const Batch& batch) { return nn::mean_squared_error((*mlp)(batch["x"]), batch["y"]); },
      optim::Adam{.learning_rate = 1e-3});
}

std::map<std::string, Array> random_batch(const Sizes& sizes, DType dtype) {
  std::map<std::string, Array> batch;
  for (const char* name : {"x", "y"}) {
    Array array({f32, {sizes.batch, sizes.dim}});
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    for (float& x : array.mutable_elements_as<float>()) x = normal(engine);
    batch.emplace(name, array.cast(dtype));
  }
  return batch;
}

template <class M>
Method with_precision(M method, const Precision& precision) {
  method.executor.tf32 = precision.tf32;
  return method;
}

/// `steps` steps, then their last loss.
bench::Variant step_variant(std::string name, const Sizes& sizes, const Precision& precision,
                            const Method& method, int devices) {
  auto executable = std::make_shared<Executable>(
      parallelize(mlp_step(sizes, precision.dtype), method, Cluster::local(devices, "cuda")));
  auto state = std::make_shared<TrainState>(executable->init(0));
  auto batch = std::make_shared<std::map<std::string, Array>>(random_batch(sizes, precision.dtype));
  return {std::move(name), [=] {
            std::optional<Metrics> last;
            for (int i = 0; i < sizes.steps; ++i) last = executable->run(*state, *batch);
            last->loss();
          }};
}

/// The program of one device, loaded beside the executor's, to run parts of it.
class Parts {
 public:
  Parts(const Sizes& sizes, const Precision& precision)
      : planned_(plan_only(mlp_step(sizes, precision.dtype), with_precision(Serial{}, precision),
                           Cluster::local(1, "cuda"))),
        products_(cuda::ProductOptions{precision.tf32, true, true}),
        device_(planned_.program, lower(planned_.program, 0, true, memory_rules("cuda")),
                cuda::Card{0, 90, &products_}),
        arena_(cuda::allocate_device(device_.program().arena_bytes)) {
    fill(random_batch(sizes, precision.dtype).at("x"));
    device_.place(static_cast<std::byte*>(arena_.get()), 0);
  }

  /// Queues the matrix products of a step `steps` times, and waits.
  std::function<void()> products(int steps) {
    auto graph = std::make_shared<cuda::GraphExec>(cuda::capture(device_.compute(), [&] {
      for (cuda::Operation& operation : device_.apply())
        if (name_of_operator(operation).starts_with("einsum")) device_.queue(operation, 0);
    }));
    return [this, graph, steps] {
      for (int i = 0; i < steps; ++i)
        cuda::check(cudaGraphLaunch(graph->get(), device_.compute()), "cudaGraphLaunch");
      cuda::check(cudaStreamSynchronize(device_.compute()), "cudaStreamSynchronize");
    };
  }

  /// Seconds of all instructions of a step, each from repeating it alone.
  double instruction_seconds() {
    constexpr int kRepeats = 20;
    const cuda::EventHandle begin = cuda::make_event(true), end = cuda::make_event(true);
    double seconds = 0;
    for (cuda::Operation& operation : device_.apply()) {
      const cuda::GraphExec graph = cuda::capture(device_.compute(), [&] {
        for (int i = 0; i < kRepeats; ++i) device_.queue(operation, 0);
      });
      float milliseconds = 0;
      for (int round = 0; round < 2; ++round) {  // the first warms up
        cuda::check(cudaEventRecord(begin.get(), device_.compute()), "cudaEventRecord");
        cuda::check(cudaGraphLaunch(graph.get(), device_.compute()), "cudaGraphLaunch");
        cuda::check(cudaEventRecord(end.get(), device_.compute()), "cudaEventRecord");
        cuda::check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
        cuda::check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
      }
      seconds += milliseconds * 1e-3 / kRepeats;
    }
    return seconds;
  }

 private:
  /// Random numbers everywhere: products of zeros draw less power and run faster than any real ones.
  void fill(const Array& numbers) {
    for (std::int64_t at = 0; at < device_.program().arena_bytes; at += numbers.bytes())
      cuda::check(
          cudaMemcpy(static_cast<std::byte*>(arena_.get()) + at, numbers.data(),
                     std::min(numbers.bytes(), device_.program().arena_bytes - at), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }

  std::string_view name_of_operator(const cuda::Operation& operation) const {
    if (operation.instruction->kind != Instruction::Kind::compute) return "";
    return planned_.program.graph.nodes[operation.instruction->node].op->name;
  }

  Planned planned_;
  cuda::Products products_;
  cuda::LoadedDevice device_;
  cuda::DeviceBlock arena_;
};

/// Seconds of one step instead of a round's.
void per_step(std::vector<bench::Variant>& variants, int steps) {
  for (bench::Variant& variant : variants)
    for (double& seconds : variant.seconds) seconds /= steps;
}

void measure_one_device(const Sizes& sizes, const Precision& precision) {
  Parts parts(sizes, precision);
  std::vector<bench::Variant> variants{
      {fmt::format("products alone, {}", precision.name), parts.products(sizes.steps)}};
  variants.push_back(step_variant(fmt::format("step, {}", precision.name), sizes, precision,
                                  with_precision(Serial{}, precision), 1));
  bench::interleave(variants, sizes.rounds);
  per_step(variants, sizes.steps);
  bench::print(variants);
  const double instructions = parts.instruction_seconds(), step = bench::median(variants[1].seconds);
  fmt::print(R"({{"name": "instructions one by one, {}", "seconds": {:.6g}, "gaps_of_step": {:.3f}}})"
             "\n",
             precision.name, instructions, 1 - instructions / step);
}

void measure_logical_devices(const Sizes& sizes) {
  if (cuda_support().devices > 1) return;  // a card each is another measurement
  const Precision& precision = kPrecisions[1];
  std::vector<bench::Variant> variants{
      step_variant("step, tf32, 1 device", sizes, precision, with_precision(Serial{}, precision), 1),
      step_variant("8 logical devices, data", sizes, precision, with_precision(DataParallel{}, precision),
                   8),
      step_variant("8 logical devices, zero2", sizes, precision, with_precision(Zero2Parallel{}, precision),
                   8),
      step_variant("8 logical devices, zero3", sizes, precision, with_precision(Zero3Parallel{}, precision),
                   8),
      step_variant("8 logical devices, shard", sizes, precision, with_precision(ShardParallel{}, precision),
                   8)};
  bench::interleave(variants, sizes.rounds);
  per_step(variants, sizes.steps);
  bench::print(variants);
}

}  // namespace

int main(int argc, char** argv) {
  if (!cuda_support().usable()) {
    fmt::print("skipped: {}\n", cuda_support().reason);
    return 0;
  }
  Sizes sizes;
  if (argc > 1) sizes.dim = std::atoll(argv[1]);
  if (argc > 2) sizes.batch = std::atoll(argv[2]);
  if (argc > 3) sizes.layers = std::atoll(argv[3]);
  if (argc > 4) sizes.rounds = std::atoi(argv[4]);
  if (argc > 5) sizes.steps = std::atoi(argv[5]);
  for (const Precision& precision : kPrecisions) measure_one_device(sizes, precision);
  measure_logical_devices(sizes);
}
