// tools/common/processes.cc — the number of processes that run a program together
#include "tools/common/processes.h"

#include "src/processes/world.h"

namespace cli {

int processes() {
  const alpa::processes::World* const world = alpa::processes::world();
  return world ? world->size() : 1;
}

void require_equal_in_all(const std::string& what, const std::string& text) {
  if (alpa::processes::World* const world = alpa::processes::world())
    world->require_equal(what, text);
}

}  // namespace cli
