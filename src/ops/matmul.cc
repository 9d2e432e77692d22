// src/ops/matmul.cc — y[…, m, n] = sum over k of x[…, m, k] w[…, k, n], as an einsum
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"

namespace alpa {
namespace {

constexpr std::string_view kBatchLetters = "bcdefghijlopqrstuvwxyz";

void check_matmul(const TensorType& x, const TensorType& w) {
  const int rx = x.rank(), rw = w.rank();
  const std::string types = fmt::format("x {}, w {}", to_string(x), to_string(w));
  require(rx >= 2 && rw >= 2,
          "matmul: both operands need at least 2 dimensions ({}); reshape vectors to matrices",
          types);
  require(x.dtype == w.dtype, "matmul: x is {} but w is {} ({}); cast one of them",
          name_of(x.dtype), name_of(w.dtype), types);
  require(x.shape[rx - 1] == w.shape[rw - 2],
          "matmul: x has k={} but w has k={} ({}); transpose w or reshape x", x.shape[rx - 1],
          w.shape[rw - 2], types);
  const Shape bx(x.shape.begin(), x.shape.end() - 2), bw(w.shape.begin(), w.shape.end() - 2);
  require(bx.empty() || bw.empty() || bx == bw,
          "matmul: leading dimensions {} of x and {} of w differ ({}); broadcast one of them",
          to_string(bx), to_string(bw), types);
  require(std::max(rx, rw) - 2 <= static_cast<int>(kBatchLetters.size()),
          "matmul: too many dimensions ({})", types);
}

}  // namespace

Value matmul(Value x, Value w) {
  require(x && w, "matmul: an operand is an empty Value");
  check_matmul(x.type(), w.type());
  const std::string_view bx = kBatchLetters.substr(0, x.rank() - 2),
                         bw = kBatchLetters.substr(0, w.rank() - 2);
  return einsum(fmt::format("{}mk,{}kn->{}mn", bx, bw, bx.size() > bw.size() ? bx : bw), x, w);
}

}  // namespace alpa
