// The table of collectives: rows by kind, and what their layouts say.
#include "alpa/mesh/collective.h"

#include <doctest/doctest.h>

#include <set>
#include <tuple>

namespace collective_test {

using namespace alpa;

TEST_CASE("every kind of collective has its own row, name and change of layout") {
  std::set<std::string_view> names;
  std::set<std::tuple<AxisPlacement::Kind, AxisPlacement::Kind>> changes;
  for (int kind = 0; kind < kNumCollectives; ++kind) {
    const CollectiveDef& def = def_of(static_cast<CollectiveKind>(kind));
    CHECK(static_cast<int>(def.kind) == kind);
    names.insert(def.name);
    changes.emplace(def.from, def.to);
  }
  CHECK(names.size() == kNumCollectives);
  CHECK(changes.size() == kNumCollectives);
}

TEST_CASE("the layouts of a collective say what it combines, splits, joins and gathers") {
  using enum CollectiveKind;
  const auto kinds = [](bool (*has)(CollectiveKind)) {
    std::set<CollectiveKind> found;
    for (const CollectiveDef& def : kCollectives)
      if (has(def.kind)) found.insert(def.kind);
    return found;
  };
  CHECK(kinds(exchanges) == std::set{all_reduce, reduce_scatter, all_gather, all_to_all});
  CHECK(kinds(reduces) == std::set{all_reduce, reduce_scatter});
  CHECK(kinds(splits) == std::set{reduce_scatter, all_to_all, slice});
  CHECK(kinds(joins) == std::set{all_gather, all_to_all});
  CHECK(kinds(gathers) == std::set{all_gather});
  CHECK(kinds(pairwise) == std::set{all_to_all});
}

}  // namespace collective_test
