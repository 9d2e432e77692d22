// src/ops/reshape.cc — the same elements in row-major order in another shape
#include <numeric>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// One side of the walk: its dimensions from the major end, the one being read partly consumed.
struct Side {
  const Shape& shape;
  DimFactors dims;
  std::size_t at = 0;
  std::int64_t rest = 1;  ///< rest of dimension `at`

  explicit Side(const Shape& shape) : shape(shape), dims(shape.size()) { settle(); }
  bool done() const { return at == shape.size(); }
  /// Moves to the next dimension with something left.
  void settle() {
    while (at < shape.size() && shape[at] == 1) ++at;
    rest = done() ? 1 : shape[at];
  }
  void consume(std::int64_t size, int factor) {
    dims[at].push_back(factor);
    rest /= size;
    if (rest > 1) return;
    ++at;
    settle();
  }
};

/// Splits both shapes into common factors from the major end: a factor that both sides share keeps
/// its place in the row-major order, so splitting it moves nothing. Where the extents have no
/// common factor, dimensions are opaque until products meet again.
class ReshapeWalk {
 public:
  ReshapeWalk(const Shape& from, const Shape& to) : from_(from), to_(to) {}

  Rule run() {
    while (!from_.done() && !to_.done()) {
      const std::int64_t common = std::gcd(from_.rest, to_.rest);
      if (common > 1)
        share(common);
      else
        skip_opaque();
    }
    mark_compound(from_.dims);
    mark_compound(to_.dims);
    rule_.operands.push_back(std::move(from_.dims));
    rule_.results.push_back(std::move(to_.dims));
    return std::move(rule_);
  }

 private:
  int add(std::int64_t size, bool whole) {
    rule_.factors.push_back({size, whole});
    return static_cast<int>(rule_.factors.size()) - 1;
  }

  void share(std::int64_t size) {
    const int factor = add(size, false);
    from_.consume(size, factor);
    to_.consume(size, factor);
  }

  /// Consumes whole dimensions on the side with the smaller product until both products are equal.
  void skip_opaque() {
    std::int64_t from_product = 1, to_product = 1;
    do {
      Side& side = from_product <= to_product ? from_ : to_;
      (from_product <= to_product ? from_product : to_product) *= side.rest;
      side.consume(side.rest, add(side.rest, true));
    } while (from_product != to_product);
  }

  /// Only the major factor of a dimension can be split, and only evenly if
  /// there are others below it.
  void mark_compound(const DimFactors& dims) {
    for (const std::vector<int>& factors : dims) {
      if (factors.size() < 2) continue;
      rule_.factors[factors[0]].even_only = true;
      for (std::size_t i = 1; i < factors.size(); ++i) rule_.factors[factors[i]].whole = true;
    }
  }

  Side from_, to_;
  Rule rule_;
};

Rule reshape_rule(const OpQuery& query) {
  ops::require_operands(query, 1);
  const Shape& shape = query.attributes.integers("shape");
  for (std::int64_t extent : shape)
    if (extent < 1) fail("reshape: extents must be at least 1 (shape {})", to_string(shape));
  check_type({query.operands[0].dtype, shape}, "reshape: the result");
  if (num_elements(shape) != query.operands[0].elements())
    fail("reshape: {} has {} elements but {} has {}", to_string(query.operands[0]),
         query.operands[0].elements(), to_string(shape), num_elements(shape));
  Rule rule = ReshapeWalk(query.operands[0].shape, shape).run();
  rule.linear = ops::movement_linear(query);
  return rule;
}

/// `shape` with its -1, if any, replaced by what is left.
Shape completed(Shape shape, const TensorType& type) {
  Shape others = shape;
  const std::size_t unknown = std::erase(others, -1);
  if (unknown > 1) fail("reshape: {} has more than one extent of -1", to_string(shape));
  if (unknown == 0) return shape;
  for (std::int64_t extent : others)
    if (extent < 1)
      fail("reshape: extents must be at least 1, but one may be -1 (shape {})", to_string(shape));
  const std::int64_t known = num_elements(others);
  if (type.elements() % known != 0)
    fail("reshape: {} does not fit {}: {} elements are not a multiple of {}", to_string(type),
         to_string(shape), type.elements(), known);
  for (std::int64_t& extent : shape)
    if (extent == -1) extent = type.elements() / known;
  return shape;
}

}  // namespace

const OpDef ops::reshape = {
    .name = "reshape",
    .rule = reshape_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {alpa::reshape(dys[0], g.operand(n, 0).shape())};
    },
    .work = Work::free,
    .in_place = InPlace::paired,
    .alias = true,
    .cpu = &cpu::reshape,
};

Value reshape(Value x, const Shape& shape) {
  require(static_cast<bool>(x), "reshape: the operand is an empty Value");
  const Shape target = completed(shape, x.type());
  if (target == x.shape()) return x;
  return recorder(x).emit_one(ops::reshape, {x}, {{"shape", target}});
}

}  // namespace alpa
