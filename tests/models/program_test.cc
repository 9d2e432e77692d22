// What alpa-mlp does with flags that belong together.
#include <doctest/doctest.h>
#include <unistd.h>

#include "support/mpirun.h"
#include "support/temporary_file.h"

namespace program_test {

using namespace alpa::testing;

namespace {

const std::string kCudaCluster = ALPA_SOURCE_DIR "/clusters/p3_16xlarge_2x8.json";

/// A class of flowers in three numbers, the second of which is its label's.
const char* kTable = "a,b,label\n1,0,0\n2,1,1\n3,0,0\n4,1,1\n";

/// Says why, if programs can't be run under mpirun here.
bool cannot_launch() {
  const std::string why = no_mpirun();
  if (!why.empty()) MESSAGE(why);
  return !why.empty();
}

}  // namespace

TEST_CASE("--demo --plan-only plans the demo's step and trains nothing") {
  const TemporaryFile table("program_test_demo.csv", kTable);
  const ProgramOutput output = run_program(
      ALPA_MLP,
      {"--demo", "--plan-only", "--data", table.path(), "--batch", "2", "--backend", "cpu"});
  CAPTURE(output.text);
  CHECK(output.status == 0);
  CHECK(output.text.starts_with("plan        shard on mesh "));
  CHECK(output.text.find("measured") == output.text.npos);
  CHECK(output.text.find("  loss ") == output.text.npos);
}

TEST_CASE("in two processes, the demo compares its methods with data parallelism") {
  if (cannot_launch()) return;
  const TemporaryFile table("program_test_launched_demo.csv", kTable);
  const ProgramOutput output = run_under_mpirun(
      2, ALPA_MLP,
      {"--demo", "--data", table.path(), "--batch", "4", "--devices", "2", "--backend", "cpu",
       "--dim", "8", "--layers", "2", "--epochs", "1", "--quiet"});
  CAPTURE(output.text);
  CHECK(output.status == 0);
  CHECK(output.text.find("single device") == output.text.npos);
  CHECK(output.text.find("from the data-parallel run") != output.text.npos);
  CHECK(output.text.find("\ntwo stages ") != output.text.npos);
}

TEST_CASE("several processes refuse --compare, which trains on one device too") {
  if (cannot_launch()) return;
  const ProgramOutput output =
      run_under_mpirun(2, ALPA_MLP, {"--devices", "2", "--backend", "cpu", "--compare"});
  CAPTURE(output.text);
  CHECK(output.status == 2);
  CHECK(output.text.find("alpa-mlp: --compare trains on one device too, which 2 processes cannot "
                         "share; start one process\n") != output.text.npos);
}

TEST_CASE("a cluster of CUDA devices is refused before anything is planned, read or written") {
  const std::string dump = "program_test_dump";
  setenv("ALPA_CUDA_LIBRARY", "/nowhere/libalpa_cuda.so", 1);
  const ProgramOutput output =
      run_program(ALPA_MLP, {"--cluster", kCudaCluster, "--dump", dump, "--data", "/nowhere.csv"});
  unsetenv("ALPA_CUDA_LIBRARY");
  CHECK(output.status == 2);
  CHECK(output.text ==
        "alpa-mlp: backend \"cuda\": there is no /nowhere/libalpa_cuda.so; run on \"cpu\", or plan "
        "with plan_only\n");
  CHECK(access(dump.c_str(), F_OK) != 0);
}

TEST_CASE("a cluster of CUDA devices is planned for without CUDA") {
  setenv("ALPA_CUDA_LIBRARY", "/nowhere/libalpa_cuda.so", 1);
  const ProgramOutput output = run_program(
      ALPA_MLP,
      {"--cluster", kCudaCluster, "--plan-only", "--dim", "32", "--batch", "64", "--layers", "2"});
  unsetenv("ALPA_CUDA_LIBRARY");
  CAPTURE(output.text);
  CHECK(output.status == 0);
  CHECK(output.text.starts_with("plan        shard on mesh "));
}

TEST_CASE("the backend is that of the cluster file") {
  const ProgramOutput output =
      run_program(ALPA_MLP, {"--cluster", ALPA_SOURCE_DIR "/clusters/cpu_2x4.json", "--dim", "4",
                             "--batch", "8", "--layers", "2", "--steps", "1"});
  CAPTURE(output.text);
  CHECK(output.status == 0);
  CHECK(output.text.starts_with("backend     cpu (--cluster " ALPA_SOURCE_DIR
                                "/clusters/cpu_2x4.json)\n"));
}

TEST_CASE("epochs run as often as they are asked for, and more than can be are refused") {
  const TemporaryFile table("program_test_epochs.csv", kTable);
  const std::vector<std::string> words = {
      "--data", table.path(), "--batch", "2",         "--dim", "2",       "--layers",
      "2",      "--devices",  "2",       "--backend", "cpu",   "--epochs"};
  const auto with = [&](const char* epochs) {
    std::vector<std::string> all = words;
    all.emplace_back(epochs);
    return run_program(ALPA_MLP, all);
  };
  CHECK(with("3").text.find("step 6/6  ") != std::string::npos);
  CHECK(with("9223372036854775807").text ==
        "alpa-mlp: --epochs is '9223372036854775807'; it must be a whole number from 0 to "
        "2147483647\n");
}

TEST_CASE("data and models that no memory holds are refused in one line") {
  const auto mistake = [](const std::vector<std::string>& words) {
    const ProgramOutput output = run_program(ALPA_MLP, words);
    CHECK(output.status == 2);
    const std::size_t begin = output.text.find("alpa-mlp: ");
    REQUIRE(begin != output.text.npos);
    CHECK(output.text.find('\n', begin) == output.text.size() - 1);
    return output.text.substr(begin);
  };
  CHECK(mistake({"--batch", "2147483647", "--dim", "2147483647", "--backend", "cpu"})
            .starts_with("alpa-mlp: --batch is 2147483647 and --dim is 2147483647: "
                         "making data for them takes 5.53e+19 bytes, but "));
  for (const char* factor : {"--batch", "--hidden-factor"})
    CHECK(mistake({factor, "2147483647", "--dim", "2147483647", "--plan-only", "--backend", "cpu"})
              .find("2^50 elements") != std::string::npos);
}

TEST_CASE("--memory-budget counts for a loaded plan, too") {
  const TemporaryFile plan("program_test_plan.json", "");
  const std::vector<std::string> words = {"--dim",     "4", "--batch",   "8",   "--layers", "2",
                                          "--devices", "2", "--backend", "cpu", "--steps",  "1"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run_program(ALPA_MLP, all);
  };
  REQUIRE(with({"--plan-only", "--save-plan", plan.path()}).status == 0);
  CHECK(with({"--load-plan", plan.path()}).status == 0);
  const ProgramOutput output = with({"--load-plan", plan.path(), "--memory-budget", "1000"});
  CAPTURE(output.text);
  CHECK(output.status == 2);
  CHECK(output.text.find("memory budget of 1000") != output.text.npos);
}

}  // namespace program_test
