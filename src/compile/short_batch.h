#pragma once
/// Batches of fewer rows than a step was planned for.
#include <cstdint>

namespace alpa {

/// The whole batch of a step, and the micro-batches that it is cut into.
struct WholeBatch {
  std::int64_t rows = 1;
  int micro_batches = 1;
};

/// The number of micro-batches of a batch of `rows` rows, 1 to `whole.rows`: the fewest of equally
/// many rows of which none has more rows than one of the whole batch. What depends on them
/// (dropout, batch normalisation, means over labels that count, capacity of experts) thus depends
/// on these numbers alone, and on no plan. Where no small number divides `rows` there are many: of
/// 64 rows in 4, 60 become 4 micro-batches of 15 rows, 59 become 59 of one row.
int micro_batches_of_short_batch(std::int64_t rows, const WholeBatch& whole);

}  // namespace alpa
