// Calls of ranks that differ: what is said of them.
#include "src/processes/calls.h"

#include <doctest/doctest.h>

namespace calls_test {

using alpa::processes::Calls;
using alpa::processes::ranks_text;

namespace {

const auto kLater = [] { return Calls::Clock::now() + std::chrono::seconds(1); };

std::string differences(Calls& calls) {
  const auto failure = calls.difference(kLater());
  return failure ? failure->text : "";
}

}  // namespace

TEST_CASE("ranks are named in runs") {
  CHECK(ranks_text({3}) == "rank 3");
  CHECK(ranks_text({0, 1}) == "ranks 0 and 1");
  CHECK(ranks_text({0, 1, 2}) == "ranks 0 to 2");
  CHECK(ranks_text({0, 1, 2, 5, 7}) == "ranks 0 to 2, 5 and 7");
  CHECK(ranks_text({0, 2, 3, 4}) == "ranks 0 and 2 to 4");
}

TEST_CASE("equal calls are no difference, in whichever order they come") {
  Calls calls(3);
  calls.add(1, 1, 7, "init");
  calls.add(1, 2, 8, "run 1");
  CHECK(!calls.all_made_by_all());
  for (const int rank : {2, 0})
    for (const int number : {2, 1}) calls.add(rank, number, number + 6, "init or run");
  CHECK(calls.all_made_by_all());
  CHECK(differences(calls) == "");
}

TEST_CASE("a call that is told twice counts once") {
  Calls calls(2);
  calls.add(1, 1, 7, "init");
  calls.add(1, 1, 7, "init");
  CHECK(!calls.all_made_by_all());
  calls.add(0, 1, 7, "init");
  CHECK(calls.all_made_by_all());
}

TEST_CASE("the few are told from the many, whoever came first") {
  Calls calls(4);
  calls.add(2, 5, 1, "reading \"w\"");
  for (const int rank : {3, 0, 1}) calls.add(rank, 5, 2, "run 3");
  const auto failure = calls.difference(Calls::Clock::now());
  REQUIRE(failure);
  CHECK(failure->text ==
        "the processes went different ways: call 5 of ranks 0, 1 and 3 is run 3, that of rank 2 is "
        "reading \"w\"; every process must run the same program with the same flags and data, and "
        "make the same calls in the same order");
  CHECK(failure->rank == 2);
  CHECK(failure->status == 2);
  CHECK(failure->names_ranks);
}

TEST_CASE("ranks that never come to the call are not waited for") {
  Calls calls(3);
  calls.add(0, 1, 1, "run 1");
  calls.add(2, 1, 2, "the end of the program");
  CHECK(!calls.difference(Calls::Clock::now()));
  CHECK(differences(calls).starts_with(
      "the processes went different ways: call 1 of rank 0 is run 1, that of rank 2 is the end of "
      "the program; "));
}

TEST_CASE("other data in the same words is said to be that") {
  Calls calls(2);
  calls.add(0, 4, 1, "run 1 on x f32[4]");
  calls.add(1, 4, 2, "run 1 on x f32[4]");
  CHECK(differences(calls).starts_with(
      "the processes went different ways: call 4, run 1 on x f32[4], has other data in rank 1 than "
      "in rank 0; "));
}

TEST_CASE("the first call that differs is named, though later ones do, too") {
  Calls calls(2);
  calls.add(1, 2, 1, "b");
  calls.add(0, 2, 2, "c");
  calls.add(1, 1, 3, "a");
  calls.add(0, 1, 4, "d");
  CHECK(differences(calls).find("call 1 of rank 0 is d, that of rank 1 is a;") !=
        std::string::npos);
}

TEST_CASE("of texts that differ, the first line that does is named, in both") {
  using alpa::processes::different_texts;
  const std::string advice =
      "; every process must run the same program with the same flags and data, and make the same "
      "calls in the same order";
  const auto failure = different_texts("the step", "a 1\nb 2\nc", {0, 1}, "a 1\nb 3\nd", {2});
  CHECK(failure.text ==
        "the processes went different ways: the step has `b 2` in ranks 0 and 1, `b "
        "3` in rank 2" +
            advice);
  CHECK(failure.rank == 2);
  CHECK(failure.status == 2);
  CHECK(different_texts("it", "a\n", {0}, "a\nb\n", {1}).text ==
        "the processes went different ways: it has nothing in rank 0, `b` in rank 1" + advice);
  const std::string before(200, 'x');
  CHECK(different_texts("it", before + "1", {0}, before + "2", {1}).text ==
        "the processes went different ways: it has `…" + std::string(60, 'x') + "1` in rank 0, `…" +
            std::string(60, 'x') + "2` in rank 1" + advice);
}

}  // namespace calls_test
