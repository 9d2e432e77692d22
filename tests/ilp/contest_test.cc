#include <doctest/doctest.h>
#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "src/ilp/solve.h"
#include "tools/contest/contest.h"

namespace alpa::ilp::contest_test {
namespace {

const std::string kExample = ALPA_SOURCE_DIR "/tests/ilp/data/example.json";

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string message(const std::string& json) {
  try {
    parse_contest(json, "f.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("the example is solved to its published optimum and printed as the contest asks") {
  CHECK(solve_contest(kExample, 5) == "cost 445 lower_bound 445 gap 0.0000%\n[0, 0, 2, 1, 0]\n");
}

TEST_CASE("the evaluator prices the example by hand") {
  Problem problem = read_contest(kExample).problem;
  Evaluation best = evaluate(problem, {0, 0, 2, 1, 0});
  CHECK(best.cost == 275 + 170);
  CHECK(best.peak_usage == 50);  // 10 + 25 + 15 while [50, 70)
  CHECK(best.peak_time == 50);
  CHECK(best.feasible);
  CHECK(!evaluate(problem, {0, 0, 1, 1, 0}).feasible);  // 10 + 25 + 20
}

TEST_CASE("a gzip'd file reads like the plain one") {
  std::string path = "contest_test_example.json.gz", text = text_of(kExample);
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  CHECK(solve(read_contest(path).problem).cost == 445);
  std::remove(path.c_str());
}

TEST_CASE("edges over one and over three nodes are exact") {
  // Costs are zero but for the edges; of the eight combinations 101 is cheapest, then 000.
  Contest contest = parse_contest(
      R"({"problem": {"nodes": {"intervals": [[0,0],[0,0],[0,0]], "costs": [[0,0],[0,0],[0,0]],
          "usages": [[0,0],[0,0],[0,0]]},
          "edges": {"nodes": [[2,0,1],[1]], "costs": [[5,1000000000000000000,9,9,7,9,3,6],[0,10]]}}})",
      "f.json");
  CHECK(contest.num_nodes == 3);
  Solution solution = solve(contest.problem);
  solution.choice.resize(3);
  CHECK(solution.cost == 3);  // index 6 = 110 of (2, 0, 1)
  CHECK(solution.choice == std::vector<int>{1, 0, 1});
}

TEST_CASE("malformed files are refused with what, where and how to mend it") {
  std::string good = text_of(kExample);
  REQUIRE(message(good) == "no error");
  CHECK(message("") == "f.json: is empty; expected JSON");
  CHECK(message("{\"problem\": ") ==
        "f.json: line 1, column 13: not valid JSON; check for a missing comma, quote or bracket "
        "just before");
  CHECK(message("[]") == "f.json: `the file` must be an object; see the contest's format");
  CHECK(message("{}") == "f.json: `the file.problem` is missing; add it");
  CHECK(message(replaced(good, "\"usages\"", "\"usage\"")) ==
        "f.json: `problem.nodes.usages` is missing; add it");
  CHECK(message(replaced(good, "[30, 70],", "")) ==
        "f.json: `problem.nodes.intervals` has 4 entries but `problem.nodes.costs` has 5; give one "
        "per node");
  CHECK(message(replaced(good, "[30, 70]", "[30]")) ==
        "f.json: `problem.nodes.intervals[0]` has 1 numbers; write [from, to]");
  CHECK(message(replaced(good, "[55, 65]", "[]")) ==
        "f.json: `problem.nodes.costs[1]` is empty; give node 1 at least one strategy");
  CHECK(message(replaced(good, "[25, 25]", "[25]")) ==
        "f.json: `problem.nodes.usages[1]` has 1 numbers but node 1 has 2 costs; "
        "give one usage per strategy");
  CHECK(message(replaced(good, "[25, 25]", "[25, -1]")) ==
        "f.json: `problem.nodes.usages[1][1]` is -1; usages must be in [0, 10^18)");
  CHECK(message(replaced(good, "[25, 45, 35]", "[25, 4.5, 35]")) ==
        "f.json: `problem.nodes.costs[2][1]` is 4.5; write a whole number from -2^63 to 2^63 - 1");
  CHECK(
      message(replaced(good, "[0, 1]", "[0, 7]")) ==
      "f.json: `problem.edges.nodes[0]` names node 7 but there are 5 nodes; use indices from 0 to "
      "4");
  CHECK(
      message(replaced(good, "[30, 40]", "[30, 40, 50]")) ==
      "f.json: `problem.edges.costs[0]` has 3 numbers but the strategies of its nodes combine in 2 "
      "ways; give one cost per combination, the last node fastest");
  CHECK_THROWS_WITH_AS(read_contest("absent.json"),
                       "absent.json: cannot be read: No such file or directory", Error);
}

