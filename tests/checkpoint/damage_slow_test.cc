// Ten thousand mutations of the files of a checkpoint.
#include "checkpoint/damage.h"

namespace damage_slow_test {

using namespace alpa::testing::damage;

TEST_CASE("none of 10,000 mutations of a manifest and a shard is restored") {
  check_mutations(5000, 2);
}

}  // namespace damage_slow_test
