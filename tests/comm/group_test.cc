// Collectives of a thread group against direct computation on whole tensors.
#include "src/comm/group.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "alpa/base/error.h"
#include "src/base/half.h"
#include "src/tensor/element.h"

namespace group_test {

using namespace alpa;

namespace {

constexpr DType kDTypes[] = {f32, bf16, f16, f64, i32, u8};

/// A local tensor and its memory; every value small and whole, so exact in every element type.
struct Tensor {
  std::vector<std::byte> memory;
  KernelTensor view;

  explicit Tensor(TensorType type) : memory(type.bytes() + 1) {
    view.type = type, view.data = memory.data();
  }

  void set(std::int64_t i, double value) {
    store_element(view.type.dtype, memory.data() + i * size_of(view.type.dtype), value);
  }
  double get(std::int64_t i) const {
    return load_element(view.type.dtype, memory.data() + i * size_of(view.type.dtype));
  }
};

/// Runs `part` for every member on a thread of its own; rethrows the first failure.
void run_members(int n, const std::function<void(int)>& part) {
  std::vector<std::exception_ptr> failures(n);
  std::vector<std::thread> threads;
  for (int m = 0; m < n; ++m)
    threads.emplace_back([&, m] {
      try {
        part(m);
      } catch (...) {
        failures[m] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

/// The value of element (o, d, i) of member m's operand.
double value_at(int m, std::int64_t o, std::int64_t d, std::int64_t i) {
  return (3 * m + 5 * o + 7 * d + 2 * i) % 6;
}

std::int64_t chunk_of(std::int64_t size, int n) { return (size + n - 1) / n; }
std::int64_t extent_of(std::int64_t size, int n, int m) {
  const std::int64_t chunk = chunk_of(size, n);
  return std::clamp<std::int64_t>(size - m * chunk, 0, chunk);
}

double combined(int n, Combiner combiner, std::int64_t o, std::int64_t d, std::int64_t i) {
  double result = value_at(0, o, d, i);
  for (int m = 1; m < n; ++m)
    result = combiner == Combiner::sum ? result + value_at(m, o, d, i)
                                       : std::max(result, value_at(m, o, d, i));
  return result;
}

/// A tensor [outer, dim, inner] of member m, a part of `dim` that starts at `begin`.
Tensor filled(DType dtype, std::int64_t outer, std::int64_t begin, std::int64_t extent,
              std::int64_t inner, int m) {
  Tensor tensor({dtype, {outer, extent, inner}});
  for (std::int64_t o = 0, at = 0; o < outer; ++o)
    for (std::int64_t d = 0; d < extent; ++d)
      for (std::int64_t i = 0; i < inner; ++i) tensor.set(at++, value_at(m, o, begin + d, i));
  return tensor;
}

struct Case {
  DType dtype;
  int n;
  std::int64_t outer, dim, inner;
};

template <class Body>
void for_each_case(Body&& body) {
  for (DType dtype : kDTypes)
    for (int n = 1; n <= 5; ++n)
      for (std::int64_t dim : {1, 2, 7, 12, 130})
        for (const auto& sizes : {std::pair<int, int>{1, 1}, {3, 1}, {1, 4}, {2, 3}}) {
          // clang 14 captures no structured bindings
          const int outer = sizes.first, inner = sizes.second;
          CAPTURE(name_of(dtype));
          CAPTURE(n);
          CAPTURE(dim);
          CAPTURE(outer);
          CAPTURE(inner);
          body(Case{dtype, n, outer, dim, inner});
        }
}

int mismatches(const Tensor& tensor, std::int64_t begin,
               const std::function<double(std::int64_t, std::int64_t, std::int64_t)>& expected) {
  const Shape& shape = tensor.view.type.shape;
  int wrong = 0;
  for (std::int64_t o = 0, at = 0; o < shape[0]; ++o)
    for (std::int64_t d = 0; d < shape[1]; ++d)
      for (std::int64_t i = 0; i < shape[2]; ++i)
        wrong += tensor.get(at++) != expected(o, begin + d, i);
  return wrong;
}

}  // namespace

TEST_CASE("all_reduce leaves the combination of all members with everybody, in place or not") {
  for_each_case([](const Case& c) {
    for (Combiner combiner : {Combiner::sum, Combiner::max}) {
      auto group = comm::make_thread_group(c.n);
      std::vector<int> wrong(c.n);
      run_members(c.n, [&](int m) {
        Tensor in_place = filled(c.dtype, c.outer, 0, c.dim, c.inner, m), in = in_place,
               out({c.dtype, in.view.type.shape});
        in_place.view.data = in_place.memory.data(), in.view.data = in.memory.data();
        group->all_reduce(m, {&in_place.view, 1}, {&in_place.view, 1}, combiner);
        group->all_reduce(m, {&in.view, 1}, {&out.view, 1}, combiner);
        const auto expected = [&](auto o, auto d, auto i) {
          return combined(c.n, combiner, o, d, i);
        };
        wrong[m] = mismatches(in_place, 0, expected) + mismatches(out, 0, expected);
      });
      for (int m = 0; m < c.n; ++m) CHECK(wrong[m] == 0);
    }
  });
}

TEST_CASE("reduce_scatter leaves member j with chunk j of the combination") {
  for_each_case([](const Case& c) {
    for (Combiner combiner : {Combiner::sum, Combiner::max}) {
      auto group = comm::make_thread_group(c.n);
      std::vector<int> wrong(c.n);
      run_members(c.n, [&](int m) {
        const std::int64_t chunk = chunk_of(c.dim, c.n);
        Tensor in = filled(c.dtype, c.outer, 0, c.dim, c.inner, m);
        Tensor out({c.dtype, {c.outer, extent_of(c.dim, c.n, m), c.inner}});
        const ShardedDim columns{1, chunk};
        group->reduce_scatter(m, {&in.view, 1}, {&out.view, 1}, {&columns, 1}, combiner);
        wrong[m] = mismatches(out, m * chunk, [&](auto o, auto d, auto i) {
          return combined(c.n, combiner, o, d, i);
        });
      });
      for (int m = 0; m < c.n; ++m) CHECK(wrong[m] == 0);
    }
  });
}

TEST_CASE("all_gather leaves the whole tensor with everybody") {
  for_each_case([](const Case& c) {
    auto group = comm::make_thread_group(c.n);
    std::vector<int> wrong(c.n);
    run_members(c.n, [&](int m) {
      const std::int64_t chunk = chunk_of(c.dim, c.n);
      Tensor in = filled(c.dtype, c.outer, m * chunk, extent_of(c.dim, c.n, m), c.inner, 0);
      Tensor out({c.dtype, {c.outer, c.dim, c.inner}});
      const ShardedDim columns{1, chunk};
      group->all_gather(m, {&in.view, 1}, {&out.view, 1}, {&columns, 1});
      wrong[m] = mismatches(out, 0, [](auto o, auto d, auto i) { return value_at(0, o, d, i); });
    });
    for (int m = 0; m < c.n; ++m) CHECK(wrong[m] == 0);
  });
}

TEST_CASE("all_to_all moves the split from one dimension to another, either way") {
  for_each_case([](const Case& c) {
    const std::int64_t other = 5;  // extent of dimension 0
    for (bool forward : {true, false}) {
      auto group = comm::make_thread_group(c.n);
      std::vector<int> wrong(c.n);
      run_members(c.n, [&](int m) {
        const std::int64_t chunk0 = chunk_of(other, c.n), chunk1 = chunk_of(c.dim, c.n);
        const std::int64_t part0 = extent_of(other, c.n, m), part1 = extent_of(c.dim, c.n, m);
        Tensor rows({c.dtype, {part0, c.dim, c.inner}}),
            columns({c.dtype, {other, part1, c.inner}});
        Tensor& in = forward ? rows : columns;
        Tensor& out = forward ? columns : rows;
        const std::int64_t begin0 = forward ? m * chunk0 : 0, begin1 = forward ? 0 : m * chunk1;
        for (std::int64_t o = 0, at = 0; o < in.view.type.shape[0]; ++o)
          for (std::int64_t d = 0; d < in.view.type.shape[1]; ++d)
            for (std::int64_t i = 0; i < c.inner; ++i)
              in.set(at++, value_at(0, begin0 + o, begin1 + d, i));
        if (forward)
          group->all_to_all(m, in.view, out.view, {1, chunk1}, {0, chunk0});
        else
          group->all_to_all(m, in.view, out.view, {0, chunk0}, {1, chunk1});
        const std::int64_t out0 = forward ? 0 : m * chunk0;
        wrong[m] = mismatches(out, forward ? m * chunk1 : 0,
                              [&](auto o, auto d, auto i) { return value_at(0, out0 + o, d, i); });
      });
      for (int m = 0; m < c.n; ++m) CHECK(wrong[m] == 0);
    }
  });
}

TEST_CASE("several tensors of one all_reduce share a call, and equal the tensors one by one") {
  constexpr int n = 3;
  auto group = comm::make_thread_group(n);
  std::vector<int> wrong(n);
  run_members(n, [&](int m) {
    std::vector<Tensor> tensors;
    for (std::int64_t dim : {5, 0, 300, 1}) tensors.push_back(filled(f32, 1, 0, dim, 2, m));
    std::vector<KernelTensor> views;
    for (Tensor& t : tensors) views.push_back(t.view), views.back().data = t.memory.data();
    group->all_reduce(m, views, views, Combiner::sum);
    for (const Tensor& t : tensors)
      wrong[m] += mismatches(
          t, 0, [](auto o, auto d, auto i) { return combined(n, Combiner::sum, o, d, i); });
  });
  for (int m = 0; m < n; ++m) {
    CHECK(wrong[m] == 0);
    const comm::Count& count = group->counts(m)[CollectiveKind::all_reduce];
    CHECK(count.calls == 1);
    CHECK(count.payload_bytes == (5 + 0 + 300 + 1) * 2 * 4);
  }
}

TEST_CASE(
    "several tensors of one reduce_scatter or all_gather share a call, each with its own "
    "dimension") {
  constexpr int n = 3;
  // Whole shape [outer, dim, inner] and the split dimension: even, uneven, short
  // and empty shards, nothing.
  const std::vector<std::pair<Shape, int>> wholes = {
      {{2, 6, 2}, 1}, {{7, 2, 3}, 0}, {{2, 3, 4}, 2}, {{1, 1, 5}, 1}, {{2, 0, 3}, 0}};
  auto group = comm::make_thread_group(n);
  std::vector<int> wrong(n);
  run_members(n, [&](int m) {
    std::vector<Tensor> partials, shards, gathered;
    std::vector<ShardedDim> dims;
    std::vector<Shape> begins;
    for (const auto& [shape, dim] : wholes) {
      partials.push_back(filled(f32, shape[0], 0, shape[1], shape[2], m));
      Shape part = shape, begin(3, 0);
      dims.push_back({dim, chunk_of(shape[dim], n)});
      part[dim] = extent_of(shape[dim], n, m), begin[dim] = m * dims.back().chunk;
      shards.emplace_back(TensorType{f32, part});
      gathered.emplace_back(TensorType{f32, shape});
      begins.push_back(begin);
    }
    const auto views = [](std::vector<Tensor>& tensors) {
      std::vector<KernelTensor> views;
      for (Tensor& t : tensors) views.push_back(t.view), views.back().data = t.memory.data();
      return views;
    };
    group->reduce_scatter(m, views(partials), views(shards), dims, Combiner::sum);
    group->all_gather(m, views(shards), views(gathered), dims);
    for (std::size_t t = 0; t < wholes.size(); ++t) {
      const Shape& begin = begins[t];
      const auto sum = [&](auto o, auto d, auto i) { return combined(n, Combiner::sum, o, d, i); };
      wrong[m] += mismatches(shards[t], begin[1], [&](auto o, auto d, auto i) {
        return sum(begin[0] + o, d, begin[2] + i);
      });
      wrong[m] += mismatches(gathered[t], 0, sum);
    }
  });
  const std::int64_t bytes = (24 + 42 + 24 + 5) * 4;
  const std::int64_t shard_bytes[n] = {(8 + 18 + 12 + 5) * 4, (8 + 18 + 12) * 4, (8 + 6) * 4};
  for (int m = 0; m < n; ++m) {
    CHECK(wrong[m] == 0);
    const comm::Count& scattered = group->counts(m)[CollectiveKind::reduce_scatter];
    const comm::Count& gathered = group->counts(m)[CollectiveKind::all_gather];
    CHECK(scattered.calls == 1);
    CHECK(scattered.payload_bytes == bytes);
    CHECK(scattered.moved_bytes == (n - 1) * shard_bytes[m]);
    CHECK(gathered.calls == 1);
    CHECK(gathered.payload_bytes == bytes);
    CHECK(gathered.moved_bytes == bytes - shard_bytes[m]);
  }
}

TEST_CASE(
    "sums are taken along the tree, in f32 for bf16, a maximum keeps NaN, and a log_sum_exp "
    "leaves out members with nothing") {
  constexpr int n = 4;
  auto group = comm::make_thread_group(n);
  // (1e8 + 1) + (-1e8 + 1) = 0 in f32; from left to right it is 1
  const float values[n] = {1e8f, 1.0f, -1e8f, 1.0f};
  // 258 in f32; 256 if every step were rounded to bf16
  const float halves[n] = {256, 1, 1, 0};
  run_members(n, [&](int m) {
    Tensor single({f32, {1}}), half({bf16, {1}}), nan({f32, {1}}), logs({f32, {1}});
    single.set(0, values[m]);
    half.set(0, halves[m]);
    nan.set(0, m == 1 ? std::numeric_limits<double>::quiet_NaN() : m);
    logs.set(0, m == 1 ? -std::numeric_limits<double>::infinity() : 100 + std::log(m + 1));
    group->all_reduce(m, {&logs.view, 1}, {&logs.view, 1}, Combiner::log_sum_exp);
    group->all_reduce(m, {&single.view, 1}, {&single.view, 1}, Combiner::sum);
    group->all_reduce(m, {&half.view, 1}, {&half.view, 1}, Combiner::sum);
    group->all_reduce(m, {&nan.view, 1}, {&nan.view, 1}, Combiner::max);
    if (m != 2) return;
    CHECK(single.get(0) == 0);
    CHECK(half.get(0) == 258);
    CHECK(std::isnan(nan.get(0)));
    CHECK(logs.get(0) == doctest::Approx(100 + std::log(1 + 3 + 4)));
  });
}

TEST_CASE("over equal shards the bytes moved are what a ring would send") {
  constexpr int n = 4;
  auto group = comm::make_thread_group(n);
  run_members(n, [&](int m) {
    Tensor whole({f32, {4096, 2}}), shard({f32, {1024, 2}});
    group->all_reduce(m, {&whole.view, 1}, {&whole.view, 1}, Combiner::sum);
    const ShardedDim rows{0, 1024};
    group->reduce_scatter(m, {&whole.view, 1}, {&shard.view, 1}, {&rows, 1}, Combiner::sum);
    group->all_gather(m, {&shard.view, 1}, {&whole.view, 1}, {&rows, 1});
    Tensor square({f32, {64, 256}}), square_out({f32, {256, 64}});
    group->all_to_all(m, square.view, square_out.view, {1, 64}, {0, 64});
  });
  for (int m = 0; m < n; ++m) {
    const auto& counts = group->counts(m);
    const std::int64_t bytes = 4096 * 2 * 4, square = 64 * 256 * 4;
    CHECK(counts[CollectiveKind::all_reduce].moved_bytes == 2 * bytes * 3 / 4);
    CHECK(counts[CollectiveKind::reduce_scatter].moved_bytes == bytes * 3 / 4);
    CHECK(counts[CollectiveKind::all_gather].moved_bytes == bytes * 3 / 4);
    CHECK(counts[CollectiveKind::all_to_all].moved_bytes == square * 3 / 4);
    CHECK(counts[CollectiveKind::all_gather].payload_bytes == bytes);
  }
}

TEST_CASE("abort makes waiting members and every later call throw Aborted within a second") {
  constexpr int n = 3;
  auto group = comm::make_thread_group(n);
  std::atomic<int> aborted{0};
  const auto started = std::chrono::steady_clock::now();
  run_members(n, [&](int m) {
    Tensor tensor({f32, {8}});
    const auto expect_abort = [&](auto&& call) {
      try {
        call();
      } catch (const comm::Aborted&) {
        ++aborted;
      }
    };
    if (m == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      group->abort();
    }
    const auto reduce = [&] {
      group->all_reduce(m, {&tensor.view, 1}, {&tensor.view, 1}, Combiner::sum);
    };
    expect_abort(reduce);
    expect_abort(reduce);
    expect_abort([&] { group->all_to_all(m, tensor.view, tensor.view, {0, 3}, {0, 3}); });
  });
  CHECK(aborted == 3 * n);
  CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(1));
}

TEST_CASE(
    "an abort at any moment ends every member, and none reads a tensor whose owner has left") {
  constexpr int n = 3;
  for (int round = 0; round < 30; ++round) {
    auto group = comm::make_thread_group(n);
    std::atomic<int> ended{0};
    std::thread aborting([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(30 * round));
      group->abort();
    });
    run_members(n, [&](int m) {
      try {
        for (;;) {
          Tensor own({f32, {64}}), whole({f32, {192}});  // freed when the call throws
          const ShardedDim rows{0, 64};
          group->all_gather(m, {&own.view, 1}, {&whole.view, 1}, {&rows, 1});
        }
      } catch (const comm::Aborted&) {
        ++ended;
      }
    });
    aborting.join();
    CHECK(ended == n);
  }
}

TEST_CASE("calls that do not match throw Bug on every member instead of hanging") {
  constexpr int n = 2;
  auto group = comm::make_thread_group(n);
  std::vector<std::string> messages(n);
  run_members(n, [&](int m) {
    Tensor tensor({f32, {8}}), out({f32, {16}});
    const ShardedDim rows{0, 8};
    try {
      if (m == 0)
        group->all_reduce(m, {&tensor.view, 1}, {&tensor.view, 1}, Combiner::sum);
      else
        group->all_gather(m, {&tensor.view, 1}, {&out.view, 1}, {&rows, 1});
    } catch (const Bug& bug) {
      messages[m] = bug.what();
    }
  });
  CHECK(messages[0] ==
        "collectives do not match: member 0 calls all_reduce of 1 tensors while another calls "
        "all_gather of 1");
  CHECK(messages[1] ==
        "collectives do not match: member 1 calls all_gather of 1 tensors while another calls "
        "all_reduce of 1");
}

TEST_CASE("one thread takes the parts of all members in turns") {
  constexpr int n = 3;
  auto group = comm::make_thread_group(n);
  std::vector<Tensor> tensors(n, Tensor({f32, {200}}));
  std::vector<bool> over(n, false);
  const auto proceed = [&](int m) { return over[m] = over[m] || group->proceed(m); };
  for (int m = 0; m < n; ++m) {
    tensors[m].view.data = tensors[m].memory.data();
    for (int i = 0; i < 200; ++i) tensors[m].set(i, m + i);
    if (m > 0) CHECK_FALSE(proceed(m - 1));  // one member is missing
    group->begin(m, {CollectiveKind::all_reduce, {&tensors[m].view, 1}, {&tensors[m].view, 1}});
  }
  for (int m = 0; m + 1 < n; ++m) CHECK_FALSE(proceed(m));  // others still read its operand
  for (int m = n - 1; m >= 0; --m) CHECK(proceed(m));
  for (const Tensor& tensor : tensors)
    for (int i = 0; i < 200; ++i) REQUIRE(tensor.get(i) == 3 + 3 * i);
}

TEST_CASE("after an abort a member that waits, and one that begins, throw Aborted on one thread") {
  auto group = comm::make_thread_group(2);
  Tensor tensor({f32, {8}});
  const comm::Call call{CollectiveKind::all_reduce, {&tensor.view, 1}, {&tensor.view, 1}};
  group->begin(0, call);
  group->wait(0, std::chrono::milliseconds(1));  // does not wait for the other member
  CHECK_FALSE(group->proceed(0));
  group->abort();
  CHECK_THROWS_AS(group->proceed(0), comm::Aborted);
  CHECK_THROWS_AS(group->begin(1, call), comm::Aborted);
}

TEST_CASE("a group needs a member") {
  CHECK_THROWS_WITH_AS(comm::make_thread_group(0), "thread group of 0 members; give at least 1",
                       Error);
}

}  // namespace group_test
