// Sizes beyond what a graph, or the memory, may hold are refused at once, naming what is exceeded.
#include <alpa/alpa.h>
#include <doctest/doctest.h>
#include <sys/resource.h>

#include "support/error_text.h"
#include "support/program.h"

namespace size_limit_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

double seconds_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/// Far above what a refusal takes, far below what the work would.
constexpr double kSeconds = 60;

/// The last line of the program, which refuses.
std::string refusal(const std::string& program, std::vector<std::string> words) {
  const double before = seconds_of_children();
  words.insert(words.end(), {"--backend", "cpu"});
  const ProgramOutput output = alpa::testing::run_program(ALPA_PROGRAMS "/" + program, words);
  CAPTURE(output.text);
  CHECK(output.status == 2);
  const std::size_t begin = output.text.rfind(program + ": ");
  REQUIRE(begin != output.text.npos);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(seconds_of_children() - before < kSeconds);
#endif
  return output.text.substr(begin + program.size() + 2);
}

}  // namespace

TEST_CASE("more layers than a graph may hold are refused, by the flag or while the graph grows") {
  const std::string bound = ", since a graph has at most 1048576 nodes\n";
  CHECK(refusal("alpa-mlp", {"--layers", "2147483647"}) ==
        "--layers is '2147483647'; it must be a whole number from 1 to 65536" + bound);
  for (const char* program : {"alpa-gpt", "alpa-moe"})
    CHECK(refusal(program, {"--layers", "2147483647"}) ==
          "--layers is '2147483647'; it must be a whole number from 0 to 16384" + bound);
  CHECK(refusal("alpa-gpt", {"--layers", "16384", "--plan-only"})
            .ends_with(": with it the graph has more than 1048576 nodes, the most of one graph; "
                       "give the model fewer layers\n"));
}

TEST_CASE("nodes and micro-batches times devices are bounded, too") {
  nn::Sequential mlp;
  for (int layer = 0; layer < 80; ++layer) mlp.add(nn::Dense(8));
  const TrainingStep step = training_step(
      {{"x", {f32, {8, 4}}}}, [=](const Batch& b) { return mean(mlp(b["x"])); }, optim::Adam{});
  Cluster cluster = Cluster::local(1);
  cluster.num_hosts = 1024, cluster.devices_per_host = 1024;
  const std::size_t nodes = step.trace(1).nodes.size();
  CHECK(error_of([&] { plan_only(step, ShardParallel{}, cluster); }) ==
        fmt::format("parallelize: {} nodes on 1048576 devices are {}; the most of a step that is "
                    "planned are 1073741824, so give fewer layers or devices",
                    nodes, nodes << 20));
  CHECK(refusal("alpa-mlp", {"--layers", "1200", "--dim", "2", "--batch", "2", "--devices", "1024"})
            .ends_with("; the most of a step that is run are 16777216, so give fewer layers or "
                       "devices\n"));
  CHECK(refusal("alpa-mlp", {"--batch", "99999", "--micro-batches", "99999", "--devices", "1024",
                             "--plan-only"}) ==
        "parallelize: 99999 micro-batches on 1024 devices are 102398976; the most of a step are "
        "1048576, so give fewer of either\n");
}

TEST_CASE("made data that no memory holds are refused before they are made") {
  const std::string most = "2147483647";
  CHECK(refusal("alpa-gpt", {"--batch", most, "--sequence", most})
            .starts_with("--batch is 2147483647 and --sequence is 2147483647: "
                         "making data for them takes 7.38e+19 bytes, but "));
  CHECK(refusal("alpa-bert", {"--vocabulary", most}).find(" bytes") != std::string::npos);
  for (const char* program : {"alpa-vit", "alpa-wide-resnet"})
    CHECK(
        refusal(program, {"--batch", most, "--image", "4096"})
            .starts_with("--batch is 2147483647 and --image is 4096: making data for them takes "));
}

}  // namespace size_limit_test
