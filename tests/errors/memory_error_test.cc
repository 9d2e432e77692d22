// States that memory has no room for are refused before anything is allocated.
#include <doctest/doctest.h>

#include "src/base/host_memory.h"

#include <limits>

#include "errors/small_model.h"
#include "src/runtime/host_arenas.h"
#include "support/error_text.h"

namespace memory_error_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("more bytes than are available, on a machine and in a control group") {
  HostMemory memory{.total_bytes = 8000, .limit_bytes = 8000, .available_bytes = 5000, .group = ""};
  CHECK(error_of([&] { runtime::require_available(4000, 1000, 2, memory); }) == "no error");
  CHECK(error_of([&] { runtime::require_available(4001, 1000, 1, memory); }) ==
        "no memory for a new state: 1 device needs 4001 bytes of arenas, "
        "and 1000 more for threads and temporary buffers, but this machine has 5000 available; "
        "use more micro-batches, a smaller batch or a memory budget, drop other states, "
        "or end other programs");
  memory.group = "/docker/x";
  CHECK(error_of([&] { runtime::require_available(4001, 1000, 2, memory); }) ==
        "no memory for a new state: 2 devices need 4001 bytes of arenas, "
        "and 1000 more for threads and temporary buffers, but control group \"/docker/x\" has "
        "5000 left; use more micro-batches, a smaller batch or a memory budget, "
        "drop other states, or raise the group's limit");
}

TEST_CASE("a state of four times the machine's memory") {
  // x has 6 columns; on two devices
  const std::int64_t rows = host_memory().total_bytes / 6 / 4 / 2 * 8;
  const DataParallel method{.memory_budget_bytes = std::numeric_limits<std::int64_t>::max() / 4};
  const Executable train = parallelize(small_step(rows), method, Cluster::local(2));
  REQUIRE(2 * train.memory_bytes() > 4 * host_memory().total_bytes);
  const std::string error = error_of([&] { train.init(0); });
  CAPTURE(error);
  const std::string start = "no memory for a new state: 2 devices need ";
  REQUIRE(error.starts_with(start));
  CHECK(std::stoll(error.substr(start.size())) >= 2 * train.memory_bytes());
}

TEST_CASE("CPU devices share what the process may use, whatever others hold of it") {
  for (int n : {1, 3, 8})
    CHECK(Cluster::local(n).device.memory_bytes == host_memory().limit_bytes / n);
}

}  // namespace memory_error_test
