#pragma once
/// The best mixture of several choices.
#include "src/ilp/model/model.h"
#include "src/ilp/model/options.h"

namespace alpa::ilp {

/// A choice cheaper than the first of `choices`, in which every node has a strategy that one of
/// them gives it; empty: none was found until the deadline. Where the choices agree nothing is
/// left to decide, so that the mixture of many differing parts, which only together keep the
/// rows, is found at once. All are choices of the live nodes of `model`, which has no shared
/// terms; the first is feasible.
std::vector<int> cross(const Model& model, const std::vector<std::vector<int>>& choices,
                       const Options& options, const Deadline& deadline);

}  // namespace alpa::ilp
