#pragma once
/// Published step times of other systems, and the plans that they belong to. Models are the zoo's.
#include <alpa/alpa.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "alpa/models/gpt.h"
#include "alpa/models/moe.h"
#include "alpa/models/wide_resnet.h"
#include "src/ir/op_def.h"
#include "src/ir/rule.h"
#include "src/search/space/auto_shard_options.h"

namespace alpa::bench {

/// Devices of a stage as data x tensor, and how many layers of the model it has.
struct GivenStage {
  int layers = 0, data = 1, tensor = 1;
};

/// A published time, and the plan that it belongs to.
struct Row {
  std::string group, name, cluster;
  TrainingStep step;
  int micro_batches = 1;
  std::vector<GivenStage> stages;
  double seconds = 0;   ///< published
  bool fitted = false;  ///< constants were fitted on this row
  AxisUse batch_use = AxisUse::data, tensor_use = AxisUse::tensor;
};

inline std::vector<GivenStage> equal_stages(int data, int tensor, int pipeline, int layers) {
  return std::vector<GivenStage>(pipeline, {layers / pipeline, data, tensor});
}

/// In a pipeline the head is a table of its own, as Megatron-LM's last stage holds a copy of the
/// embedding.
inline TrainingStep gpt_step(const models::DecoderOptions& options, std::int64_t batch,
                             Precision precision) {
  const models::Decoder decoder(options);
  const TensorType tokens{i32, {batch, options.sequence}};
  return training_step({{"tokens", tokens}, {"labels", tokens}},
                       [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
                       optim::AdamW{}, {.precision = precision});
}

/// 206 iterations of Megatron-DeepSpeed on A100 of one host.
inline void add_one_host(const std::string& file, std::vector<Row>& rows) {
  std::ifstream stream(file);
  require(stream.good(), "cannot read {}", file);
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    int gpus = 0, batch = 0, micro = 0, hidden = 0, heads = 0, layers = 0, sequence = 0, t = 1,
        d = 1, p = 1;
    double ms = 0;
    fields >> gpus >> batch >> micro >> hidden >> heads >> layers >> sequence >> t >> d >> p >> ms;
    require(!fields.fail() && d * t * p == gpus, "{}: bad row '{}'", file, line);
    const models::DecoderOptions options{.layers = layers,
                                         .hidden = hidden,
                                         .heads = heads,
                                         .sequence = sequence,
                                         .head_bias = false,
                                         .tied_head = p == 1};
    rows.push_back({"a100 one host",
                    fmt::format("{}x{}x{} B{} b{} {}x{}", d, t, p, batch, micro, hidden, layers),
                    "a100_megatron_deepspeed.json", gpt_step(options, batch, bf16_mixed),
                    batch / micro / d, equal_stages(d, t, p, layers), ms / 1e3,
                    rows.size() % 4 == 0});
  }
}

struct OneFlow {
  int data, tensor, pipeline, batch, hidden, layers, heads, micro_batches;
  double ms;
};
/// github Oneflow-Inc/DLPerf, OneFlow GPT report: activations recomputed, f16, 4 x 8 V100-16GB.
inline constexpr OneFlow kOneFlow[] = {
    {1, 1, 1, 2, 1536, 16, 16, 1, 406.16},      {8, 1, 1, 16, 1536, 16, 16, 1, 417.95},
    {16, 1, 1, 32, 1536, 16, 16, 1, 489.67},    {32, 1, 1, 64, 1536, 16, 16, 1, 518.64},
    {1, 1, 1, 8, 768, 12, 12, 1, 525.21},       {1, 8, 1, 16, 1536, 16, 16, 1, 642.13},
    {2, 4, 1, 16, 1536, 16, 16, 1, 539.69},     {4, 2, 1, 16, 1536, 16, 16, 1, 543.88},
    {1, 16, 1, 16, 3072, 16, 32, 1, 4819.29},   {1, 32, 1, 16, 3072, 32, 32, 1, 9505.83},
    {2, 8, 1, 16, 2304, 24, 24, 1, 1268.53},    {4, 8, 1, 32, 2304, 24, 24, 1, 1480.34},
    {8, 1, 4, 512, 1536, 16, 16, 32, 4006.31},  {1, 8, 4, 512, 2304, 24, 24, 32, 19196.65},
    {2, 4, 4, 512, 2304, 24, 24, 32, 13117.18}, {2, 8, 2, 512, 2304, 24, 24, 32, 14375.35}};

inline void add_oneflow(std::vector<Row>& rows) {
  for (const OneFlow& o : kOneFlow) {
    const models::DecoderOptions options{.layers = o.layers,
                                         .hidden = o.hidden,
                                         .heads = o.heads,
                                         .sequence = 2048,
                                         .head_bias = false,
                                         .tied_head = o.pipeline == 1,
                                         .remat = true};
    const bool one_host = o.data * o.tensor * o.pipeline <= 8;
    rows.push_back({one_host ? "v100 one host" : "v100 hosts",
                    fmt::format("{}x{}x{} B{} {}x{}", o.data, o.tensor, o.pipeline, o.batch,
                                o.hidden, o.layers),
                    "v100_oneflow.json", gpt_step(options, o.batch, f16_mixed), o.micro_batches,
                    equal_stages(o.data, o.tensor, o.pipeline, o.layers), o.ms / 1e3,
                    one_host || o.data * o.tensor * o.pipeline == 16});
  }
}

struct Selective {
  const char* name;
  int tensor, pipeline, batch, micro_batch, hidden, layers, heads;
  double full, selective;  ///< seconds
};
/// arXiv 2205.05198, tables 3 and 5; no data parallelism.
inline constexpr Selective kSelective[] = {{"22B", 8, 1, 4, 4, 6144, 48, 64, 1.42, 1.10},
                                           {"175B", 8, 8, 64, 1, 12288, 96, 96, 18.13, 13.75},
                                           {"530B", 8, 35, 280, 1, 20480, 105, 128, 49.05, 37.83},
                                           {"1T", 8, 64, 512, 1, 25600, 128, 160, 94.42, 71.49}};

inline void add_selective(std::vector<Row>& rows) {
  for (const Selective& s : kSelective)
    for (const bool full : {true, false}) {
      const models::DecoderOptions options{.layers = s.layers,
                                           .hidden = s.hidden,
                                           .heads = s.heads,
                                           .sequence = 2048,
                                           .head_bias = false,
                                           .tied_head = s.pipeline == 1,
                                           .remat = full};
      rows.push_back({"a100 hosts", fmt::format("{} {}", s.name, full ? "full" : "selective"),
                      "a100_selene.json", gpt_step(options, s.batch, f16_mixed),
                      s.batch / s.micro_batch, equal_stages(1, s.tensor, s.pipeline, s.layers),
                      full ? s.full : s.selective});
    }
}

/// Alpa's quickstart: five times 2048 -> 8192 -> 2048 with relu, f32, Adam, batch 2048.
inline void add_tutorial(std::vector<Row>& rows) {
  const TensorType type{f32, {2048, 2048}};
  const TrainingStep step = training_step(
      {{"x", type}, {"y", type}},
      [](const Batch& batch) -> LossAndMetrics {
        nn::Sequential model;
        for (int i = 0; i < 10; ++i) model.add(nn::Dense(i % 2 == 0 ? 8192 : 2048)).add(nn::ReLU());
        return mean(square(model(batch["x"]) - batch["y"]));
      },
      optim::Adam{});
  const auto add = [&](const char* name, int data, int tensor, double ms) {
    rows.push_back({"tutorial",
                    name,
                    "p3_alpa.json",
                    step,
                    1,
                    {{1, data, tensor}},
                    ms / 1e3,
                    data * tensor == 1});
  };
  add("serial", 1, 1, 150.57);
  add("data parallel", 8, 1, 33.55);
  add("alpa", 1, 8, 22.85);
}

struct AlpaRow {
  const char* name;
  int micro_batches, batch;
  std::vector<GivenStage> stages;
  double flop, petaflops;  ///< of a step with rematerialisation; per second
};

inline void add_alpa_gpt(std::vector<Row>& rows) {
  const auto equal = [](int n, GivenStage stage) { return std::vector<GivenStage>(n, stage); };
  const std::vector<AlpaRow> published{
      {"350M", 512, 1024, {{24, 1, 1}}, 3.285341e15, .048},
      {"1.3B", 128, 1024, equal(2, {12, 2, 1}), 1.163723e16, .21},
      {"2.6B", 128, 1024, {{8, 2, 1}, {8, 2, 1}, {16, 4, 1}}, 2.334263e16, .47},
      {"6.7B", 64, 1024, equal(2, {16, 2, 4}), 5.761441e16, .94},
      {"15B", 128, 1024, equal(4, {12, 2, 4}), 1.325351e17, 1.89},
      {"39B", 1024, 1024, equal(16, {3, 1, 4}), 3.336534e17, 3.62}};
  for (const AlpaRow& row : published) {
    const auto size = std::find_if(models::kGptSizes.begin(), models::kGptSizes.end(),
                                   [&](const auto& s) { return s.name == row.name; });
    const models::DecoderOptions options{.layers = size->layers,
                                         .hidden = size->hidden,
                                         .heads = size->heads,
                                         .tied_head = row.stages.size() == 1,
                                         .remat = true};
    rows.push_back({"alpa gpt", row.name, "p3_alpa.json", gpt_step(options, row.batch, f16_mixed),
                    row.micro_batches, row.stages, row.flop / row.petaflops / 1e15, false,
                    AxisUse::batch});
  }
}

inline void add_alpa_moe(std::vector<Row>& rows) {
  const auto equal = [](int n, GivenStage stage) { return std::vector<GivenStage>(n, stage); };
  const std::vector<AlpaRow> published{{"380M", 512, 1024, {{8, 1, 1}}, 1.579929e15, .046},
                                       {"1.3B", 32, 1024, equal(2, {8, 2, 1}), 3.005652e15, .15},
                                       {"2.4B", 32, 1024, equal(2, {8, 4, 1}), 4.992607e15, .35},
                                       {"10B", 16, 1024, equal(2, {8, 8, 1}), 1.044591e16, .71},
                                       {"27B", 128, 1024, equal(8, {2, 4, 1}), 1.787064e16, 1.22},
                                       {"70B", 64, 1024, equal(8, {4, 8, 1}), 3.533336e16, 2.32}};
  for (const AlpaRow& row : published) {
    const auto size = std::find_if(models::kMoeSizes.begin(), models::kMoeSizes.end(),
                                   [&](const auto& s) { return s.name == row.name; });
    const models::MoeDecoder decoder({.layers = size->layers,
                                      .hidden = size->hidden,
                                      .heads = size->heads,
                                      .experts = size->experts,
                                      .remat = true,
                                      .dense_dispatch = true});
    const TensorType tokens{i32, {row.batch, 1024}};
    rows.push_back(
        {"alpa moe", row.name, "p3_alpa.json",
         training_step({{"tokens", tokens}, {"labels", tokens}},
                       [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
                       optim::Adafactor{}, {.precision = f16_mixed}),
         row.micro_batches, row.stages, row.flop / row.petaflops / 1e15, false, AxisUse::any});
  }
}

/// Floating-point operations of a step, forward, backward and again, of products and convolutions.
inline double flops_of(const TrainingStep& step, int micro_batches) {
  const Graph graph = step.trace(micro_batches);
  double sum = 0;
  for (const Node& node : graph.nodes)
    if (node.op->work == Work::heavy && node.region != Region::apply)
      sum += flops(rule_of(graph, node));
  return sum * micro_batches;
}

inline void add_alpa_wide_resnet(std::vector<Row>& rows) {
  struct Published {
    const char* name;
    int micro_batches, batch;
    std::vector<GivenStage> stages;
    double petaflops;
  };
  // Layers here are 17 or 34 blocks with the stem in the first; Alpa's are 16 or 33.
  const std::vector<Published> published{
      {"250M", 24, 1536, {{16, 1, 1}}, .0084},
      {"1B", 24, 1536, {{16, 1, 4}}, .029},
      {"2B", 24, 1536, {{8, 4, 1}, {8, 1, 4}}, .060},
      {"4B", 32, 1536, {{5, 4, 1}, {4, 4, 1}, {7, 8, 1}}, .106},
      {"6.8B", 32, 1536, {{5, 8, 1}, {4, 8, 1}, {4, 8, 1}, {3, 8, 1}}, .208},
      {"13B",
       38,
       1520,
       {{4, 8, 1}, {4, 1, 8}, {4, 8, 1}, {4, 1, 8}, {4, 8, 1}, {4, 8, 1}, {5, 1, 8}, {4, 8, 1}},
       .335}};
  for (const Published& row : published) {
    models::WideResNetSize size = models::wide_resnet_sizes().at(row.name);
    size.remat = true;
    const TrainingStep step = training_step(
        {{"images", {f32, {row.batch, 224, 224, 3}}}, {"labels", {i32, {row.batch}}}},
        [size](const Batch& batch) {
          return nn::cross_entropy(models::wide_resnet(size)(batch["images"]), batch["labels"]);
        },
        optim::Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true});
    rows.push_back({"alpa wide-resnet", row.name, "p3_alpa.json", step, row.micro_batches,
                    row.stages, flops_of(step, row.micro_batches) / row.petaflops / 1e15, false,
                    AxisUse::any});
    rows.back().tensor_use = AxisUse::any;
  }
}

/// All of them. `table`: the CSV of iterations on one host.
inline std::vector<Row> published_rows(const std::string& table) {
  std::vector<Row> rows;
  add_one_host(table, rows);
  add_oneflow(rows);
  add_selective(rows);
  add_tutorial(rows);
  add_alpa_gpt(rows);
  add_alpa_moe(rows);
  add_alpa_wide_resnet(rows);
  return rows;
}

}  // namespace alpa::bench
