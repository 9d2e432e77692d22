// Collectives on real cards: as many as there are, and logical devices of one.
#include "collective_checks.h"
#include "support/error_text.h"
#include "support/nccl_on_cards.h"

namespace alpa::collective_test {
namespace {

using namespace testing;

TEST_CASE("logical devices of one card exchange tensors as threads do") {
  if (no_device()) return;
  for (const int n : {1, 2, 3, 4})
    check_collectives(std::vector<int>(static_cast<std::size_t>(n), 0),
                      [](const std::vector<int>& ordinals) {
                        return cuda::make_copy_group(static_cast<int>(ordinals.size()));
                      });
}

TEST_CASE("cards exchange tensors through NCCL as threads do") {
  if (no_device()) return;
  int cards = 0;
  check(cudaGetDeviceCount(&cards));
  for (int n = 1; n <= std::min(cards, 4); ++n) {
    std::vector<int> ordinals;
    for (int i = 0; i < n; ++i) ordinals.push_back(i);
    check_collectives(ordinals, nccl_group_on);
  }
}

TEST_CASE("an NCCL group that was aborted says so, and one that is well says nothing") {
  if (no_device()) return;
  const int card = 0;
  const auto group = nccl_group_on({card});
  group->check_health();
  group->abort();
  CHECK(error_of([&] { group->check_health(); }) == "the NCCL group of rank 0 was aborted");
}

}  // namespace
}  // namespace alpa::collective_test
