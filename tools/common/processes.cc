// tools/common/processes.cc — the number of processes that run a program together
#include "tools/common/processes.h"

#include "src/processes/world.h"

namespace cli {

int processes() {
  const alpa::processes::World* const world = alpa::processes::world();
  return world ? world->size() : 1;
}

}  // namespace cli
