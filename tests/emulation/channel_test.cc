// Messages between devices: boxes of any tensors, within one card and between two.

#include <algorithm>

#include "cuda/device_call.h"
#include "emulation.h"
#include "kernels/cuda/message_box.h"
#include "src/cuda/handles.h"
#include "support/error_text.h"
#include "support/nccl_on_cards.h"

namespace channel_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// A box of a whole tensor between two local parts.
struct Case {
  DType dtype;
  Shape whole, from_offset, from, to_offset, to, begin, extent;
};

const Case kCases[] = {
    {f32, {8, 6}, {0, 0}, {4, 6}, {2, 0}, {6, 6}, {2, 0}, {2, 6}},   // rows: dense on both sides
    {bf16, {8, 6}, {0, 0}, {8, 3}, {0, 2}, {8, 4}, {0, 2}, {8, 1}},  // a column of each
    {f32, {8, 6}, {0, 0}, {8, 6}, {4, 3}, {4, 3}, {4, 3}, {4, 3}},   // dense on one side alone
    {f64, {5, 7, 3}, {1, 0, 0}, {3, 7, 3}, {0, 2, 1}, {5, 4, 2}, {1, 2, 1}, {3, 4, 2}},
    {i32,
     {2, 3, 4, 5},
     {0, 1, 0, 2},
     {2, 2, 4, 3},
     {1, 0, 1, 0},
     {1, 3, 3, 5},
     {1, 1, 1, 2},
     {1, 2, 3, 3}},
    {u8, {9}, {2}, {5}, {0}, {9}, {3}, {4}},
    {f32, {}, {}, {}, {}, {}, {}, {}},
    {f32, {4, 6}, {0, 0}, {4, 6}, {0, 0}, {4, 6}, {4, 0}, {0, 6}},  // nothing
};

/// One side of a message, on a card.
struct Side {
  Side(int ordinal, const Case& c, const Shape& offset, HostTensor given)
      : ordinal(ordinal), host(std::move(given)) {
    check(cudaSetDevice(ordinal));
    data.emplace(host);
    stream = cuda::make_stream();
    end.tensor = {static_cast<std::byte*>(data->data()), host.type, offset, c.whole};
    end.stream = stream.get();
    const std::int64_t bytes =
        cuda::box_scratch_bytes(cuda::message_box(end.tensor, c.begin, c.extent), c.dtype);
    scratch.emplace(static_cast<std::size_t>(bytes));
    end.workspace = static_cast<std::byte*>(scratch->data());
  }

  int ordinal;
  HostTensor host;
  std::optional<DeviceBuffer> data, scratch;
  cuda::StreamHandle stream;
  cuda::MessageEnd end;
};

/// What the receiver must have: its own elements, and the sender's in the box.
HostTensor expected_of(const Case& c, const Side& from, const Side& to) {
  HostTensor expected = to.host;
  const auto size = static_cast<std::int64_t>(size_of(c.dtype));
  const auto position = [&](const Shape& at, const Shape& offset, const Shape& shape) {
    std::int64_t position = 0;
    for (std::size_t d = 0; d < at.size(); ++d) position = position * shape[d] + at[d] - offset[d];
    return position * size;
  };
  std::int64_t count = 1;
  for (const std::int64_t extent : c.extent) count *= extent;
  for (std::int64_t i = 0; i < count; ++i) {
    Shape at = c.begin;
    for (std::size_t d = c.extent.size(), rest = i; d-- > 0; rest /= c.extent[d])
      at[d] += static_cast<std::int64_t>(rest) % c.extent[d];
    std::copy_n(from.host.bytes.begin() + position(at, c.from_offset, c.from), size,
                expected.bytes.begin() + position(at, c.to_offset, c.to));
  }
  return expected;
}

void check_channel(cuda::Channel& channel, int from_ordinal, int to_ordinal) {
  for (const Case& c : kCases) {
    CAPTURE(to_string(c.whole));
    Side from(from_ordinal, c, c.from_offset, random_tensor({c.dtype, c.from}, 1)),
        to(to_ordinal, c, c.to_offset, random_tensor({c.dtype, c.to}, 2));
    if (from_ordinal == to_ordinal) from.end.stream = to.end.stream;
    check(cudaSetDevice(from_ordinal));
    channel.queue({.peer = 1, .begin = c.begin, .extent = c.extent}, &from.end, &to.end);
    check(cudaSetDevice(to_ordinal));
    CHECK(to.data->download({c.dtype, c.to}) == expected_of(c, from, to));
    to.scratch->check_guards();
    check(cudaSetDevice(from_ordinal));
    CHECK(from.data->download({c.dtype, c.from}) == from.host);
    from.scratch->check_guards();
  }
  check(cudaSetDevice(0));
}

}  // namespace

TEST_CASE("a box travels between logical devices of a card, and nothing else is touched") {
  emulation::restart({});
  check_channel(*cuda::make_copy_channel(), 0, 0);
}

TEST_CASE("a box travels between two cards, through scratch where it is not dense") {
  emulation::restart({.devices = 2});
  check_channel(*nccl_channel_on(0, 1), 0, 1);
  check_channel(*nccl_channel_on(1, 0), 1, 0);
}

TEST_CASE("a box that a device does not hold is a bug") {
  const KernelTensor local{nullptr, {f32, {4, 6}}, {2, 0}, {8, 6}};
  CHECK_THROWS_AS(cuda::message_box(local, {1, 0}, {2, 6}), Bug);
  CHECK_THROWS_AS(cuda::message_box(local, {5, 0}, {2, 6}), Bug);
}

}  // namespace channel_test
