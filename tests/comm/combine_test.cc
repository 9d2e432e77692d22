// The tree along which groups combine, against a recursion in plain code.
#include "src/comm/combine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "alpa/base/error.h"
#include "src/tensor/element.h"

namespace combine_test {

using namespace alpa;
using comm::Subtotal;

namespace {

using Ranges = std::vector<std::pair<int, int>>;
using Bytes = std::vector<std::byte>;

/// a ⊕ b of elements that are computed in f32, except f64 and whole numbers, which wrap.
double pair(DType dtype, Combiner combiner, double a, double b) {
  if (combiner != Combiner::sum && (std::isnan(a) || std::isnan(b))) return std::isnan(a) ? a : b;
  if (combiner == Combiner::max) return std::max(a, b);
  if (combiner == Combiner::log_sum_exp && std::isinf(std::max(a, b))) return std::max(a, b);
  if (combiner == Combiner::log_sum_exp && dtype == f64)
    return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
  if (combiner == Combiner::log_sum_exp)
    return static_cast<float>(std::max(a, b)) +
           std::log1p(std::exp(-std::abs(static_cast<float>(a) - static_cast<float>(b))));
  if (dtype == f64) return a + b;
  if (dtype == u8) return static_cast<int>(a + b) % 256;
  if (dtype == i32)
    return static_cast<std::int32_t>(
        static_cast<std::uint32_t>(static_cast<std::int64_t>(a) + static_cast<std::int64_t>(b)));
  return static_cast<float>(a) + static_cast<float>(b);
}

/// Values [begin, end), combined: the left side takes 1, 2, 4, … values, as many as leave one.
double tree(DType dtype, Combiner combiner, const std::vector<double>& values, int begin, int end) {
  if (end - begin == 1) return values[begin];
  int left = 1;
  while (2 * left < end - begin) left *= 2;
  return pair(dtype, combiner, tree(dtype, combiner, values, begin, begin + left),
              tree(dtype, combiner, values, begin + left, end));
}

/// The elements of all members: magnitudes differ, so that sums depend on their order; others
/// meet NaN, log_sum_exp also -∞.
struct Members {
  DType dtype;
  Combiner combiner;
  std::int64_t count;
  std::vector<Bytes> elements;  ///< per member

  Members(int size, DType dtype, Combiner combiner, std::int64_t count, unsigned seed)
      : dtype(dtype), combiner(combiner), count(count), elements(size) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_int_distribution<std::int64_t> whole(
        dtype == u8 ? 0 : std::numeric_limits<std::int32_t>::min(),
        dtype == u8 ? 255 : std::numeric_limits<std::int32_t>::max());
    for (Bytes& own : elements) {
      own.resize(count * size_of(dtype));
      for (std::int64_t i = 0; i < count; ++i) {
        double value = is_floating(dtype) ? std::exp(2 * normal(random)) * normal(random)
                                          : static_cast<double>(whole(random));
        if (is_floating(dtype) && combiner != Combiner::sum && random() % 8 == 0)
          value = std::numeric_limits<double>::quiet_NaN();
        if (is_floating(dtype) && combiner == Combiner::log_sum_exp && random() % 4 == 0)
          value = -std::numeric_limits<double>::infinity();
        store_element(dtype, &own[i * size_of(dtype)], value);
      }
    }
  }

  int size() const { return static_cast<int>(elements.size()); }

  std::vector<double> values(std::int64_t i) const {
    std::vector<double> all;
    for (const Bytes& own : elements) all.push_back(load_element(dtype, &own[i * size_of(dtype)]));
    return all;
  }

  Bytes expected() const {
    Bytes result(count * size_of(dtype));
    for (std::int64_t i = 0; i < count; ++i)
      store_element(dtype, &result[i * size_of(dtype)],
                    tree(dtype, combiner, values(i), 0, size()));
    return result;
  }

  Subtotal single(int member) const { return {elements[member].data(), member, member + 1}; }

  std::vector<Subtotal> singles(int begin, int end) const {
    std::vector<Subtotal> parts;
    for (int m = begin; m < end; ++m) parts.push_back(single(m));
    return parts;
  }

  Bytes combined(const std::vector<Subtotal>& parts, bool partial = false) const {
    Bytes result(count * size_of(partial ? comm::partial_dtype(dtype) : dtype));
    std::byte* const target = result.data();
    comm::combine(dtype, combiner, parts, {&target, 1}, count, partial);
    return result;
  }

