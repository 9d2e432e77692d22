// alpa checkpoint: what it prints of a run's folder, and of one that is damaged.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <filesystem>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace checkpoint_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

ProgramOutput run(std::vector<std::string> words) {
  words.insert(words.begin(), "checkpoint");
  return run_program(ALPA_TOOL, words);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Steps 1 and 2 of a run.
void save_run(const std::string& folder) {
  const TrainingStep step = training_step(
      {{"x", {f32, {4, 6}}}},
      [dense = nn::Dense(3, {.name = "dense"})](const Batch& b) { return mean(dense(b["x"])); },
      optim::Adam{});
  const Executable train = parallelize(step, ShardParallel{}, Cluster::local(2));
  TrainState state = train.init(1);
  Checkpoints saved(folder);
  for (int i = 0; i < 2; ++i) {
    train.run(state, {{"x", linear_dataset(4, 6, 1).x}});
    saved.save(state, {.user = {{"note", "number " + std::to_string(i)}}});
  }
}

}  // namespace

TEST_CASE("checkpoints are listed, verified, compared and exported") {
  const TemporaryFolder folder("tools_checkpoint_test");
  save_run(folder.path());
  const ProgramOutput listed = run({"list", folder.path()});
  CHECK(listed.status == 0);
  CHECK(contains(listed.text, "note=number 0\n"));
  CHECK(contains(listed.text, "note=number 1\n"));
  CHECK(run({"verify", folder.path()}).text == "           1  whole\n           2  whole\n");
  CHECK(run({"verify", folder.path(), "--step", "1"}).text == "           1  whole\n");
  CHECK(run({"diff", folder.path(), "--step", "2"}).text == "equal to the bit\n");
  CHECK(contains(run({"diff", folder.path(), "--step", "1"}).text,
                 "dense.kernel: 18 elements differ, by 0.00"));
  const std::string file = folder.path() + "/weights.safetensors";
  CHECK(run({"export", folder.path(), file}).text == "");
  CHECK(TensorFile(file).names() == std::vector<std::string>{"dense.bias", "dense.kernel"});
  CHECK(run({"export", folder.path(), file, "--all"}).status == 0);
  CHECK(TensorFile(file).contains("dense.kernel.adam_m"));
}

TEST_CASE("a damaged checkpoint does not hide the others; mistakes are named in one line") {
  const TemporaryFolder folder("tools_checkpoint_test_bad");
  save_run(folder.path());
  const std::string manifest = folder.path() + "/step-00000001/manifest.json";
  std::filesystem::resize_file(manifest, 100);
  for (const char* form : {"list", "verify"}) {
    const ProgramOutput output = run({form, folder.path()});
    CAPTURE(output.text);
    CHECK(output.status == 2);
    CHECK(contains(output.text, "           1  " + manifest + ": is damaged: "));
    CHECK(contains(output.text, "           2  "));
    CHECK(output.text.ends_with("alpa: " + folder.path() + ": 1 of 2 checkpoints are damaged\n"));
  }
  CHECK(run({"verify", "no such folder"}).text == "alpa: no such folder: holds no checkpoint\n");
  CHECK(run({"verify", folder.path(), "--step", "7"}).text ==
        "alpa: " + folder.path() + ": holds no checkpoint of step 7; its newest is 2\n");
  CHECK(run({"lost"}).text == "alpa: checkpoint: 'lost' is not list, verify, diff or export\n");
  CHECK(run({"export", folder.path(), "no such folder/w"}).status == 2);
  const ProgramOutput help = run({"--help"});
  CHECK(help.status == 0);
  CHECK(contains(help.text, "alpa checkpoint verify  Reads and checks every byte"));
}

}  // namespace checkpoint_test
