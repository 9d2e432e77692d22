// A thousand kills at random instants, of programs of every kind.
//   ALPA_KILLS=COUNT test_models --source-file='*checkpoint_slow_test.cc' --subcase='moe'   others
#include <cstdlib>

#include "models/killed_runs.h"

namespace checkpoint_slow_test {

using namespace alpa::testing;

namespace {

constexpr const char* kTable = "checkpoint_slow_test_table.csv";

/// 150 rows: the third batch of 64 is short.
void write_table() {
  std::ofstream file(kTable);
  for (int row = 0; row < 150; ++row)
    file << row % 7 << ',' << row % 11 << ',' << row % 13 << ',' << row % 5 << '\n';
}

}  // namespace

TEST_CASE(
    "a program of any kind, killed 1,000 times, goes on with the losses of one never killed") {
  const Training programs[] = {
      {"mlp", {"alpa-mlp", "--dim", "32", "--layers", "2", "--batch", "64", "--devices", "4"}, 900},
      {"f16",
       {"alpa-mlp", "--dim", "32", "--layers", "2", "--batch", "64", "--devices", "4",
        "--precision", "f16_mixed"},
       900},
      {"short_batches",
       {"alpa-mlp", "--dim", "16", "--layers", "2", "--batch", "64", "--devices", "3", "--data",
        kTable},
       900},
      {"pipeline",
       {"alpa-mlp", "--dim", "16", "--layers", "4", "--batch", "32", "--devices", "4", "--method",
        "pipeline", "--micro-batches", "4"},
       900},
      {"gpt",
       {"alpa-gpt", "--model", "tiny", "--vocabulary", "64", "--sequence", "16", "--batch", "8",
        "--devices", "2"},
       600},
      {"dropout",
       {"alpa-bert", "--model", "tiny", "--vocabulary", "64", "--sequence", "16", "--batch", "8",
        "--devices", "2", "--dropout", "0.2"},
       600},
      {"moe",
       {"alpa-moe", "--model", "tiny", "--vocabulary", "64", "--sequence", "16", "--batch", "8",
        "--devices", "2"},
       300},
      {"wide_resnet",
       {"alpa-wide-resnet", "--model", "tiny", "--batch", "4", "--devices", "2"},
       100},
  };
  const char* const given = std::getenv("ALPA_KILLS");
  const int kills = given == nullptr ? 1000 : std::atoi(given);
  write_table();
  unsigned seed = 1;
  for (const Training& program : programs) {
    ++seed;
    SUBCASE(program.name) {
      const KilledRuns runs = killed_runs(program, kills, seed);
      CHECK(runs.kills == kills);
      CHECK(runs.wrong == 0);
      MESSAGE(std::string(program.name) << ": " << runs.kills << " kills, " << runs.in_training
                                        << " in training, " << runs.resumed << " runs resumed");
    }
  }
  std::remove(kTable);
}

}  // namespace checkpoint_slow_test
