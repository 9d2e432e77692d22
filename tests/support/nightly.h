#pragma once
/// What tests try of many alike: some daily, all of them at night.
#include <cstdlib>
#include <utility>

namespace alpa::testing {

/// `all` where ALPA_NIGHTLY is set, as scripts/test --all and the nightly run set it; else `daily`,
/// a sample of the same.
template <class T>
T sampled(T daily, T all) {
  return std::getenv("ALPA_NIGHTLY") != nullptr ? std::move(all) : std::move(daily);
}

}  // namespace alpa::testing
