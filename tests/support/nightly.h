#pragma once
/// Tests of which more, or longer ones, run at night.
#include <cstdlib>
#include <utility>

namespace alpa::testing {

/// True where ALPA_NIGHTLY is set, as scripts/test --all and the nightly run set it. Cases that
/// only run at night have the decorator `doctest::skip(!is_nightly())`.
inline bool is_nightly() { return std::getenv("ALPA_NIGHTLY") != nullptr; }

/// `all` at night; by day `daily`, a sample of the same.
template <class T>
T sampled(T daily, T all) {
  return is_nightly() ? std::move(all) : std::move(daily);
}

}  // namespace alpa::testing
