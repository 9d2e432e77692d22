// src/comm/combine.cc — partial results of the members of a group, combined
#include "combine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <type_traits>

#include "alpa/base/error.h"
#include "src/base/half.h"

namespace alpa::comm {
namespace {

/// Elements combined at a time: the results of a block stay in the first-level cache.
constexpr std::int64_t kBlock = 1024;

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(Bf16 x) { return to_float(x); }
inline float widen(F16 x) { return to_float(x); }
inline std::uint32_t widen(std::uint32_t x) { return x; }
inline std::int32_t widen(std::int32_t x) { return x; }
inline std::uint8_t widen(std::uint8_t x) { return x; }

template <class T>
using WideOf = decltype(widen(T{}));

template <class T, class Wide>
inline T narrow(Wide x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(x);
  else if constexpr (std::is_same_v<T, F16>)
    return to_f16(x);
  else
    return static_cast<T>(x);
}

struct Sum {
  template <class Wide>
  Wide operator()(Wide a, Wide b) const {
    return static_cast<Wide>(a + b);
  }
};

struct Max {
  template <class Wide>
  Wide operator()(Wide a, Wide b) const {
    return (a >= b || a != a) ? a : b;  // NaN in either place stays
  }
};

struct LogSumExp {
  template <class Wide>
  Wide operator()(Wide a, Wide b) const {
    const Wide largest = Max{}(a, b);
    if (!std::isfinite(largest)) return largest;  // their difference may be NaN
    return largest + std::log1p(std::exp(-std::abs(a - b)));
  }
};

using Parts = std::span<const Subtotal>;

/// The parts on both sides of the split of their range.
std::pair<Parts, Parts> halves(Parts parts) {
  const int split = split_point(parts.front().begin, parts.back().end);
  const auto right = std::partition_point(parts.begin(), parts.end(),
                                          [&](const Subtotal& part) { return part.begin < split; });
  const auto left = static_cast<std::size_t>(right - parts.begin());
  return {parts.first(left), parts.subspan(left)};
}

/// True if no part is empty and each begins where the one before ends.
bool are_neighbours(Parts parts) {
  for (std::size_t p = 0; p < parts.size(); ++p)
    if (parts[p].begin >= parts[p].end || (p > 0 && parts[p].begin != parts[p - 1].end))
      return false;
  return true;
}

/// True if parts that are neighbours are nodes of the tree over their range.
bool are_nodes(Parts parts) {
  const int begin = parts.front().begin, end = parts.back().end;
  if (parts.size() == 1 || static_cast<int>(parts.size()) == end - begin) return true;
  const auto [left, right] = halves(parts);
  return !right.empty() && right.front().begin == split_point(begin, end) && are_nodes(left) &&
         are_nodes(right);
}

/// A range is a subtree of some group if it begins at a multiple of the power of two that holds it.
bool make_up_subtree(Parts parts) {
  if (parts.front().begin < 0 || !are_neighbours(parts) || !are_nodes(parts)) return false;
  const auto begin = static_cast<unsigned>(parts.front().begin),
             end = static_cast<unsigned>(parts.back().end);
  return begin % std::bit_ceil(end - begin) == 0;
}

std::string to_string(Parts parts) {
  std::string text;
  for (const Subtotal& part : parts)
    text += fmt::format("{}[{}, {})", text.empty() ? "" : ", ", part.begin, part.end);
  return text;
}

/// Elements [begin, begin + size) of every part.
struct Block {
  std::int64_t begin, size;
};

/// out[i] = value(i), or with `add` out[i] ⊕ value(i).
template <class Op, bool add, class Wide, class Value>
inline void put(Wide* __restrict out, std::int64_t size, const Value& value) {
  for (std::int64_t i = 0; i < size; ++i) {
    if constexpr (add)
      out[i] = Op{}(out[i], value(i));
    else
      out[i] = value(i);
  }
}

/// Folds one, two or, by halves of two, four parts of elements S in one pass.
template <class S, class Op, bool add, class Wide>
void fold_at_once(Parts parts, Block block, Wide* out) {
  const auto at = [&](std::size_t p) {
    return reinterpret_cast<const S*>(parts[p].data) + block.begin;
  };
  if (parts.size() == 1) {
    const S* const a = at(0);
    put<Op, add>(out, block.size, [=](std::int64_t i) { return widen(a[i]); });
  } else if (parts.size() == 2) {
    const S *const a = at(0), *const b = at(1);
    put<Op, add>(out, block.size, [=](std::int64_t i) { return Op{}(widen(a[i]), widen(b[i])); });
  } else {
    const S *const a = at(0), *const b = at(1), *const c = at(2), *const d = at(3);
    put<Op, add>(out, block.size, [=](std::int64_t i) {
      return Op{}(Op{}(widen(a[i]), widen(b[i])), Op{}(widen(c[i]), widen(d[i])));
    });
  }
}

template <class T>
bool is_wide(const Subtotal& part) {
  return std::is_same_v<T, WideOf<T>> || !part.single();
}

/// True if `parts` have elements of one type, and fold_at_once has their tree. Maxima of four at
/// once were slower than pairs.
template <class T, class Op>
bool fold_together(Parts parts, Parts left) {
  const bool fours = std::is_same_v<Op, Sum> && parts.size() == 4 && left.size() == 2;
  return (parts.size() <= 2 || fours) &&
         std::all_of(parts.begin(), parts.end(), [&](const Subtotal& part) {
           return is_wide<T>(part) == is_wide<T>(parts[0]);
         });
}

/// The block of all parts, combined: into `out`, or with `add` onto it, from the right.
template <class T, class Op, bool add>
void fold(Parts parts, Block block, WideOf<T>* out) {
  const auto [left, right] = parts.size() > 1 ? halves(parts) : std::pair{parts, Parts{}};
  if (fold_together<T, Op>(parts, left)) {
    if (is_wide<T>(parts[0])) return fold_at_once<WideOf<T>, Op, add>(parts, block, out);
    return fold_at_once<T, Op, add>(parts, block, out);
  }
  if constexpr (add) {
    WideOf<T> sum[kBlock];
    fold<T, Op, false>(parts, block, sum);
    put<Op, true>(out, block.size, [&](std::int64_t i) { return sum[i]; });
  } else {
    fold<T, Op, false>(left, block, out);
    fold<T, Op, true>(right, block, out);
  }
}

template <class T, class Target, class Op>
void combine_blocks(Parts parts, std::span<std::byte* const> targets, std::int64_t count) {
  WideOf<T> sum[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const Block block{begin, std::min(kBlock, count - begin)};
    fold<T, Op, false>(parts, block, sum);
    for (std::byte* target : targets) {
      Target* to = reinterpret_cast<Target*>(target) + begin;
      for (std::int64_t i = 0; i < block.size; ++i) to[i] = narrow<Target>(sum[i]);
    }
  }
}

/// i32 sums are taken unsigned, where wrapping is defined; maxima need the sign.
template <class T, class SumType = T>
void combine_as(Combiner combiner, Parts parts, std::span<std::byte* const> targets,
                std::int64_t count, bool partial) {
  const auto run = [&]<class E, class Op>(E, Op) {
    if (partial)
      combine_blocks<E, WideOf<E>, Op>(parts, targets, count);
    else
      combine_blocks<E, E, Op>(parts, targets, count);
  };
  switch (combiner) {
    case Combiner::sum: return run(SumType{}, Sum{});
    case Combiner::max: return run(T{}, Max{});
    case Combiner::log_sum_exp:
      if constexpr (std::is_floating_point_v<WideOf<T>>) return run(T{}, LogSumExp{});
      bug("combine: log_sum_exp of integers");
  }
}

void append_subtrees(std::span<const int> members, int begin, int end,
                     std::vector<std::pair<int, int>>& ranges) {
  if (members.empty()) return;
  if (static_cast<int>(members.size()) == end - begin) {
    ranges.emplace_back(begin, end);
    return;
  }
  const int split = split_point(begin, end);
  const auto left = static_cast<std::size_t>(
      std::lower_bound(members.begin(), members.end(), split) - members.begin());
  append_subtrees(members.first(left), begin, split, ranges);
  append_subtrees(members.subspan(left), split, end, ranges);
}

}  // namespace

int split_point(int begin, int end) {
  return begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(end - begin) - 1));
}

