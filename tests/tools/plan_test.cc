// alpa plan: plans for clusters that are not there, beside other methods and given plans.
#include <alpa/alpa.h>
#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/base/processor_watch.h"
#include "support/nightly.h"
#include "support/program.h"
#include "support/temporary_file.h"

namespace plan_test {

using namespace alpa;
using namespace alpa::testing;
using Json = nlohmann::json;

namespace {

const std::string kCluster = ALPA_SOURCE_DIR "/clusters/cpu_2x4.json";

ProgramOutput plan_of(std::vector<std::string> words) {
  words.insert(words.begin(), "plan");
  return run_program(ALPA_TOOL, words);
}

/// The plan of a small perceptron on two hosts of four CPU devices.
ProgramOutput plan_mlp(std::vector<std::string> more) {
  const std::vector<std::string> words = {"mlp", "tiny", "--cluster", kCluster, "--batch", "256"};
  more.insert(more.begin(), words.begin(), words.end());
  return plan_of(more);
}

Json json_of(const ProgramOutput& output) {
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  return Json::parse(output.text);
}

std::string mistake(std::vector<std::string> words) {
  const ProgramOutput output = plan_of(std::move(words));
  CHECK(output.status == 2);
  CHECK(std::count(output.text.begin(), output.text.end(), '\n') == 1);
  return output.text;
}

std::string given_stages(const std::string& stages, const std::string& more = "") {
  return R"({"micro_batches": 4, "layers": 2, )" + more + R"("stages": [)" + stages + "]}";
}

const std::string kTwoStages =
    R"({"layers": [0], "mesh": "1x4"}, {"layers": [1], "mesh": "2x2",
        "options": {"batch_mesh_axis": 0, "shard_optimizer_state": true}})";

/// Of all programs that were run so far.
double processor_seconds_of_programs() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

}  // namespace

TEST_CASE("a plan on one mesh stays proven where its count alone exceeds the budget") {
  // The best plan takes 4620981252 bytes; the first one that is found is lowered to fewer.
  const Json plan =
      json_of(plan_of({"gpt", "125M", "--cluster", "dgx-a100", "--batch", "64", "--sequence", "512",
                       "--method", "shard", "--micro-batches", "1", "--remat", "none",
                       "--memory-budget", "4600000000", "--json"}))
          .at("plan");
  CHECK(plan.at("memory_bytes") <= 4600000000);
  CHECK(plan.at("gap") <= 0.02);
}

TEST_CASE("a plan is ten lines, for a cluster that is not there") {
  const ProgramOutput output =
      plan_of({"mlp", "tiny", "--cluster", "dgx-a100", "--hosts", "2", "--batch", "256"});
  CAPTURE(output.text);
  CHECK(output.status == 0);
  std::istringstream lines(output.text);
  std::string labels;
  for (std::string line; std::getline(lines, line);) labels += line.substr(0, line.find(' ')) + " ";
  CHECK(labels == "model stages meshes split recomputed memory seconds bubble speed proof ");
  CHECK(output.text.starts_with("model       mlp tiny on 2 hosts of 8 (dgx-a100)\n"));
  CHECK(output.text.find(" of the devices' f32 peak\n") != std::string::npos);
}

TEST_CASE("every model of the zoo can be planned") {
  const std::vector<std::vector<std::string>> models = {
      {"gpt", "tiny", "--sequence", "32", "--vocabulary", "64"},
      {"moe", "tiny", "--sequence", "32", "--vocabulary", "64"},
      {"bert", "tiny", "--sequence", "32", "--vocabulary", "64"},
      {"vit", "tiny", "--image", "16"},
      {"wide-resnet", "tiny", "--image", "16"},
      {"mlp", "tiny"}};
  for (std::vector<std::string> words : models) {
    CAPTURE(words[0]);
    for (const char* word : {"--cluster", "p3.16xlarge", "--batch", "16", "--method", "data"})
      words.push_back(word);
    CHECK(plan_of(words).status == 0);
  }
}

