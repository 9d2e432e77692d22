// src/compile/short_batch.cc — the rule by which a batch of fewer rows is cut into micro-batches
#include "short_batch.h"

namespace alpa {

int micro_batches_of_short_batch(std::int64_t rows, const WholeBatch& whole) {
  const std::int64_t most = whole.rows / whole.micro_batches;  // rows of a micro-batch
  std::int64_t parts = (rows + most - 1) / most;
  while (rows % parts != 0) ++parts;
  return static_cast<int>(parts);
}

}  // namespace alpa
