#include "src/tensor/box_copy.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/base/shape.h"

namespace box_copy_test {

using namespace alpa;

namespace {

std::int64_t index_of(const Shape& shape, const Shape& at) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + at[d];
  return index;
}

}  // namespace

TEST_CASE("a box copy moves exactly the box, for random shapes of rank 0 to 4") {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 500; ++round) {
    const int rank = static_cast<int>(draw(0, 4));
    Shape source(rank), target(rank), from(rank), to(rank), extent(rank);
    for (int d = 0; d < rank; ++d) {
      source[d] = draw(1, 5), target[d] = draw(1, 5);
      extent[d] = draw(0, std::min(source[d], target[d]));
      from[d] = draw(0, source[d] - extent[d]), to[d] = draw(0, target[d] - extent[d]);
    }
    std::vector<std::int64_t> in(num_elements(source)), out(num_elements(target), -1),
        expected = out;
    std::iota(in.begin(), in.end(), 0);
    const std::int64_t elements = num_elements(extent);
    for (std::int64_t e = 0; e < elements; ++e) {
      Shape s(rank), t(rank);
      std::int64_t rest = e;
      for (int d = rank; d-- > 0; rest /= extent[d])
        s[d] = from[d] + rest % extent[d], t[d] = to[d] + rest % extent[d];
      expected[index_of(target, t)] = index_of(source, s);
    }
    const BoxCopy box = BoxCopy::make(source, from, target, to, extent);
    CHECK(box.elements() == elements);
    const std::int64_t half = box.runs() / 2;
    box.copy(reinterpret_cast<std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()), 8,
             half, box.runs());
    box.copy(reinterpret_cast<std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()), 8,
             0, half);
    CHECK(out == expected);
  }
}

TEST_CASE("dense stretches become single runs") {
  const Shape whole{6, 5, 4}, rows{2, 5, 4}, at{3, 0, 0}, zero{0, 0, 0};
  CHECK(BoxCopy::make(whole, at, rows, zero, rows).run == 2 * 5 * 4);
  const Shape columns{6, 2, 4}, middle{0, 3, 0};
  const BoxCopy box = BoxCopy::make(whole, middle, columns, zero, columns);
  CHECK(box.run == 2 * 4);
  CHECK(box.runs() == 6);
}

TEST_CASE("a box outside its tensor is a Bug") {
  const Shape source{4}, at{3}, zero{0}, extent{2};
  CHECK_THROWS_WITH_AS(BoxCopy::make(source, at, source, zero, extent),
                       "box copy: dimension 0: 2 elements from 3 of 4 to 0 of 4", Bug);
}

}  // namespace box_copy_test
