// The training step of a model by name and size on one GPU, its batch in the card's memory: seconds
// of the step, then of its kernels, an instruction of each kind and shape a row, with counted bytes
// and FLOPs. With --products instead the step's matrix products, each ten in a row on random
// operands, against the rate of a large one. Products that the step groups are timed as it launches
// them.
//   bench_cuda_step --model gpt --size 350M --batch 8
// bench/peers/step.py is the same step in PyTorch and JAX.
#include <algorithm>

#include <cuda_profiler_api.h>

#include "arguments.h"
#include "cuda_resident_step.h"
#include "models/common/model.h"
#include "models/common/run.h"
#include "report.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/lower/lower_program.h"
#include "src/lower/side_by_side.h"

using namespace alpa;

namespace {

struct Options : programs::Flags {
  std::string name = "gpt";
  std::optional<std::int64_t> rows;  ///< of an image
  std::int64_t held = 64, ceiling = 8192;
  int rounds = 5, queued = 20;
  bool no_tune = false, overlap_updates = false, products = false, profile = false;

  /// The learning rate is so small that nothing converges, however many steps are measured.
  Options() {
    precision = "bf16_mixed", learning_rate = 1e-7;
    sequence = 1024, vocabulary = 51200;
  }
};

bool is_of_images(const Options& o) { return o.name == "vit" || o.name == "wide-resnet"; }

programs::Task task_of(Options o) {
  if (!is_of_images(o))
    o.given = {"--sequence", "--vocabulary"};
  else if (o.rows)
    o.given = {"--image"}, o.image = *o.rows;
  const programs::Model& model = programs::planned_model(o.name);
  return model.task(programs::planned_flags(model, o.model, o));
}

/// Tokens below the vocabulary, labels of ten classes, random images.
BatchData batch_of(const Options& o, const programs::Task& task) {
  BatchData batch;
  const std::int64_t bound = is_of_images(o) ? 10 : o.vocabulary;
  for (const BatchInput& input : task.inputs) {
    Array numbers({f32, input.type.shape});
    std::uint32_t state = 1;
    for (float& x : numbers.mutable_elements_as<float>()) {
      state = state * 1664525 + 1013904223;
      x = input.type.dtype == i32 ? static_cast<float>((state >> 8) % bound)
                                  : static_cast<float>(state >> 8) / (1 << 23) - 1;
    }
    batch.emplace(input.name, numbers.cast(input.type.dtype));
  }
  return batch;
}

Serial method_of(const Options& o) {
  Serial method;
  method.executor.tune = !o.no_tune;
  method.executor.overlap_updates = o.overlap_updates;
  return method;
}

bench::Labels labels_of(const Options& o) {
  return {{"who", "alpa"}, {"model", o.name + " " + o.model}, {"precision", "bf16"}};
}

std::string types_text(const lower::DeviceProgram& device, const std::vector<int>& buffers) {
  constexpr std::size_t kShown = 3;
  if (buffers.size() > kShown) return fmt::format("{} tensors", buffers.size());
  std::string text;
  for (int buffer : buffers)
    text += (text.empty() ? "" : ", ") + to_string(device.buffers[buffer].type);
  return text;
}

/// Instructions of one name do the same with tensors of the same types.
std::string name_of(const Graph& graph, const lower::DeviceProgram& device,
                    const lower::Instruction& instruction) {
  std::string name(lower::name_of(instruction.kind));
  if (instruction.kind == lower::Instruction::Kind::compute) {
    const Node& node = graph.nodes[instruction.node];
    name = node.op->name;
    for (const char* said : {"equation", "epilogue"})
      if (node.attributes.contains(said)) name += " " + node.attributes.string(said);
  }
  return fmt::format("{}: {} -> {}", name, types_text(device, instruction.inputs),
                     types_text(device, instruction.outputs));
}

void print_kernels(const Options& o, bench::ResidentStep& step, double step_seconds) {
  const auto by_name = step.kernels(4 * o.rounds, name_of);
  std::vector<std::pair<std::string, bench::ResidentStep::Kernels>> rows(by_name.begin(),
                                                                         by_name.end());
  std::ranges::stable_sort(rows, std::greater<>(),
                           [](const auto& row) { return row.second.seconds; });
  double sum = 0;
  for (const auto& [name, kernels] : rows) {
    sum += kernels.seconds;
    std::vector<bench::Figure> figures{{"instructions", static_cast<double>(kernels.instructions)},
                                       {"seconds", kernels.seconds},
                                       {"of_step", kernels.seconds / step_seconds}};
    if (kernels.seconds > 0) {
      figures.push_back({"gigabytes_per_second", kernels.bytes / kernels.seconds * 1e-9});
      figures.push_back({"teraflops", kernels.flops / kernels.seconds * 1e-12});
    }
    bench::print_row(name, figures, {}, labels_of(o));
  }
  bench::print_row("kernels of the step",
                   {{"seconds", sum}, {"gaps_over_step", 1 - sum / step_seconds}}, {},
                   labels_of(o));
}

void measure_step(const Options& o) {
  const programs::Task task = task_of(o);
  bench::ResidentStep step(programs::step_of(o, task), method_of(o), batch_of(o, task),
                           o.held << 20);
  if (o.profile) {
    cuda::check(cudaProfilerStart(), "cudaProfilerStart");
    step.run_uncaptured();
    cuda::check(cudaProfilerStop(), "cudaProfilerStop");
    return;
  }
  std::vector<bench::Variant> variants{{"step", [&] { step.run(o.queued); }}};
  bench::interleave(variants, o.rounds);
  const double seconds = median(variants[0].seconds) / o.queued;
  const double flops =
      lower::total_of(lower::count_step(*step.planned().program, step.program())).flops;
  bench::Labels labels = labels_of(o);
  labels.push_back({"batch", "resident"});
  bench::print_row("step",
                   {{"median_seconds", seconds},
                    {"best_seconds", std::ranges::min(variants[0].seconds) / o.queued},
                    {"items_per_second", static_cast<double>(task.items_per_step) / seconds},
                    {"teraflops", flops / seconds * 1e-12},
                    {"launches", static_cast<double>(step.launches())},
                    {"arena_bytes", static_cast<double>(step.program().arena_bytes)},
                    {"loss", step.loss()}},
                   {}, labels);
  print_kernels(o, step, seconds);
}

/// A product of the step on tensors of its own.
struct Product {
  bench::Queue run;
  int instructions = 0, launches = 0;  ///< of the step; of one instruction
  double flops = 0;
  std::vector<double> seconds = {}, of_ceiling = {};
};

std::vector<TensorType> types_of(const lower::DeviceProgram& device,
                                 const std::vector<int>& buffers) {
  std::vector<TensorType> types;
  for (int buffer : buffers) types.push_back(device.buffers[buffer].type);
  return types;
}

std::map<std::string, Product> products_of(const CompiledStep& planned, const cuda::Gpu& card) {
  const Graph& graph = planned.program->graph;
  const lower::DeviceProgram& device = planned.lowered->firsts.front();
  std::map<std::string, Product> products;
  for (const lower::InstructionList& list : device.lists)
    for (const lower::Instruction& instruction : list.instructions) {
      if (instruction.kind != lower::Instruction::Kind::compute) continue;
      const Node& node = graph.nodes[instruction.node];
      if (!node.op->name.starts_with("einsum")) continue;
      const int launches = lower::launches_of(device, graph, instruction);
      const std::string name = name_of(graph, device, instruction);
      Product& product = products[launches == 1 ? name : name + ", one by one"];
      if (++product.instructions > 1) continue;
      product.launches = launches;
      product.flops = lower::count_of(graph, device, instruction)->flops;
      product.run = bench::loaded(*node.op, node.attributes, types_of(device, instruction.inputs),
                                  card, lower::lie_side_by_side(device, graph, instruction));
    }
  return products;
}

void measure_products(const Options& o) {
  constexpr std::int64_t kHeldBytes = std::int64_t{1} << 27;
  constexpr int kRuns = 10;
  cuda::Matmuls matmuls({.measured = !o.no_tune});
  const cuda::Gpu card = bench::first_card(matmuls);
  const CompiledStep planned =
      plan_only(programs::step_of(o, task_of(o)), method_of(o), Cluster::local(1, "cuda"));
  std::map<std::string, Product> products = products_of(planned, card);
  const TensorType square{bf16, {o.ceiling, o.ceiling}};
  const bench::Queue large =
      bench::loaded(ops::einsum, {{"equation", "mk,kn->mn"}}, {square, square}, card);
  const double large_flops = 2.0 * static_cast<double>(square.elements() * o.ceiling);
  for (int round = -1; round < o.rounds; ++round) {
    const double rate = large_flops / bench::timed(large, kHeldBytes, kRuns);
    for (auto& [name, product] : products) {
      const double seconds = bench::timed(product.run, kHeldBytes, kRuns);
      if (round < 0) continue;
      product.seconds.push_back(seconds);
      product.of_ceiling.push_back(product.flops / seconds / rate);
    }
  }
  for (const auto& [name, product] : products)
    bench::print_row(name,
                     {{"instructions", static_cast<double>(product.instructions)},
                      {"launches", static_cast<double>(product.launches)},
                      {"seconds", median(product.seconds)},
                      {"teraflops", product.flops / median(product.seconds) * 1e-12},
                      {"of_ceiling", median(product.of_ceiling)}},
                     {}, labels_of(o));
}

void measure(const Options& o) {
  if (!cuda_support().usable()) {
    fmt::print("skipped: {}\n", cuda_support().reason);
    return;
  }
  return o.products ? measure_products(o) : measure_step(o);
}

std::vector<cli::Flag> flags_of(Options& o) {
  return {cli::text("--model", &o.name, "A model of `alpa plan`"),
          cli::text("--size", &o.model, "One of its sizes"),
          cli::whole("--batch", &o.batch, "Examples", 1),
          cli::whole("--sequence", &o.sequence, "Tokens of an example", 1),
          cli::whole("--vocabulary", &o.vocabulary, "Different tokens", 2),
          cli::whole("--image", &o.rows, "Rows and columns of an image", 1),
          cli::whole("--rounds", &o.rounds, "Counted rounds", 1, 1000),
          cli::whole("--steps", &o.queued, "Steps of a round", 1, 1 << 20),
          cli::whole("--held", &o.held, "MiB cleared for an instruction, to be ahead", 0, 1 << 10),
          cli::whole("--ceiling", &o.ceiling, "Rows of the large product", 128, 32768),
          cli::on("--no-tune", &o.no_tune, "Takes the first algorithms"),
          cli::on("--overlap-updates", &o.overlap_updates, "Updates beside the backward pass"),
          cli::on("--products", &o.products, "The matrix products alone instead"),
          cli::on("--profile", &o.profile, "One step between cudaProfilerStart and Stop instead")};
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  return bench::run(argc, argv, "The training step of a model on one GPU, bf16 mixed.", flags_of(o),
                    [&] { measure(o); });
}
