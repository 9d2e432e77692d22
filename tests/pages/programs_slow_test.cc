// The commands on the pages as they are, which plan for minutes.
#include "pages/commands.h"

namespace programs_slow_test {

#if ALPA_PAGE_COMMANDS  // the programs are built
TEST_CASE("the commands of every page succeed as the page has them") {
  alpa::testing::check_commands({});
}
#endif

}  // namespace programs_slow_test