TEST_CASE("the report says what the library says of the same plan") {
  const Json report = json_of(plan_mlp({"--method", "zero2", "--json"}));
  const Json& plan = report["plan"];
  CHECK(report["devices"] == 8);
  CHECK(plan["method"] == "zero2");
  // Three products of 64 x 256 of 256 rows and one to 64, forward once and backward twice, but for
  // the gradient of the input: what alpa-mlp --json counts without its elementwise operators.
  const double products = 2.0 * 256 * 64 * 256;
  CHECK(plan["flops_per_second"].get<double>() * plan["seconds"].get<double>() > 3 * products);
  CHECK(plan["items_per_second"].get<double>() * plan["seconds"].get<double>() ==
        doctest::Approx(256));
  CHECK(plan["share_of_peak"].is_null());  // the file has no peaks
}

TEST_CASE("the share of the peak is the FLOP/s over those of all devices' data sheets") {
  const Json report = json_of(plan_of({"mlp", "tiny", "--cluster", "hgx-h100", "--hosts", "2",
                                       "--batch", "256", "--method", "data", "--json"}));
  const double peak = 16 * Cluster::named("hgx-h100").device.peak_flops_per_second.at(f32);
  CHECK(report["plan"]["share_of_peak"].get<double>() * peak ==
        doctest::Approx(report["plan"]["flops_per_second"].get<double>()));
}

TEST_CASE("a method that a batch has too few rows for is a row with its reason") {
  const Json report = json_of(plan_of({"mlp", "tiny", "--cluster", kCluster, "--batch", "16",
                                       "--micro-batches", "4", "--compare", "zero2", "--json"}));
  CHECK(report["plan"]["seconds"].get<double>() > 0);
  const std::string failure = report["compared"][0]["failure"];
  CHECK(failure.find("has 4 rows, too few to split over 8 devices") != failure.npos);
}

TEST_CASE("no method compared has a cheaper plan than the one found") {
  const std::vector<std::string> all = {"data",  "zero2",    "zero3",      "intra-zero2",
                                        "pp-dp", "megatron", "inter-only", "intra-only"};
  const Json report =
      json_of(plan_mlp({"--compare", fmt::format("{}", fmt::join(all, ",")), "--json"}));
  const double best = report["plan"]["seconds"];
  std::vector<std::string> methods;
  for (const Json& other : report["compared"]) {
    methods.push_back(other["method"]);
    CAPTURE(methods.back());
    REQUIRE(other.contains("seconds"));
    CHECK(other["seconds"].get<double>() >= best * (1 - 0.005));  // the search's relative gap
  }
  CHECK(methods == all);
  for (const Json& stage : report["compared"][6]["stages"]) CHECK(stage["devices"] == 1);
  CHECK(report["compared"][6]["stages"].size() == 8);
}

TEST_CASE("pp-dp holds parameters whole in every stage, intra-zero2 splits gradients") {
  const auto plan_on_host = [](const char* layers, const char* methods) {
    return json_of(
        plan_of({"mlp", "tiny", "--cluster", "p3.16xlarge", "--batch", "256", "--micro-batches",
                 "4", "--pipeline-layers", layers, "--compare", methods, "--json"}));
  };
  // One layer is one stage: pp-dp is then data parallelism, and takes its seconds.
  const Json one = plan_on_host("1", "data,zero2,intra-zero2,pp-dp");
  const Json &data = one["compared"][0], &zero2 = one["compared"][1], &split = one["compared"][2],
             &stages = one["compared"][3];
  CHECK(stages["stages"][0]["mesh"] == "8");
  CHECK(stages["seconds"].get<double>() ==
        doctest::Approx(data["seconds"].get<double>()).epsilon(0.005));
  const auto state = [](const Json& plan) {
    return plan["stages"][0]["memory"]["state"].get<std::int64_t>();
  };
  CHECK(state(stages) == state(data));
  const auto accumulators = [](const Json& plan) {
    return plan["stages"][0]["memory"]["accumulators"].get<std::int64_t>();
  };
  CHECK(accumulators(split) < accumulators(data) / 7);  // on eight devices
  CHECK(split["seconds"].get<double>() <= zero2["seconds"].get<double>() * (1 + 0.005));
  const Json more = plan_on_host("4", "pp-dp");
  for (const Json& stage : more["compared"][0]["stages"])
    CHECK(stage["mesh"].get<std::string>() == std::to_string(stage["devices"].get<int>()));
}

