// A training whose last rank does something else than the others, as the argument says.
// tests/processes/divergence_test.cc starts it under mpirun.
#include <alpa/alpa.h>
#include <string>

#include "alpa/base/program.h"
#include "processes/diverging.h"
#include "src/processes/launcher.h"

namespace {

int train(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  const alpa::processes::Launcher launch = alpa::processes::launcher();
  const bool last = launch.rank == launch.size - 1;
  if (way == "ends early") {  // before the others want to join, or mpirun would notice
    if (last) return 0;
    ::sleep(1);
  }
  alpa::testing::train_diverging(last ? way : "", launch.size);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return alpa::run_program("diverging", train, argc, argv); }
