// transpose, broadcast, reshape, constant, iota, random numbers
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"
#include "src/base/philox.h"

namespace alpa::movement_test {
namespace {

using namespace testing;

TEST_CASE("transpose puts dimension permutation[d] at d, for all permutations and element sizes") {
  for (Shape shape : {Shape{}, Shape{5}, Shape{3, 4}, Shape{130, 75}, Shape{2, 3, 4},
                      Shape{17, 1, 33}, Shape{5, 20, 37}, Shape{2, 3, 4, 5}, Shape{3, 0, 2}}) {
    std::vector<std::int64_t> permutation(shape.size());
    std::iota(permutation.begin(), permutation.end(), 0);
    do {
      Shape to;
      for (std::int64_t d : permutation) to.push_back(shape[d]);
      for (DType dtype : {f32, bf16, f64, u8}) {
        const HostTensor x = random_tensor({dtype, shape}, 3);
        std::vector<double> expected;
        for_each_index(to, [&](const Shape& index) {
          Shape source(shape.size());
          for (std::size_t d = 0; d < to.size(); ++d) source[permutation[d]] = index[d];
          expected.push_back(x.get(flat_index(shape, source)));
        });
        for (int threads : {1, 3}) {
          const auto got =
              run_kernel(cpu::transpose, {x}, {HostTensor({dtype, to})},
                         {.attributes = {{"permutation", permutation}}, .threads = threads});
          CHECK(difference(got[0], expected) == 0);
        }
      }
    } while (std::next_permutation(permutation.begin(), permutation.end()));
  }
}

TEST_CASE("broadcast repeats along new dimensions and along those of extent 1") {
  struct Case {
    Shape from, to;
    std::vector<std::int64_t> dims;
  };
  for (const Case& c : {Case{{}, {3, 4}, {}}, Case{{4}, {3, 4}, {1}}, Case{{3}, {3, 4}, {0}},
                        Case{{3, 1}, {3, 4}, {0, 1}}, Case{{2, 1, 5}, {7, 2, 6, 5}, {1, 2, 3}},
                        Case{{300}, {200, 300}, {1}}, Case{{2}, {2, 0}, {0}}})
    for (DType dtype : {f32, f16, f64, i32, u8}) {
      const HostTensor x = random_tensor({dtype, c.from}, 5);
      std::vector<double> expected;
      for_each_index(c.to, [&](const Shape& index) {
        Shape source;
        for (std::size_t d = 0; d < c.dims.size(); ++d)
          source.push_back(c.from[d] == 1 ? 0 : index[c.dims[d]]);
        expected.push_back(x.get(flat_index(c.from, source)));
      });
      const auto got = run_kernel(cpu::broadcast, {x}, {HostTensor({dtype, c.to})},
                                  {.attributes = {{"dims", c.dims}}, .threads = 2});
      CHECK(difference(got[0], expected) == 0);
    }
}

TEST_CASE("reshape keeps the bytes") {
  const HostTensor x = random_tensor({f32, {300, 200}}, 1);
  CHECK(run_kernel(cpu::reshape, {x}, {HostTensor({f32, {200, 300}})}, {.threads = 2})[0].bytes ==
        x.bytes);
}

/// The block of a tensor that starts at `offset`.
HostTensor shard(DType dtype, Shape shape, Shape offset, Shape global) {
  HostTensor t({dtype, std::move(shape)});
  t.offset = std::move(offset);
  t.global_shape = std::move(global);
  return t;
}

TEST_CASE("constant fills every type") {
  for (DType dtype : {f32, bf16, f16, f64, i32, u8}) {
    const auto got = run_kernel(cpu::constant, {}, {HostTensor({dtype, {1030}})},
                                {.attributes = {{"value", 3.0}}});
    CHECK(difference(got[0], std::vector<double>(1030, 3.0)) == 0);
  }
}

TEST_CASE("iota writes the index in the whole tensor") {
  const HostTensor block = shard(i32, {3, 4, 2}, {10, 20, 30}, {100, 100, 100});
  for (std::int64_t axis : {0, 1, 2}) {
    std::vector<double> expected;
    for_each_index(block.type.shape, [&](const Shape& i) {
      expected.push_back(static_cast<double>(i[axis] + block.offset[axis]));
    });
    CHECK(difference(run_kernel(cpu::iota, {}, {block}, {.attributes = {{"axis", axis}}})[0],
                     expected) == 0);
  }
}

const Attributes kDraw{{"stream", std::int64_t{7}}, {"a", 1.0}, {"b", 2.0}};

TEST_CASE("a random element is the same number in every shard, for any number of threads") {
  const StepContext step{.seed = 42, .step = 3, .micro_batch = 1};
  for (const KernelDef* kernel : {&cpu::random_normal, &cpu::random_uniform}) {
    const Shape whole_shape{37, 53};
    const auto whole = run_kernel(*kernel, {}, {HostTensor({f32, whole_shape})},
                                  {.attributes = kDraw, .step = step})[0];
    const auto again = run_kernel(*kernel, {}, {HostTensor({f32, whole_shape})},
                                  {.attributes = kDraw, .step = step, .threads = 3})[0];
    CHECK(again == whole);
    for (Shape offset : {Shape{0, 0}, Shape{5, 0}, Shape{0, 7}, Shape{11, 13}}) {
      const HostTensor block = shard(f32, {20, 31}, offset, whole_shape);
      const auto part = run_kernel(*kernel, {}, {block}, {.attributes = kDraw, .step = step})[0];
      int wrong = 0;
      for_each_index(block.type.shape, [&](const Shape& i) {
        wrong += part.get(flat_index(block.type.shape, i)) !=
                 whole.get(flat_index(whole_shape, {i[0] + offset[0], i[1] + offset[1]}));
      });
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("seed, stream, step and micro-batch each give other numbers") {
  const auto draw = [](StepContext step, std::int64_t stream) {
    return run_kernel(
        cpu::random_uniform, {}, {HostTensor({f32, {8}})},
        {.attributes = {{"stream", stream}, {"a", 0.0}, {"b", 1.0}}, .step = step})[0];
  };
  const auto base = draw({.seed = 1, .step = 1, .micro_batch = 0}, 1);
  CHECK(base == draw({.seed = 1, .step = 1, .micro_batch = 0}, 1));
  CHECK_FALSE(base == draw({.seed = 2, .step = 1, .micro_batch = 0}, 1));
  CHECK_FALSE(base == draw({.seed = 1, .step = 2, .micro_batch = 0}, 1));
  CHECK_FALSE(base == draw({.seed = 1, .step = 1, .micro_batch = 1}, 1));
  CHECK_FALSE(base == draw({.seed = 1, .step = 1, .micro_batch = 0}, 2));
}

TEST_CASE("drawn numbers have the moments of their distribution") {
  const auto moments = [](const KernelDef& kernel) {
    const auto x = run_kernel(kernel, {}, {HostTensor({f32, {100000}})}, {.attributes = kDraw})[0];
    double mean = 0, square = 0;
    for (std::int64_t i = 0; i < 100000; ++i)
      mean += x.get(i) / 1e5, square += x.get(i) * x.get(i) / 1e5;
    return std::pair{mean, square - mean * mean};
  };
  // mean 1, deviation 2: five standard errors
  const auto [mean, variance] = moments(cpu::random_normal);
  CHECK(std::abs(mean - 1) < 5 * 2 / std::sqrt(1e5));
  CHECK(std::abs(variance - 4) < 5 * 4 * std::sqrt(2 / 1e5));
  const auto [middle, spread] = moments(cpu::random_uniform);  // between 1 and 2
  CHECK(std::abs(middle - 1.5) < 5 * std::sqrt(1 / 12.0 / 1e5));
  CHECK(std::abs(spread - 1 / 12.0) < 0.002);
}

}  // namespace
}  // namespace alpa::movement_test