TEST_CASE("a method that does not fit says what its smallest plan needs") {
  // Data parallelism holds all state on every device; plans that are searched for need not.
  const Json whole = json_of(plan_mlp({"--method", "data", "--json"}));
  const std::int64_t state = whole["plan"]["stages"][0]["memory"]["state"];
  const std::string budget = std::to_string(state);
  const Json report =
      json_of(plan_mlp({"--memory-budget", budget, "--compare", "data,zero3", "--json"}));
  CHECK(report["plan"]["memory_bytes"].get<std::int64_t>() <= state);
  CHECK(report["compared"][1]["memory_bytes"].get<std::int64_t>() <= state);
  const std::string failure = report["compared"][0]["failure"];
  CHECK(failure.starts_with("does not fit: needs "));
  CHECK(failure.ends_with(fmt::format(" of {:.2f} MiB", static_cast<double>(state) / (1 << 20))));
  const std::string text = mistake({"mlp", "tiny", "--cluster", kCluster, "--batch", "256",
                                    "--memory-budget", budget, "--method", "data"});
  CHECK(text.starts_with("alpa: mlp tiny does not fit 2 hosts of 4 (" + kCluster +
                         "), although its state, "));
}

TEST_CASE("a limit too short for any plan of a large step is exceeded, and a line says by what") {
  using Arguments = std::vector<std::string>;
  const Arguments llama = {"llama", "70B", "hgx-h100", "32", "bf16_mixed", "1024", "4096"},
                  gpt = {"gpt", "175B", "dgx-a100", "128", "f16_mixed", "1536", "2048"};
  for (const Arguments& model : testing::sampled<std::vector<Arguments>>({llama}, {llama, gpt})) {
    CAPTURE(model[0]);
    const double before = processor_seconds_of_programs();
    const Stopwatch watch;
    const ProgramOutput planned =
        plan_of({model[0], model[1], "--cluster", model[2], "--hosts", model[3], "--precision",
                 model[4], "--batch", model[5], "--sequence", model[6], "--time-limit", "1"});
    const double seconds = std::min(watch.seconds(), processor_seconds_of_programs() - before);
    CHECK(planned.status == 0);
    CHECK(planned.text.find("% of optimal") != std::string::npos);
    CHECK(planned.text.find(" s tracing and bounding variants, ") != std::string::npos);
    CHECK(planned.text.find(" s searching, ") != std::string::npos);
    // Templates of all variants once took 40 s more.
    CHECK(seconds < 1 + kOvertimeSeconds + 28);
  }
}

TEST_CASE("a terminal is told the best plan so far every two seconds, a pipe nothing") {
  const std::string command =
      "plan gpt 6.7B --cluster p3.16xlarge --hosts 2 --batch 256 "
      "--precision f16_mixed --time-limit 3";
  const ProgramOutput terminal =
      run_program("/usr/bin/script", {"-qec", ALPA_TOOL " " + command, "/dev/null"});
  CHECK(terminal.text.find("planning    ") != std::string::npos);
  const ProgramOutput pipe = plan_mlp({});
  CHECK(pipe.text.find("planning    ") == std::string::npos);
}

TEST_CASE("what is proven to be too large for a cluster does not fit") {
  CHECK(mistake({"mlp", "tiny", "--cluster", kCluster, "--batch", "256", "--micro-batches", "4",
                 "--remat", "none", "--memory-budget", "110000"}) ==
        "alpa: mlp tiny does not fit 2 hosts of 4 (" + kCluster +
            "), although its state, 0.76 MiB, leaves 0.08 MiB: with 4 micro-batches, parameters "
            "and optimizer state (794112 bytes) and sums of gradients (264708 bytes) take at least "
            "132353 bytes of each of 8 devices, but the memory budget is 110000; use more devices, "
            "or an optimizer that keeps less, such as Adafactor\n");
  CHECK(mistake({"mlp", "tiny", "--cluster", kCluster, "--batch", "256", "--micro-batches", "4",
                 "--remat", "none", "--memory-budget", "140000"}) ==
        "alpa: mlp tiny does not fit 2 hosts of 4 (" + kCluster +
            "), although its state, 0.76 MiB, leaves 0.31 MiB: AutoStages: no stages of 2 layers "
            "fit into 140000 bytes per device; give more layers or devices, or raise the memory "
            "budget\n");
}

