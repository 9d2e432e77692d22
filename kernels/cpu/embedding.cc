// kernels/cpu/embedding.cc — embedding and embedding_grad. A device may hold only some rows of the
// table; ids of other rows are left to the devices that hold them.
#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cpu/block_io.h"
#include "kernels/cpu/buckets.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kBlock = 1024;
constexpr std::int64_t kGrain = 16 * 1024;  ///< elements worth a thread

/// The rows of a table that a device holds.
class HeldRows {
 public:
  explicit HeldRows(const KernelTensor& table)
      : all_(table.global_shape[0]), first_(table.offset[0]), held_(table.type.shape[0]) {}

  std::int64_t count() const { return held_; }

  /// Local row of an id, -1 if another device holds it. Throws Error if there is no such row.
  std::int64_t local(std::int32_t id) const {
    require(id >= 0 && id < all_,
            "id {} is outside of the table's rows 0 to {}; give ids of rows that exist", id,
            all_ - 1);
    const std::int64_t row = id - first_;
    return row >= 0 && row < held_ ? row : -1;
  }

 private:
  std::int64_t all_, first_, held_;
};

void run_embedding(const KernelCall& call) {
  const KernelTensor &table = call.inputs[0], &y = call.outputs[0];
  const HeldRows rows(table);
  const std::int64_t width = table.type.shape[1],
                     bytes = width * static_cast<std::int64_t>(size_of(table.type.dtype));
  const auto* const ids = call.inputs[1].as<std::int32_t>();
  call.team->for_each(call.inputs[1].type.elements(), kGrain / std::max<std::int64_t>(1, width) + 1,
                      [&](std::int64_t t) {
                        const std::int64_t row = rows.local(ids[t]);
                        if (row >= 0)
                          std::copy_n(table.data + row * bytes, bytes, y.data + t * bytes);
                        else
                          std::fill_n(y.data + t * bytes, bytes, std::byte{0});
                      });
}

/// Sums of the rows of dy at `tokens`, columns [column, column + n).
template <class T>
void add_tokens(double* sums, const KernelTensor& dy, const std::int64_t* begin,
                const std::int64_t* end, std::int64_t column, std::int64_t n) {
  const auto& add = loops<T>(isa().reduce)[static_cast<int>(ReduceOp::sum)].rows;
  T buffer[kBlock];
  for (const std::int64_t* token = begin; token < end; ++token) {
    load_block(buffer, dy.data, dy.type.dtype, *token * dy.type.shape.back() + column, n);
    add(sums, buffer, 1, 0, n);
  }
}

void sum_row(const KernelTensor& dtable, const KernelTensor& dy, std::int64_t row,
             const std::int64_t* begin, const std::int64_t* end) {
  const std::int64_t width = dtable.type.shape[1];
  double sums[kBlock];
  for (std::int64_t column = 0, n; column < width; column += n) {
    n = std::min(kBlock, width - column);
    std::fill(sums, sums + n, 0.0);
    (dy.type.dtype == f64 ? add_tokens<double> : add_tokens<float>)(sums, dy, begin, end, column,
                                                                    n);
    store_block(dtable.data, dtable.type.dtype, row * width + column, sums, n);
  }
}

void run_embedding_grad(const KernelCall& call) {
  const KernelTensor& dtable = call.outputs[0];
  const HeldRows rows(dtable);
  const auto* const ids = call.inputs[1].as<std::int32_t>();
  const Buckets buckets = sort_entries(call, rows.count(), call.inputs[1].type.elements(),
                                       [&](std::int64_t token) { return rows.local(ids[token]); });
  call.team->for_each(rows.count(), kGrain / std::max<std::int64_t>(1, dtable.type.shape[1]) + 1,
                      [&](std::int64_t row) {
                        sum_row(dtable, call.inputs[0], row, buckets.begin(row), buckets.end(row));
                      });
}

std::int64_t grad_workspace(const KernelCall& call) {
  return buckets_bytes(call.outputs[0].type.shape[0], call.inputs[1].type.elements());
}

constexpr KernelDef kGradAtOnce{run_embedding_grad, nullptr, grad_workspace};

}  // namespace

const KernelDef embedding{run_embedding};
const KernelDef embedding_grad = in_chunks<kGradAtOnce>;

}  // namespace alpa::cpu