  /// Combined by what `ranges` (ascending, of all members) hold, each on its own first.
  Bytes combined(const Ranges& ranges) const {
    std::vector<Bytes> partials;
    std::vector<Subtotal> parts;
    for (const auto& [begin, end] : ranges)
      parts.push_back(
          end - begin == 1
              ? single(begin)
              : Subtotal{partials.emplace_back(combined(singles(begin, end), true)).data(), begin,
                         end});
    return combined(parts);
  }
};

template <class Body>
void for_each_case(const Body& body) {
  for (const DType dtype : kDTypes)
    for (const Combiner combiner : kCombiners) {
      if (combiner == Combiner::log_sum_exp && !is_floating(dtype)) continue;
      CAPTURE(name_of(dtype));
      CAPTURE(static_cast<int>(combiner));
      body(dtype, combiner);
    }
}

/// Subtrees that make up [begin, end), at random.
void cut(int begin, int end, std::mt19937& random, Ranges& ranges) {
  if (end - begin == 1 || random() % 3 == 0) {
    ranges.emplace_back(begin, end);
    return;
  }
  const int split = comm::split_point(begin, end);
  cut(begin, split, random, ranges);
  cut(split, end, random, ranges);
}

template <class Call>
std::string bug_of(const Call& call) {
  try {
    call();
  } catch (const Bug& bug) {
    return bug.what();
  }
  return "";
}

std::string bug_of_parts(const Ranges& ranges) {
  std::vector<Subtotal> parts;
  for (const auto& [begin, end] : ranges) parts.push_back({nullptr, begin, end});
  return bug_of([&] { comm::combine(f32, Combiner::sum, parts, {}, 0); });
}

}  // namespace

TEST_CASE("members are combined along the tree, bit for bit") {
  for_each_case([](DType dtype, Combiner combiner) {
    for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 37})
      for (const std::int64_t count : {0, 1, 5, 2500}) {
        CAPTURE(size);
        CAPTURE(count);
        const Members members(size, dtype, combiner, count, 7 * size);
        CHECK(members.combined(members.singles(0, size)) == members.expected());
      }
  });
}

TEST_CASE("four members are (0 + 1) + (2 + 3), five members that and the fifth") {
  // ((1e8 + 1) - 1e8) + 1 = 1 in f32 from left to right
  const float values[] = {1e8f, 1, -1e8f, 1, 3};
  for (const int size : {4, 5}) {
    Members members(size, f32, Combiner::sum, 1, 0);
    for (int m = 0; m < size; ++m) store_element(f32, members.elements[m].data(), values[m]);
    CHECK(load_element(f32, members.combined(members.singles(0, size)).data()) ==
          (size == 4 ? 0 : 3));
  }
}

TEST_CASE("a subtree's partial result in place of its members gives the same bits") {
  std::mt19937 random(3);
  for_each_case([&](DType dtype, Combiner combiner) {
    for (int size = 1; size <= 9; ++size) {
      CAPTURE(size);
      const Members members(size, dtype, combiner, 1100, size);
      const Bytes expected = members.combined(members.singles(0, size));
      for (int trial = 0; trial < 6; ++trial) {
        Ranges ranges;
        cut(0, size, random, ranges);
        CHECK(members.combined(ranges) == expected);
      }
    }
  });
}