TEST_CASE("given stages are priced beside the plan, which is no dearer") {
  const TemporaryFile file("plan_test_given.json", given_stages(kTwoStages));
  const Json report = json_of(plan_mlp({"--given", file.path(), "--json"}));
  const Json& given = report["compared"][0];
  CHECK(given["method"] == "given");
  CHECK(given["micro_batches"] == 4);
  REQUIRE(given["stages"].size() == 2);
  CHECK(given["stages"][0]["mesh"] == "1x4");
  CHECK(given["stages"][1]["mesh"] == "2x2");
  CHECK(given["seconds"].get<double>() >= report["plan"]["seconds"].get<double>() * (1 - 0.005));
}

TEST_CASE("given layers are the blocks that a model marks, unless a number is to be found") {
  const TemporaryFile file("plan_test_blocks.json",
                           R"({"micro_batches": 2, "schedule": "gpipe", "stages": [
                               {"layers": [0], "mesh": "4"}, {"layers": [1], "mesh": "4"}]})");
  const Json report = json_of(
      plan_of({"gpt", "tiny", "--cluster", kCluster, "--batch", "16", "--sequence", "32",
               "--vocabulary", "64", "--method", "data", "--given", file.path(), "--json"}));
  const Json& given = report["compared"][0];
  CHECK(given["schedule"] == "gpipe");
  REQUIRE(given["stages"].size() == 2);
  for (int stage : {0, 1}) CHECK(given["stages"][stage]["layers"] == Json::array({stage, stage}));
}

TEST_CASE("a saved plan that is given has the seconds that it was saved with") {
  for (const char* method : {"pipeline", "zero3"}) {
    CAPTURE(method);
    const std::string path =
        (std::filesystem::temp_directory_path() / "plan_test_saved.json").string();
    const Json saved = json_of(plan_mlp({"--method", method, "--save", path, "--json"}));
    const Json report = json_of(plan_mlp({"--given", path, "--json"}));
    std::filesystem::remove(path);
    CHECK(report["compared"][0]["seconds"].get<double>() ==
          doctest::Approx(saved["plan"]["seconds"].get<double>()));
  }
}

TEST_CASE("a graph file is planned, too") {
  const TrainingStep step = training_step(
      {{"x", {f32, {32, 16}}}},
      [](const Batch& b) {
        return mean(square(nn::Dense(16)(mark_pipeline_boundary(nn::Dense(64)(b["x"])))));
      },
      optim::Adam{});
  const TemporaryFile file("plan_test_graph.txt", to_string(step.trace(4)));
  const Json report =
      json_of(plan_of({file.path(), "--cluster", kCluster, "--compare", "data", "--json"}));
  CHECK(report["plan"]["micro_batches"] == 4);
  CHECK(report["compared"][0]["micro_batches"] == 4);
  CHECK(mistake({file.path(), "--cluster", kCluster, "--batch", "8"}) ==
        "alpa: --batch has no effect on a graph file, which is a training step as it is\n");
}

TEST_CASE("unknown models, sizes, clusters and methods are refused with the known ones") {
  CHECK(mistake({"gpd", "tiny", "--cluster", "dgx-a100"}) ==
        "alpa: \"gpd\" is no model; the models are gpt, llama, moe, bert, vit, wide-resnet, mlp\n");
  CHECK(mistake({"bert", "huge", "--cluster", "dgx-a100"}) ==
        "alpa: bert has no size \"huge\"; its sizes are tiny, base, large\n");
  CHECK(mistake({"bert", "--cluster", "dgx-a100"}) ==
        "alpa: bert needs a size; its sizes are tiny, base, large\n");
  CHECK(mistake({"bert", "tiny", "--cluster", "dgx"}) ==
        "alpa: cluster \"dgx\" is unknown: there is no such file, and known by name are "
        "p3.16xlarge, dgx-v100, dgx-a100, hgx-h100, hgx-h200, local\n");
  CHECK(mistake({"bert", "tiny"}) ==
        "alpa: --cluster is missing; give a cluster file, or one of p3.16xlarge, dgx-v100, "
        "dgx-a100, hgx-h100, hgx-h200, local\n");
  CHECK(mistake({"mlp", "tiny", "--cluster", "dgx-a100", "--compare", "data,zero1"}) ==
        "alpa: --compare: \"zero1\" is no method to compare; these are data, zero2, zero3, "
        "intra-zero2, pp-dp, megatron, inter-only, intra-only\n");
  CHECK(mistake({"mlp", "tiny", "--cluster", "dgx-a100", "--compare", "data,data"}) ==
        "alpa: --compare: data is given twice\n");
  CHECK(mistake({"mlp", "tiny", "--cluster", "dgx-a100", "--sequence", "8"}) ==
        "alpa: --sequence has no effect on mlp\n");
}

