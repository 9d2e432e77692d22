// Processes of one launch that do not do the same: one error names the ranks and what they did.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "processes/diverging.h"
#include "support/at_once.h"
#include "support/mpirun.h"
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

std::vector<Divergence> divergences() {
  return {
      other_call("seed", 4, "init(seed 1)", "init(seed 2)"),
      other_call("threads", 3, "parallelize(graph ", "parallelize(graph "),
      other_call("method", 2, "planning by method data on 3 devices, inputs x f32[6, 4]",
                 "planning by method zero3 on 3 devices, inputs x f32[6, 4]"),
      other_call("shape", 2, "planning by method data on 3 devices, inputs x f32[6, 4]",
                 "planning by method data on 3 devices, inputs x f32[12, 4]"),
      {"layers",
       {"rank 2 cannot follow rank 0: plan of rank 0: layers: found those of 40 nodes, but the "
        "step has 56 with 1 micro-batches; plan the step again"}},
      other_data("data", 5, "run 1 on x f32[6, 4]"),
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

/// Another batch is found out by the call, or by the plan that rank 2 cannot follow: whichever is
/// first.
bool is_said(const std::string& error, const Divergence& divergence) {
  return has(error, divergence.said) ||
         (divergence.way == "shape" &&
          error.find("rank 2 cannot follow rank 0: ") != std::string::npos);
}

constexpr int kTooLong = 124;  ///< the status of a run that was ended after `most_seconds`

ProgramOutput run_diverging(const std::string& way, int most_seconds = 30) {
  return run_under_mpirun(3, ALPA_PROCESS_PROGRAMS "/processes_diverging", {way}, {}, most_seconds);
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
    for (const std::string& error : errors) CHECK_MESSAGE(is_said(error, divergence), error);
  }
}

TEST_CASE("under mpirun, a process that goes another way ends all, and rank 0 says why") {
  if (skipped()) return;
  CHECK(run_diverging("").status == 0);
  const std::vector<Divergence> all = divergences();
  at_once(static_cast<int>(all.size()), [&](int i) {
    const Divergence& divergence = all[i];
    const ProgramOutput output = run_diverging(divergence.way);
    CAPTURE(divergence.way);
    CAPTURE(output.text);
    CHECK(output.status == divergence.status);
    CHECK(is_said(output.text, divergence));
    CHECK(count(output.text, divergence.said.front()) <= 1);
  });
}

TEST_CASE("under mpirun, a process that fails is named by rank 0, with its error") {
  if (skipped()) return;
  const ProgramOutput output = run_diverging("throws");
  CAPTURE(output.text);
  CHECK(output.status == 2);
  CHECK(output.text.starts_with("diverging: rank 2 of 3 (host "));
  CHECK(count(output.text, "): no ink\n") == 1);
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

TEST_CASE("under mpirun, a process that ends before it joins ends all") {
  if (skipped()) return;
  int status = kTooLong;
  for (int run = 0; run < 3 && status == kTooLong; ++run)  // on a busy machine others join late
    status = run_diverging("never joins", 8).status;
  CHECK(status != 0);
  CHECK(status != kTooLong);
}

}  // namespace divergence_test