TEST_CASE("a partial result is made of partial results, and of one member its elements, widened") {
  for (const Combiner combiner : kCombiners) {
    const Members members(4, bf16, combiner, 300, 1);
    const Bytes left = members.combined(members.singles(0, 2), true);
    const Bytes whole = members.combined(members.singles(0, 4), true);
    CHECK(members.combined({{left.data(), 0, 2}, members.single(2), members.single(3)}, true) ==
          whole);
    const Bytes own = members.combined(members.singles(3, 4), true);
    REQUIRE(own.size() == 300 * sizeof(float));
    CHECK(members.combined({{whole.data(), 0, 4}}) == members.expected());
    int wrong = 0;
    for (std::int64_t i = 0; i < 300; ++i) {
      const double value = load_element(f32, &own[i * 4]);
      const double expected = members.values(i)[3];
      wrong += value != expected && !(std::isnan(value) && std::isnan(expected));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("all targets get the result, also those that are the parts' own memory") {
  for_each_case([](DType dtype, Combiner combiner) {
    Members members(5, dtype, combiner, 1500, 11);
    const Bytes expected = members.expected();
    Bytes other(expected.size());
    std::byte* const targets[] = {members.elements[1].data(), other.data(),
                                  members.elements[4].data()};
    comm::combine(dtype, combiner, members.singles(0, 5), targets, 1500);
    CHECK(members.elements[1] == expected);
    CHECK(members.elements[4] == expected);
    CHECK(other == expected);
  });
}

TEST_CASE("a range is split at the largest power of two below its length") {
  const int expected[] = {1, 2, 2, 4, 4, 4, 4, 8};
  for (int size = 2; size <= 9; ++size) CHECK(comm::split_point(0, size) == expected[size - 2]);
  CHECK(comm::split_point(4, 7) == 6);
}

TEST_CASE("aligned blocks are one subtree, other members as few as hold them") {
  using V = std::vector<int>;
  CHECK(comm::subtrees(V{0, 1, 2, 3}, 8) == Ranges{{0, 4}});
  CHECK(comm::subtrees(V{4, 5, 6, 7}, 8) == Ranges{{4, 8}});
  CHECK(comm::subtrees(V{2, 3}, 6) == Ranges{{2, 4}});
  CHECK(comm::subtrees(V{0, 1, 2}, 6) == Ranges{{0, 2}, {2, 3}});
  CHECK(comm::subtrees(V{3, 4, 5}, 6) == Ranges{{3, 4}, {4, 6}});
  CHECK(comm::subtrees(V{4, 5, 6}, 7) == Ranges{{4, 7}});
  CHECK(comm::subtrees(V{0, 2, 3, 5, 6}, 7) == Ranges{{0, 1}, {2, 4}, {5, 6}, {6, 7}});
  CHECK(comm::subtrees(V{0, 1, 2, 3, 4, 5}, 6) == Ranges{{0, 6}});
  CHECK(comm::subtrees(V{0}, 1) == Ranges{{0, 1}});
  CHECK(comm::subtrees(V{}, 4).empty());
}

TEST_CASE("however members are dealt to processes, their subtrees together give the same bits") {
  std::mt19937 random(5);
  for (int size = 1; size <= 9; ++size)
    for (int trial = 0; trial < 20; ++trial) {
      const Members members(size, bf16, Combiner::sum, 64, size);
      std::vector<std::vector<int>> dealt(3);
      for (int m = 0; m < size; ++m) dealt[random() % 3].push_back(m);
      Ranges all;
      for (const std::vector<int>& own : dealt) {
        std::vector<int> held;
        for (const auto& [begin, end] : comm::subtrees(own, size)) {
          for (int m = begin; m < end; ++m) held.push_back(m);
          all.emplace_back(begin, end);
        }
        CHECK(held == own);
      }
      std::sort(all.begin(), all.end());
      CHECK(members.combined(all) == members.expected());
    }
}

TEST_CASE("parts that make up no subtree, and members that do not ascend, are bugs") {
  CHECK(bug_of_parts({}) == "combine: no parts");
  CHECK(bug_of_parts({{0, 1}, {2, 3}}) == "combine: parts [0, 1), [2, 3) do not make up a subtree");
  CHECK(bug_of_parts({{0, 1}, {1, 3}}) == "combine: parts [0, 1), [1, 3) do not make up a subtree");
  CHECK(bug_of_parts({{1, 2}, {2, 3}}) == "combine: parts [1, 2), [2, 3) do not make up a subtree");
  CHECK(bug_of_parts({{1, 2}, {0, 1}}) == "combine: parts [1, 2), [0, 1) do not make up a subtree");
  CHECK(bug_of_parts({{0, 2}, {2, 2}}) == "combine: parts [0, 2), [2, 2) do not make up a subtree");
  CHECK(bug_of_parts({{0, 3}, {3, 4}}) == "combine: parts [0, 3), [3, 4) do not make up a subtree");
  CHECK(bug_of_parts({{-1, 0}}) == "combine: parts [-1, 0) do not make up a subtree");
  const auto subtrees = [](std::vector<int> members, int size) {
    return bug_of([&] { comm::subtrees(members, size); });
  };
  CHECK(subtrees({2, 1}, 4) == "subtrees: members [2, 1] are not ascending below 4");
  CHECK(subtrees({1, 1}, 4) == "subtrees: members [1, 1] are not ascending below 4");
  CHECK(subtrees({3, 4}, 4) == "subtrees: members [3, 4] are not ascending below 4");
  CHECK(subtrees({-1}, 4) == "subtrees: members [-1] are not ascending below 4");
}

}  // namespace combine_test