TEST_CASE("a model whose state fits nowhere is refused with the bytes and the hosts") {
  // Adam in f32: 12 bytes a parameter; 8 x 16 GB a host.
  const std::string text = mistake({"gpt", "39B", "--cluster", "p3.16xlarge", "--hosts", "2"});
  CHECK(
      text.starts_with("alpa: gpt 39B does not fit 2 hosts of 8 (p3.16xlarge): parameters and "
                       "optimizer state take "));
  CHECK(text.ends_with(" more than its 16 devices have; it takes 4 hosts at least\n"));
}

TEST_CASE("micro-batches that do not divide the batch are refused") {
  CHECK(mistake({"mlp", "tiny", "--cluster", kCluster, "--batch", "256", "--micro-batches", "3"})
            .find("3 micro-batches") != std::string::npos);
}

TEST_CASE("given plans that fit neither model nor cluster are refused with the place") {
  const auto refused = [](const std::string& text) {
    const TemporaryFile file("plan_test_refused.json", text);
    return mistake(
        {"mlp", "tiny", "--cluster", kCluster, "--batch", "256", "--given", file.path()});
  };
  const std::string start = "alpa: given plan plan_test_refused.json: ";
  CHECK(refused("{}") == start + "micro_batches is missing\n");
  CHECK(refused(given_stages(kTwoStages, R"("hosts": 2, )")) ==
        start +
            "[\"hosts\"]: unknown key; the keys here are description, micro_batches, schedule, "
            "layers, stages\n");
  CHECK(refused(given_stages(R"({"layers": [0, 1, 2], "mesh": "2x4"})")) ==
        start + "manual stages: stage 0 has layer 2, but the model has layers 0 to 1\n");
  CHECK(refused(given_stages(R"({"layers": [0], "mesh": "4"}, {"layers": [1], "mesh": "2"})"))
            .starts_with(start));
  CHECK(refused(given_stages(R"({"layers": [0, 1], "mesh": "8y"})"))
            .starts_with(start + "stages[0].mesh: "));
  CHECK(refused(given_stages("")) == start + "stages: there are none; give at least one\n");
}

/// Launches of a kind in a step of this model on one H200.
std::map<std::string, Json> counts_of(std::vector<std::string> model) {
  model.insert(model.end(), {"--cluster", "hgx-h200", "--method", "serial", "--precision",
                             "bf16_mixed", "--remat", "none", "--counts", "--json"});
  const Json report = json_of(plan_of(model));
  std::map<std::string, Json> counts;
  for (const Json& row : report.at("counts")) counts[row.at("kind")] = row;
  return counts;
}

/// Of GPT-350M, 8 x 1024 tokens a micro-batch.
std::map<std::string, Json> counts_of_gpt(int micro_batches) {
  return counts_of({"gpt", "350M", "--sequence", "1024", "--batch",
                    std::to_string(8 * micro_batches), "--micro-batches",
                    std::to_string(micro_batches)});
}

