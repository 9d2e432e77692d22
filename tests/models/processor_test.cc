// What programs do on other cores and instruction sets of a processor.
#include <doctest/doctest.h>
#include <sched.h>

#include <fstream>
#include <sstream>

#include "support/mpirun.h"
#include "support/nightly.h"
#include "support/temporary_file.h"

namespace processor_test {

using namespace alpa::testing;

namespace {

/// Binds this thread, and the programs that it starts, to its first core.
class Bound {
 public:
  Bound() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t first;
    CPU_ZERO(&first);
    for (int core = 0; CPU_COUNT(&first) == 0; ++core)
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &first);
    sched_setaffinity(0, sizeof first, &first);
  }
  ~Bound() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

struct Program {
  const char* name;
  std::vector<std::string> flags;
};

const Program kPrograms[] = {
    {"alpa-mlp", {"--dim", "512", "--layers", "4", "--batch", "256", "--learning-rate", "0.01"}},
    {"alpa-wide-resnet", {"--model", "cifar", "--batch", "2", "--image", "16"}},
    {"alpa-gpt", {"--hidden", "96", "--layers", "2", "--heads", "4", "--sequence", "50"}}};

/// Flags of two steps whose numbers go to `log`.
std::vector<std::string> flags_of(const Program& program, const std::string& devices,
                                  const std::string& log) {
  std::vector<std::string> all = program.flags;
  const std::vector<std::string> common = {"--backend", "cpu",   "--steps", "2",
                                           "--devices", devices, "--log",   log};
  all.insert(all.end(), common.begin(), common.end());
  return all;
}

/// Losses with all digits, the plan with its seconds, and planned bytes.
std::string outcome(const ProgramOutput& output, const TemporaryFile& log) {
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  std::string kept;
  std::istringstream lines(output.text);
  std::ifstream rows(log.path());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("plan ") || line.starts_with("memory "))
      kept += line.substr(0, line.find("; planned in")) + "\n";
  for (std::string row; std::getline(rows, row);) kept += row.substr(0, row.rfind(',')) + "\n";
  return kept;
}

}  // namespace

TEST_CASE("bits, plans and planned bytes are the same on one core and on all") {
  const TemporaryFile log("processor_test_log.csv", "");
  for (const Program& program : kPrograms)
    for (const std::string devices :
         alpa::testing::sampled<std::vector<std::string>>({"2"}, {"1", "2"})) {
      CAPTURE(std::string(program.name));
      CAPTURE(devices);
      const auto run = [&] {
        return outcome(run_program(std::string(ALPA_PROGRAMS "/") + program.name,
                                   flags_of(program, devices, log.path())),
                       log);
      };
      const std::string on_all = run();
      const Bound bound;
      CHECK(run() == on_all);
    }
}

TEST_CASE("they are the same under mpirun, which binds processes to cores") {
  const std::string why = no_mpirun();
  if (!why.empty()) {
    MESSAGE(why);
    return;
  }
  const TemporaryFile log("processor_test_launched_log.csv", "");
  const std::string program = std::string(ALPA_PROGRAMS "/") + kPrograms[0].name;
  const std::vector<std::string> flags = flags_of(kPrograms[0], "2", log.path());
  const std::string alone = outcome(run_program(program, flags), log);
  for (const int processes : {1, 2}) {
    CAPTURE(processes);
    CHECK(
        outcome(run_under_mpirun(processes, program, flags, {"--bind-to", "core:overload-allowed"}),
                log) == alone);
  }
}

TEST_CASE("ALPA_MAX_CPU_ISA limits the kernels' instruction set, and must name one") {
  const auto with = [](const std::string& set, const std::string& command) {
    return run_shell("ALPA_MAX_CPU_ISA=" + set + " " ALPA_PROGRAMS "/" + command);
  };
  const ProgramOutput older = with("baseline", "alpa doctor --seconds 0");
  CAPTURE(older.text);
  CHECK(older.text.find("kernels for baseline\n") != std::string::npos);
  const ProgramOutput wrong = with("avx3", "alpa-mlp --backend cpu --steps 1");
  CHECK(wrong.status == 2);
  CHECK(wrong.text.find("alpa-mlp: ALPA_MAX_CPU_ISA is \"avx3\"; it must be baseline, avx2 or "
                        "avx512, or unset for the best that the processor has\n") !=
        std::string::npos);
}

}  // namespace processor_test
