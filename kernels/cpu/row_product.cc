// kernels/cpu/row_product.cc — products of few rows, shared by a team
#include <algorithm>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kLeastElements = 1 << 14;  ///< of b
constexpr std::int64_t kUnit = 16;                ///< columns; shares begin at whole vectors

bool is_along_n(const kernels::MatmulShape& s) { return s.b_n == 1; }

const RowProductLoops& loops_of(DType b) {
  const RowProductTable& table = isa().row_product;
  return b == bf16 ? table.bf16 : b == f16 ? table.f16 : table.f32;
}

/// Columns [begin, end).
void multiply_columns(const kernels::MatmulShape& s, float* c, const float* a, RowProductSide b,
                      std::int64_t begin, std::int64_t end) {
  const bool along_n = is_along_n(s);
  const auto element = static_cast<std::int64_t>(size_of(b.type));
  const RowProduct p{.a = a,
                     .b = static_cast<const std::byte*>(b.data) + begin * s.b_n * element,
                     .c = c + begin,
                     .rows = s.m,
                     .n = end - begin,
                     .k = s.k,
                     .a_row = s.a_m,
                     .a_step = s.a_k,
                     .b_lead = along_n ? s.b_k : s.b_n,
                     .c_row = s.c_m};
  along_n ? loops_of(b.type).along_n(p) : loops_of(b.type).along_k(p);
}

}  // namespace

bool suits_row_product(const kernels::MatmulShape& s) {
  const bool is_read_in_order = is_along_n(s) || (s.b_k == 1 && (s.a_k == 1 || s.k == 1));
  return s.batches() == 1 && s.m >= 1 && s.m <= kMostRows && s.n > 1 && s.k > 1 &&
         s.n * s.k >= kLeastElements && is_read_in_order;
}

void multiply_rows(const kernels::MatmulShape& s, float* c, const float* a, RowProductSide b,
                   ThreadTeam& team) {
  const std::int64_t threads = team.size(), units = (s.n + kUnit - 1) / kUnit;
  team.parallel_for(threads, 1, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = units * first / threads * kUnit,
                       end = std::min(units * last / threads * kUnit, s.n);
    if (begin < end) multiply_columns(s, c, a, b, begin, end);
  });
}

}  // namespace alpa::cpu