std::vector<std::pair<int, int>> subtrees(std::span<const int> members, int size) {
  const bool ascending =
      std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end();
  invariant(ascending && (members.empty() || (members.front() >= 0 && members.back() < size)),
            "subtrees: members [{}] are not ascending below {}", fmt::join(members, ", "), size);
  std::vector<std::pair<int, int>> ranges;
  append_subtrees(members, 0, size, ranges);
  return ranges;
}

DType partial_dtype(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype;
}

void combine(DType dtype, Combiner combiner, std::span<const Subtotal> parts,
             std::span<std::byte* const> targets, std::int64_t count, bool partial) {
  invariant(!parts.empty(), "combine: no parts");
  if (!make_up_subtree(parts)) bug("combine: parts {} do not make up a subtree", to_string(parts));
  switch (dtype) {
    case DType::f32: return combine_as<float>(combiner, parts, targets, count, partial);
    case DType::f64: return combine_as<double>(combiner, parts, targets, count, partial);
    case DType::bf16: return combine_as<Bf16>(combiner, parts, targets, count, partial);
    case DType::f16: return combine_as<F16>(combiner, parts, targets, count, partial);
    case DType::i32:
      return combine_as<std::int32_t, std::uint32_t>(combiner, parts, targets, count, partial);
    case DType::u8: return combine_as<std::uint8_t>(combiner, parts, targets, count, partial);
  }
}

}  // namespace alpa::comm
