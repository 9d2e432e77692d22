// models/main.cc — alpa-gpt, alpa-mlp and others: `alpa train` of the model that the build names
#include "alpa/base/program.h"
#include "models/common/train.h"

int main(int argc, char** argv) {
  const auto train = [](int n, char** words) {
    return programs::train_program(ALPA_MODEL, n, words);
  };
  return alpa::run_program("alpa-" ALPA_MODEL, train, argc, argv);
}
