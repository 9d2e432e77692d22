// alpa plan --price-per-hour: hours and dollars of a run on several clusters.
#include "tools/plan_front.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "support/program.h"

namespace plan_front_test {

using namespace alpa::testing;
using Json = nlohmann::json;

namespace {

ProgramOutput front(std::vector<std::string> more) {
  const std::vector<std::string> words = {
      "plan",         "mlp", "tiny", "--batch", "256", "--cluster", "dgx-v100,hgx-h100",
      "--time-limit", "8"};
  more.insert(more.begin(), words.begin(), words.end());
  return run_program(ALPA_TOOL, more);
}

/// Mean seconds of a run with checkpoints every `interval`, by trials.
double simulated(double work, double interval, double write, double mean) {
  std::mt19937 random(5);
  std::exponential_distribution<double> gap(1 / mean);
  constexpr int kTrials = 2000;
  double all = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    double now = 0, failure = gap(random);
    for (double done = 0; done < work;) {
      const double next = std::min(interval, work - done);
      double end = now + next + write;
      while (failure < end) {  // reads the last checkpoint, and does it again
        now = failure;
        failure += gap(random);
        end = now + write + next + write;
      }
      now = end;
      done += next;
    }
    all += now;
  }
  return all / kTrials;
}

}  // namespace

TEST_CASE("expected hours are those of simulated failures") {
  for (const auto& [write, mean] : {std::pair(10.0, 2000.0), {100.0, 2000.0}, {300.0, 900.0}}) {
    const plan::RunTime run = plan::run_time(1e5, write, mean);
    CAPTURE(write);
    const double trials = simulated(1e5, run.interval_seconds, write, mean);
    CHECK(run.seconds == doctest::Approx(trials).epsilon(0.02));
    CHECK(run.restarts == doctest::Approx(run.seconds / mean));
  }
}

TEST_CASE("the interval is near Young's, and intervals about it are no better") {
  const plan::RunTime run = plan::run_time(1e7, 50, 1e5);
  CHECK(run.interval_seconds == doctest::Approx(std::sqrt(2 * 50 * 1e5)).epsilon(0.02));
  const auto seconds = [](double interval) {
    return 1e5 * std::exp(50 / 1e5) * std::expm1((interval + 50) / 1e5) * 1e7 / interval;
  };
  CHECK(run.seconds <= seconds(0.9 * run.interval_seconds));
  CHECK(run.seconds <= seconds(1.1 * run.interval_seconds));
  CHECK(std::isinf(plan::run_time(1e5, 1e6, 1).seconds));
}

TEST_CASE("each cluster and number of hosts has its hours and dollars") {
  const ProgramOutput output =
      front({"--hosts", "1,2", "--price-per-hour", "2,5", "--steps", "1000000", "--json"});
  REQUIRE(output.status == 0);
  const Json rows = Json::parse(output.text)["candidates"];
  REQUIRE(rows.size() == 4);
  double least = 1e9;
  for (const Json& row : rows) {
    const double price = row["cluster"] == "dgx-v100" ? 2 : 5;
    CHECK(row["devices"] == 8 * row["hosts"].get<int>());
    const double hours = row["step_seconds"].get<double>() * 1e6 / 3600;
    CHECK(row["hours"].get<double>() == doctest::Approx(hours));
    CHECK(row["dollars"].get<double>() ==
          doctest::Approx(hours * price * row["devices"].get<int>()));
    least = std::min(least, row["dollars"].get<double>());
  }
  for (const Json& row : rows) {
    bool undercut = false;
    for (const Json& other : rows)
      undercut |= other["hours"] <= row["hours"] && other["dollars"] <= row["dollars"] &&
                  (other["hours"] < row["hours"] || other["dollars"] < row["dollars"]);
    CHECK(row["front"] == !undercut);
    if (row["dollars"] == least) CHECK(row["front"] == true);
  }
}

TEST_CASE("a deadline names what ends in time for the least dollars") {
  const ProgramOutput output =
      front({"--price-per-hour", "2,200", "--steps", "1000000", "--deadline", "1e6"});
  CAPTURE(output.text);
  CHECK(output.text.find("within 1e+06 hours: dgx-v100 x 1, ") != output.text.npos);
  const std::string late =
      front({"--price-per-hour", "2", "--steps", "1000000000000", "--deadline", "1"}).text;
  CHECK(late.find("front, late\n") != late.npos);
  CHECK(late.find("within 1 hours: none of these\n") != late.npos);
}

TEST_CASE("mistakes of a run's price are named") {
  const auto mistake = [](std::vector<std::string> more) {
    const ProgramOutput output = front(std::move(more));
    CHECK(output.status == 2);
    return output.text;
  };
  CHECK(mistake({}) ==
        "alpa: --cluster and --hosts name several clusters; give --price-per-hour to compare "
        "them\n");
  CHECK(mistake({"--price-per-hour", "2"}) ==
        "alpa: --price-per-hour needs the length of the run: one of --tokens and --steps\n");
  CHECK(
      mistake({"--price-per-hour", "2,3,4", "--steps", "5"}) ==
      "alpa: --price-per-hour has 3 prices, but --cluster 2; give one for all, or one for each\n");
  CHECK(mistake({"--price-per-hour", "2", "--steps", "5", "--mtbf", "10"}) ==
        "alpa: --mtbf and --write-rate price restarts together; give both or none\n");
  CHECK(mistake({"--steps", "5"}) == "alpa: --steps has no effect without --price-per-hour\n");
  CHECK(mistake({"--price-per-hour", "2", "--steps", "5", "--compare", "data"}) ==
        "alpa: --compare has no effect beside --price-per-hour, which plans several\n");
  CHECK(mistake({"--price-per-hour", "2", "--tokens", "5"})
            .starts_with("alpa: --tokens: a step of mlp tiny takes "));
}

}  // namespace plan_front_test
