// A thousand kills at random instants, of programs of every kind.
#include "models/killed_runs.h"

namespace checkpoint_slow_test {

using namespace alpa::testing;

TEST_CASE(
    "programs of every kind, killed 1,000 times, go on with the losses of one that never was") {
  const Training programs[] = {
      {"slow_mlp",
       {"alpa-mlp", "--dim", "32", "--layers", "2", "--batch", "64", "--devices", "4",
        "--precision", "f16_mixed"},
       6000},
      {"slow_pipeline",
       {"alpa-mlp", "--dim", "16", "--layers", "4", "--batch", "32", "--devices", "4", "--method",
        "pipeline", "--micro-batches", "4"},
       6000},
      {"slow_gpt",
       {"alpa-gpt", "--model", "tiny", "--vocabulary", "64", "--sequence", "16", "--batch", "8",
        "--devices", "2"},
       4000},
      {"slow_moe",
       {"alpa-moe", "--model", "tiny", "--vocabulary", "64", "--sequence", "16", "--batch", "8",
        "--devices", "2"},
       3000},
      {"slow_wide_resnet",
       {"alpa-wide-resnet", "--model", "tiny", "--batch", "4", "--devices", "2"},
       600},
  };
  unsigned seed = 1;
  for (const Training& program : programs) {
    CAPTURE(program.name);
    CHECK(differences_of_killed_runs(program, 200, seed++) == 0);
  }
}

}  // namespace checkpoint_slow_test
