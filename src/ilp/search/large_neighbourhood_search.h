#pragma once
/// Large neighbourhood search: a part of the nodes is set free and solved
/// exactly while the rest stays.
#include "src/ilp/model/model.h"
#include "src/ilp/model/options.h"

namespace alpa::ilp {

/// Improves a feasible choice of the live nodes in place until the deadline, or until it costs
/// `enough` or less. Returns its cost without the constant. `round` varies the random draws.
Cost large_neighbourhood_search(const Model& model, std::vector<int>& choice,
                                const Options& options, int round, Cost enough,
                                const Deadline& deadline);

}  // namespace alpa::ilp