TEST_CASE("a step of GPT-350M launches at most 501 kernels") {
  auto counts = counts_of_gpt(1);
  CHECK(counts["all"]["launches"] <= 501);
  // Queries, keys and values of a layer, and the gradients of their weights.
  CHECK(counts["einsum_group"]["launches"] == 2 * 24);
  CHECK(counts["all"]["bytes"].get<double>() <= 52.7e9);
  CHECK(counts["all"]["launches"] > 400);
  // Products: six FLOPs a parameter and token. Attention: two products of T·width each forward,
  // five backward.
  const double tokens = 8 * 1024, width = 1024, layers = 24,
               products = 6 * (12 * layers * width * width + 51200 * width),
               attention = 2 * 7 * layers * width * 1024;
  CHECK(counts["all"]["flops"].get<double>() ==
        doctest::Approx(tokens * (products + attention)).epsilon(0.01));
  // The forecast of docs/cuda.md: no less than the FLOPs at the rate of the cluster's file.
  const double seconds = counts["all"]["seconds"].get<double>(), rate = 706e12, peak = 989e12;
  CHECK(seconds > tokens * (products + attention) / rate);
  CHECK(tokens * (products + attention) / seconds >= 0.5 * peak);
}

TEST_CASE("micro-batches of GPT-350M convert nothing by itself") {
  auto counts = counts_of_gpt(3);
  CHECK_FALSE(counts.contains("cast"));
  CHECK(counts["multi_tensor_adam_copy"]["launches"] == 1);
  CHECK(counts["multi_tensor_adam_copy"]["in_micro_batches"] == 0);
  // A micro-batch adds to its sums in products and two launches: the loss; biases and norms.
  CHECK(counts["multi_tensor_add"]["launches"] == 3 * 2);
  CHECK(counts["einsum_group"]["launches"] == 3 * 2 * 24);
  CHECK(counts["all"]["launches"] <= 3 * 504);
}

TEST_CASE("tokens of a MoE of 380M move to experts and back by index, without products") {
  auto counts = counts_of({"moe", "380M", "--sequence", "1024", "--batch", "8"});
  // Of a layer with experts: there, back, and their gradients, with that of the weights.
  CHECK(counts["dispatch"]["launches"] == 4 * 2);
  CHECK(counts["combine"]["launches"] == 4 * 2);
  CHECK(counts["expert_products"]["launches"] == 4);
  // gelu and its gradient are made by the experts' products.
  CHECK(!counts.contains("gelu"));
  CHECK(counts["all"]["launches"] <= 337);
  CHECK(counts["all"]["bytes"].get<double>() <= 33.2e9);
  // Six FLOPs a parameter and token, of the experts those of two; attention as above.
  const double tokens = 8 * 1024, width = 768, layers = 8, factor = 8,
               mlp = 2 * factor * width * width, experts = 2 * mlp + 8 * width,
               products =
                   6 * (layers * 4 * width * width + layers / 2 * (mlp + experts) + 32000 * width),
               attention = 2 * 7 * layers * width * 1024;
  CHECK(counts["all"]["flops"].get<double>() ==
        doctest::Approx(tokens * (products + attention)).epsilon(0.01));
}

TEST_CASE("sums of experts' gradients over micro-batches are made by their products") {
  const auto einsums = [](int micro_batches) {
    auto counts = counts_of({"moe", "380M", "--sequence", "1024", "--batch",
                             std::to_string(8 * micro_batches), "--micro-batches",
                             std::to_string(micro_batches)});
    return counts["einsum"]["launches"].get<int>() / micro_batches;
  };
  // Those of up, down and gate of four layers become products onto a sum.
  CHECK(einsums(1) - einsums(2) == 4 * 3);
}

TEST_CASE("batch normalisations of a Wide-ResNet read each tensor once for both of their sums") {
  auto counts = counts_of({"wide-resnet", "250M", "--batch", "64", "--image", "224"});
  CHECK(counts["channel_sums"]["launches"] == 53);
  CHECK(counts["channel_products"]["launches"] == 53);
  // two bf16 tensors instead of one, beside two numbers a channel
  CHECK(counts["channel_products"]["bytes"].get<double>() ==
        doctest::Approx(2 * counts["channel_sums"]["bytes"].get<double>()).epsilon(0.001));
  CHECK(counts["all"]["bytes"].get<double>() <= 79e9);
  CHECK(counts["cast"]["launches"] <= 3);
}

TEST_CASE("counts are a table behind the plan") {
  const ProgramOutput output = plan_mlp({"--method", "data", "--counts"});
  CHECK(output.status == 0);
  CHECK(output.text.find("kind") != std::string::npos);
  CHECK(output.text.find("all_reduce") != std::string::npos);
}

}  // namespace plan_test