TEST_CASE(
    "numbers that do not fit into 64 bits with a sign, and those near the end, "
    "are refused with their place") {
  const std::string good = text_of(kExample);
  CHECK(message(replaced(good, "[55, 65]", "[9223372036854775808, 65]")) ==
        "f.json: `problem.nodes.costs[1][0]` is 9223372036854775808; "
        "write a whole number from -2^63 to 2^63 - 1");
  CHECK(message(replaced(good, "[55, 65]", "[18446744073709551615, 65]")) ==
        "f.json: `problem.nodes.costs[1][0]` is 18446744073709551615; "
        "write a whole number from -2^63 to 2^63 - 1");
  CHECK(message(replaced(good, "[30, 40]", "[30, 9223372036854775808]")) ==
        "f.json: `problem.edges.costs[0][1]` is 9223372036854775808; "
        "write a whole number from -2^63 to 2^63 - 1");
  CHECK(message(replaced(good, "[25, 25]", "[25, 9223372036854775808]")) ==
        "f.json: `problem.nodes.usages[1][1]` is 9223372036854775808; "
        "write a whole number from -2^63 to 2^63 - 1");
  CHECK(message(replaced(good, "[55, 65]", "[-9223372036854775808, 65]")) ==
        "f.json: `problem.nodes.costs[1][0]` is -9223372036854775808; "
        "costs must be above -10^18 (and at least 10^18 means never)");
  CHECK(message(replaced(good, "[55, 65]", "[999999999999999999, 65]")) ==
        "f.json: the largest finite costs sum to 1.0000000000000005e+18 but must stay below 10^18; "
        "use a larger unit");
  CHECK(message(replaced(good, "[55, 65]", "[9223372036854775807, 65]")) ==
        "no error");  // never chosen
}

TEST_CASE("usage limits from one end of 64 bits to the other are refused or mean what they say") {
  const auto with_limit = [](const std::string& limit) {
    return R"({"problem": {"nodes": {"intervals": [[0, 1]], "costs": [[3, 1]], "usages": [[0, 7]]},
               "edges": {"nodes": [], "costs": []}, "usage_limit": )" +
           limit + "}}";
  };
  for (const std::string limit : {"-1", "-9223372036854775808"})
    CHECK(message(with_limit(limit)) ==
          "f.json: `problem.usage_limit` is " + limit + "; it must be at least 0");
  CHECK(message(with_limit("9223372036854775808")) ==
        "f.json: `problem.usage_limit` is 9223372036854775808; write a whole number from -2^63 to "
        "2^63 - 1");
  CHECK(solve(parse_contest(with_limit("9223372036854775807"), "f.json").problem).cost == 1);
  CHECK(solve(parse_contest(with_limit("6"), "f.json").problem).cost == 3);
}

TEST_CASE("contest instance G is solved to its proven optimum") {
  const char* folder = std::getenv("ALPA_CONTEST_DIR");
  if (folder == nullptr) {
    MESSAGE("skipped: set ALPA_CONTEST_DIR to the folder with G.json.gz");
    return;
  }
  std::string result = solve_contest(std::string(folder) + "/G.json.gz", 120);
  CHECK(result.substr(0, result.find('\n')) == "cost 217039 lower_bound 217039 gap 0.0000%");
}

}  // namespace
}  // namespace alpa::ilp::contest_test
