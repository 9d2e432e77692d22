// Processes of one launch that do not do the same: one error names the ranks and what they did.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <iterator>
#include <sstream>

#include "processes/diverging.h"
#include "support/at_once.h"
#include "support/mpirun.h"
#include "support/nightly.h"
#include "support/processes.h"

namespace divergence_test {

using namespace alpa::testing;

namespace {

/// What the last of three processes does, what is said of it, and mpirun's status.
struct Divergence {
  std::string way;
  std::vector<std::string> said;  ///< in this order
  int status = 2;
};

const std::string kAdvice =
    "; every process must run the same program with the same flags and data, and make the same "
    "calls in the same order";

Divergence other_call(const std::string& way, int number, const std::string& these,
                      const std::string& that) {
  return {way,
          {fmt::format("the processes went different ways: call {} of ranks 0 and 1 is {}", number,
                       these),
           fmt::format(", that of rank 2 is {}", that), kAdvice}};
}

Divergence other_data(const std::string& way, int number, const std::string& call) {
  return {way,
          {fmt::format("the processes went different ways: call {}, {}, has other data in rank 2 "
                       "than in ranks 0 and 1",
                       number, call) +
           kAdvice}};
}

/// Of the step, in a line that has `these` in ranks 0 and 1.
Divergence other_step(const std::string& way, const std::string& these, const std::string& that,
                      const std::string& what = "the step") {
  return {way,
          {"the processes went different ways: " + what + " has `", these, "` in ranks 0 and 1, `",
           that, "` in rank 2" + kAdvice}};
}

std::vector<Divergence> divergences() {
  const std::string run = "run 1 on x f32[6, 4] with learning_rate 0.01, step 1";
  return {
      other_call("rate", 5, run, "run 1 on x f32[6, 4] with learning_rate 0.05, step 1"),
      other_call("schedule", 6, "run 2 on x f32[6, 4] with learning_rate 0.01, step 2",
                 "run 2 on x f32[6, 4] with learning_rate 0.02, step 2"),
      other_step("decay", "0.5", "0.25"),
      other_step("clip", "1", "2"),
      other_step("initial", "", ""),
      other_step("finite", "check_finite false", "check_finite true"),
      other_call("seed", 4, "init(seed 1)", "init(seed 2)"),
      other_step("threads", " threads a device", "3 threads a device", "the planned step"),
      other_step("method", "method data", "method zero3"),
      other_step("shape", "f32[6, 4]", "f32[12, 4]"),
      other_step("layers", "", ""),
      other_data("data", 5, run),
      other_call("extra run", 8, "reading \"dense0.bias\"", "run 4 on x f32[6, 4]"),
      other_call("missing run", 7, "run 3 on x f32[6, 4]", "reading \"dense0.bias\""),
      other_call("reads", 8, "reading \"dense0.bias\"", "reading \"dense1.bias\""),
      other_call("ends", 6, "run 2 on x f32[6, 4]", "the end of the program"),
  };
}

/// Whether `text` has all of `parts`, in this order.
bool has(const std::string& text, const std::vector<std::string>& parts) {
  std::size_t at = 0;
  for (const std::string& part : parts) {
    at = text.find(part, at);
    if (at == text.npos) return false;
    at += part.size();
  }
  return true;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

bool skipped() {
  const std::string why = no_mpirun();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

/// Processes that wait for a core are not silent; to join they have less time than usual.
ProgramOutput run_diverging(const std::string& way, int join_seconds = 50) {
  return run_under_mpirun(
      3, ALPA_PROCESS_PROGRAMS "/processes_diverging", {way},
      {"-x", "ALPA_SILENCE_SECONDS=20", "-x", fmt::format("ALPA_JOIN_SECONDS={}", join_seconds)});
}

}  // namespace

TEST_CASE("a process that goes another way is an error in all, which names the calls and ranks") {
  for (const Divergence& divergence : divergences()) {
    CAPTURE(divergence.way);
    const std::vector<std::string> errors = run_processes(3, [&](int rank) {
      train_diverging(rank == 2 ? divergence.way : "", 3);
      alpa::processes::world()->note_call("the end of the program");
      alpa::processes::world()->leave();
    });
    for (const std::string& error : errors) CHECK_MESSAGE(has(error, divergence.said), error);
  }
}

TEST_CASE("under mpirun, a process that goes another way ends all, and rank 0 says why") {
  if (skipped()) return;
  CHECK(run_diverging("").status == 0);
  const std::vector<Divergence> all = divergences();
  const int every = sampled(4, 1);  // the test above has all of them
  at_once(static_cast<int>(all.size() + every - 1) / every, [&](int i) {
    const Divergence& divergence = all[every * i];
    const ProgramOutput output = run_diverging(divergence.way);
    CAPTURE(divergence.way);
    CAPTURE(output.text);
    CHECK(output.status == divergence.status);
    CHECK(has(output.text, divergence.said));
    CHECK(count(output.text, divergence.said.front()) <= 1);
    CHECK(output.text.ends_with(kAdvice + "\n"));
    CHECK(count(output.text, "\n") == 1);  // nothing of mpirun's around it
  });
}

TEST_CASE("under mpirun, a process that fails is named by rank 0, with its error") {
  if (skipped()) return;
  const ProgramOutput output = run_diverging("throws");
  CAPTURE(output.text);
  CHECK(output.status == 2);
  CHECK(output.text.starts_with("diverging: rank 2 of 3 (host "));
  CHECK(count(output.text, "): no ink\n") == 1);
  CHECK(count(output.text, "\n") == 1);
}

TEST_CASE("under mpirun, a process that fails while others join ends all, and mpirun names none") {
  if (skipped()) return;
  at_once(8, [&](int) {
    const ProgramOutput output = run_diverging("fails at once");
    CAPTURE(output.text);
    CHECK(output.status == 2);
    CHECK(output.text.starts_with("diverging: "));
    CHECK(output.text.ends_with("no ink\n"));
    CHECK(count(output.text, "\n") == 1);
  });
}

TEST_CASE("under mpirun, a process that vanishes is named") {
  if (skipped()) return;
  for (const char* const way : {"vanishes", "crashes"}) {
    const ProgramOutput output = run_diverging(way);
    CAPTURE(output.text);
    CHECK(output.status != 0);
    CHECK(count(output.text, "alpa: lost rank 2 of 3 (host ") == 1);
    CHECK(output.text.find("), which has ended without leaving the launch; it was last ") !=
          output.text.npos);
  }
}

TEST_CASE("under mpirun, a process that ends while the others join is named, and ends all") {
  if (skipped()) return;
  const ProgramOutput output = run_diverging("never joins");
  CAPTURE(output.text);
  CHECK(output.status == 2);
  // rank 1 may not have joined yet
  CHECK(has(output.text, {"the processes went different ways: call 1 of rank", " is ",
                          ", that of rank 2 is the end of the program" + kAdvice + "\n"}));
  CHECK(count(output.text, "\n") == 1);  // nothing of mpirun's around it
}

TEST_CASE("under mpirun, a process that never joins is named after the time for that") {
  if (skipped()) return;
  const std::pair<const char*, const char*> ways[] = {
      {"sleeps", "runs, but has not joined"},
      {"ends early", "has ended before it joined"},
  };
  at_once(std::size(ways), [&](int i) {
    const auto& [way, what] = ways[i];
    const ProgramOutput output = run_diverging(way, /*join_seconds=*/5);
    CAPTURE(output.text);
    CHECK(output.status == 75);
    CHECK(has(
        output.text,
        {"alpa: rank 2 of 3 (host ",
         fmt::format(
             ") {} the launch within 5 s: every "
             "process must call alpa; if it needs longer to get there, raise ALPA_JOIN_SECONDS, or "
             "--join-timeout\n",
             what)}));
    CHECK(count(output.text, "\n") == 1);
  });
}

TEST_CASE("under mpirun, programs with other flags end before they train, and name the flag") {
  if (skipped()) return;
  if (!ALPA_HAS_EXAMPLES) {
    MESSAGE("skipped: this build has no example programs");
    return;
  }
  const auto run = [](const std::vector<std::string>& more) {
    std::istringstream text("--devices 2 --dim 4 --layers 1 --batch 4 --steps 2 --quiet");
    const std::vector<std::string> same{std::istream_iterator<std::string>(text), {}};
    std::vector<std::string> words = same;
    for (const char* const word :
         {"--learning-rate", "0.01", ":", "-n", "1", ALPA_PROCESS_PROGRAMS "/alpa-mlp"})
      words.emplace_back(word);
    words.insert(words.end(), same.begin(), same.end());
    words.insert(words.end(), more.begin(), more.end());
    return run_under_mpirun(1, ALPA_PROCESS_PROGRAMS "/alpa-mlp", words);
  };
  const ProgramOutput other = run({"--learning-rate", "0.05"});
  CHECK(other.status == 2);
  CHECK(other.text ==
        "alpa-mlp: the processes went different ways: the command line has `--learning-rate 0.01` "
        "in rank 0, `--learning-rate 0.05` in rank 1" +
            kAdvice + "\n");
  CHECK(run({"--learning-rate", "1e-2"}).status == 0);
}

TEST_CASE("data that processes read in parts, and how text is drawn, must be the same") {
  const auto error_of_rank_2 = [](const std::function<void(bool other)>& body) {
    const std::vector<std::string> errors = run_processes(3, [&](int rank) {
      body(rank == 2);
      alpa::processes::world()->note_call("the end of the program");
      alpa::processes::world()->leave();
    });
    CHECK(errors[0] == errors[2]);
    return errors[2];
  };
  const auto tokens = [&](const std::string& way) {
    return error_of_rank_2([&](bool other) { diverging_batches(other ? way : "", 6); });
  };
  CHECK(tokens("") == "");
  CHECK(has(tokens("text"), {"call 1 of ranks 0 and 1 is batches of 6 of 6 examples, not shuffled, "
                             "with hash ",
                             ", that of rank 2 is batches of 6 of 6 examples, not "
                             "shuffled, with hash ",
                             kAdvice}));
  CHECK(has(tokens("window"), {"batches of 6 of 6 examples", "batches of 6 of 8 examples"}));
}

}  // namespace divergence_test
