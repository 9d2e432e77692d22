#include "kernels/cuda/combine.h"

#include <array>
#include <cmath>

#include "device_call.h"
#include "kernels/cpu/strided_copy.h"
#include "src/tensor/box_copy.h"
#include "support/combine.h"

namespace alpa::combine_test {
namespace {

using namespace testing;

double pair(DType dtype, Combiner op, double a, double b) {
  if (op == Combiner::max) return std::max(a, b);
  return dtype == f64 ? a + b : static_cast<float>(a + b);
}

/// Element i of sources [begin, end): halves, of which the left one is the largest power of two.
double value_of(const std::vector<HostTensor>& sources, Combiner op, std::int64_t i,
                std::size_t begin, std::size_t end) {
  if (end - begin == 1) return sources[begin].get(i);
  std::size_t left = 1;
  while (2 * left < end - begin) left *= 2;
  return pair(sources[0].type.dtype, op, value_of(sources, op, i, begin, begin + left),
              value_of(sources, op, i, begin + left, end));
}

/// Along the tree, rounded once.
HostTensor combined(const std::vector<HostTensor>& sources, Combiner op) {
  HostTensor result(sources[0].type);
  for (std::int64_t i = 0; i < result.type.elements(); ++i) {
    const double value = value_of(sources, op, i, 0, sources.size());
    result.put(i, result.type.dtype == u8
                      ? static_cast<double>(static_cast<std::int64_t>(value) & 255)
                      : value);
  }
  return result;
}

std::vector<HostTensor> members(int count, const TensorType& type) {
  std::vector<HostTensor> all;
  for (int i = 0; i < count; ++i) all.push_back(random_tensor(type, 5 + i));
  return all;
}

struct Buffers {
  std::vector<DeviceBuffer> buffers;
  std::vector<const void*> in;
  std::vector<void*> out;

  Buffers(const std::vector<HostTensor>& tensors, std::size_t shift) {
    for (const HostTensor& t : tensors) {
      out.push_back(buffers.emplace_back(t, shift).data());
      in.push_back(out.back());
    }
  }
};

TEST_CASE(
    "an all_reduce in place leaves every member with the combination along the tree, bit for bit") {
  if (no_device()) return;
  for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 23, cuda::kMaxMembers})
    for (const DType dtype : kDTypes)
      for (const Combiner op : {Combiner::sum, Combiner::max})
        for (const std::int64_t elements : {4096, 1001}) {
          const std::vector<HostTensor> all = members(count, {dtype, {elements}});
          const Buffers device(all, elements == 1001 ? 8 : 0);
          check(cuda::run_combine(dtype, op, cuda::whole_box(elements), count, device.in.data(),
                                  count, device.out.data(), nullptr));
          const HostTensor expected = combined(all, op);
          for (const DeviceBuffer& b : device.buffers)
            CHECK(b.download(expected.type).bytes == expected.bytes);
        }
}

TEST_CASE("a log_sum_exp is within rounding of the sum, and leaves out members with nothing") {
  if (no_device()) return;
  for (const int count : {1, 2, 5, 8, 9, cuda::kMaxMembers})
    for (const DType dtype : {f32, f64, bf16}) {
      std::vector<HostTensor> all = members(count, {dtype, {1001}});
      for (int i = 0; i < count; ++i)
        all[i].put(3, i == 0 ? 100 : -INFINITY), all[i].put(4, -INFINITY);
      all[count / 2].put(5, NAN);
      const Buffers device(all, 0);
      check(cuda::run_combine(dtype, Combiner::log_sum_exp, cuda::whole_box(1001), count,
                              device.in.data(), 1, device.out.data(), nullptr));
      std::vector<double> expected;
      for (std::int64_t e = 0; e < 1001; ++e) {
        double log = -INFINITY;
        for (const HostTensor& member : all)
          log = testing::combine(Combiner::log_sum_exp, log, member.get(e));
        expected.push_back(log);
      }
      const HostTensor got = device.buffers[0].download({dtype, {1001}});
      CHECK(difference(got, expected) <= 8 * epsilon(dtype));
      CHECK(got.get(3) == 100);
      CHECK(got.get(4) == -INFINITY);
      CHECK(std::isnan(got.get(5)));
    }
  const int number = 0;
  CHECK(cuda::run_combine(i32, Combiner::log_sum_exp, cuda::whole_box(1), 1,
                          std::array<const void*, 1>{&number}.data(), 0, nullptr,
                          nullptr) == cudaErrorInvalidValue);
}

TEST_CASE(
    "a reduce_scatter gives each member its box of the combination, an all_gather puts boxes "
    "together") {
  if (no_device()) return;
  const Shape whole = {6, 32}, part = {6, 8};
  for (const DType dtype : {f32, bf16, i32}) {
    const std::vector<HostTensor> all = members(4, {dtype, whole});
    const HostTensor expected = combined(all, Combiner::sum);
    const Buffers in(all, 0), shards(members(4, {dtype, part}), 0),
        gathered(members(4, {dtype, whole}), 0);
    const auto whole_strides = kernels::dense_strides(whole),
               part_strides = kernels::dense_strides(part);
    for (std::int64_t j = 0; j < 4; ++j) {
      cuda::CopyLaunch box;
      REQUIRE(cuda::plan_copy(box, 1, 2, part.data(), whole_strides.data(), part_strides.data(),
                              j * 8, 0));
      check(cuda::run_combine(dtype, Combiner::sum, box, 4, in.in.data(), 1, &shards.out[j],
                              nullptr));
    }
    for (std::int64_t j = 0; j < 4; ++j) {
      cuda::CopyLaunch box;
      REQUIRE(cuda::plan_copy(box, 1, 2, part.data(), part_strides.data(), whole_strides.data(), 0,
                              j * 8));
      check(cuda::run_combine(dtype, Combiner::sum, box, 1, &shards.in[j], 4, gathered.out.data(),
                              nullptr));
    }
    for (const DeviceBuffer& b : gathered.buffers)
      CHECK(b.download(expected.type).bytes == expected.bytes);
    HostTensor shard({dtype, part});
    BoxCopy::make(whole, Shape{0, 16}, part, Shape{0, 0}, part)
        .copy(expected.bytes.data(), shard.bytes.data(), size_of(dtype));
    CHECK(shards.buffers[2].download(shard.type).bytes == shard.bytes);
  }
}

}  // namespace
}  // namespace alpa::combine_test
