#include "kernels/cuda/combine.h"

#include "device_call.h"
#include "kernels/cpu/strided_copy.h"
#include "src/tensor/box_copy.h"

namespace alpa::combine_test {
namespace {

using namespace testing;
using cuda::CombineOp;

double pair(DType dtype, CombineOp op, double a, double b) {
  if (op == CombineOp::max) return std::max(a, b);
  return dtype == f64 ? a + b : static_cast<float>(a + b);
}

/// Element i of sources [begin, end): halves, of which the left one is the largest power of two.
double value_of(const std::vector<HostTensor>& sources, CombineOp op, std::int64_t i,
                std::size_t begin, std::size_t end) {
  if (end - begin == 1) return sources[begin].get(i);
  std::size_t left = 1;
  while (2 * left < end - begin) left *= 2;
  return pair(sources[0].type.dtype, op, value_of(sources, op, i, begin, begin + left),
              value_of(sources, op, i, begin + left, end));
}

/// Along the tree, rounded once.
HostTensor combined(const std::vector<HostTensor>& sources, CombineOp op) {
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
      for (const CombineOp op : {CombineOp::sum, CombineOp::max})
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

TEST_CASE(
    "a reduce_scatter gives each member its box of the combination, an all_gather puts boxes "
    "together") {
  if (no_device()) return;
  const Shape whole = {6, 32}, part = {6, 8};
  for (const DType dtype : {f32, bf16, i32}) {
    const std::vector<HostTensor> all = members(4, {dtype, whole});
    const HostTensor expected = combined(all, CombineOp::sum);
    const Buffers in(all, 0), shards(members(4, {dtype, part}), 0),
        gathered(members(4, {dtype, whole}), 0);
    const auto whole_strides = kernels::dense_strides(whole),
               part_strides = kernels::dense_strides(part);
    for (std::int64_t j = 0; j < 4; ++j) {
      cuda::CopyLaunch box;
      REQUIRE(cuda::plan_copy(box, 1, 2, part.data(), whole_strides.data(), part_strides.data(),
                              j * 8, 0));
      check(cuda::run_combine(dtype, CombineOp::sum, box, 4, in.in.data(), 1, &shards.out[j],
                              nullptr));
    }
    for (std::int64_t j = 0; j < 4; ++j) {
      cuda::CopyLaunch box;
      REQUIRE(cuda::plan_copy(box, 1, 2, part.data(), part_strides.data(), whole_strides.data(), 0,
                              j * 8));
      check(cuda::run_combine(dtype, CombineOp::sum, box, 1, &shards.in[j], 4, gathered.out.data(),
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
