#pragma once
/// Collective groups of devices against comm::Group, the group of threads, tensor by tensor.
#include <cmath>
#include <stdexcept>
#include <thread>

#include "alpa/base/error.h"
#include "device_call.h"
#include "src/comm/group.h"
#include "src/cuda/collective_group.h"
#include "src/cuda/handles.h"
#include "src/lower/memory_plan.h"

namespace alpa::testing {

/// One collective of one or more tensors as all members see it.
struct Exchange {
  lower::CollectiveCall call;
  std::vector<std::vector<HostTensor>> inputs, outputs;  ///< per member
};

inline std::int64_t chunk_of(std::int64_t extent, int n) { return (extent + n - 1) / n; }

/// The shard of member m.
inline Shape shard_of(Shape shape, int dim, int n, int m) {
  const std::int64_t chunk = chunk_of(shape[dim], n);
  shape[dim] = std::clamp<std::int64_t>(shape[dim] - m * chunk, 0, chunk);
  return shape;
}

/// The collective over `n` members of tensors whose whole shapes are given, cut along
/// `dim` (all_to_all: afterwards; `from_dim` before). Elements are whole and small: every
/// order of additions is exact.
inline Exchange make_exchange(CollectiveKind kind, Combiner combiner, DType dtype, int n,
                              const std::vector<Shape>& shapes, int dim, int from_dim) {
  Exchange exchange;
  exchange.call.kind = kind, exchange.call.combiner = combiner;
  for (int m = 0; m < n; ++m) exchange.call.group.push_back(m);
  for (const Shape& shape : shapes) exchange.call.dims.push_back({dim, chunk_of(shape[dim], n)});
  exchange.call.from_dim = {from_dim, chunk_of(shapes[0][from_dim], n)};
  for (int m = 0; m < n; ++m) {
    exchange.inputs.emplace_back(), exchange.outputs.emplace_back();
    for (const Shape& whole : shapes) {
      const Shape shard = shard_of(whole, dim, n, m);
      const bool gathers = kind == CollectiveKind::all_gather,
                 reduces = kind == CollectiveKind::all_reduce,
                 turns = kind == CollectiveKind::all_to_all;
      HostTensor in({dtype, gathers ? shard : turns ? shard_of(whole, from_dim, n, m) : whole});
      for (std::int64_t i = 0; i < in.type.elements(); ++i)
        in.put(i, static_cast<double>((7 * m + 3 * i) % 11));
      exchange.inputs[m].push_back(in);
      exchange.outputs[m].emplace_back(TensorType{dtype, gathers || reduces ? whole : shard});
    }
  }
  return exchange;
}

/// What the group of threads makes of it.
inline std::vector<std::vector<HostTensor>> on_threads(const Exchange& exchange) {
  const int n = static_cast<int>(exchange.inputs.size());
  const auto group = comm::make_thread_group(n);
  std::vector<std::vector<HostTensor>> in = exchange.inputs, out = exchange.outputs;
  std::vector<std::thread> threads;
  for (int m = 0; m < n; ++m)
    threads.emplace_back([&, m] {
      const auto views = [](std::vector<HostTensor>& tensors) {
        std::vector<KernelTensor> result;
        for (HostTensor& tensor : tensors) {
          result.push_back(kernel_tensor(tensor));
          result.back().data = tensor.bytes.data();
        }
        return result;
      };
      const std::vector<KernelTensor> from = views(in[m]), to = views(out[m]);
      const lower::CollectiveCall& call = exchange.call;
      switch (call.kind) {
        case CollectiveKind::all_reduce: return group->all_reduce(m, from, to, call.combiner);
        case CollectiveKind::reduce_scatter:
          return group->reduce_scatter(m, from, to, call.dims, call.combiner);
        case CollectiveKind::all_gather: return group->all_gather(m, from, to, call.dims);
        case CollectiveKind::all_to_all:
          return group->all_to_all(m, from[0], to[0], call.dims[0], call.from_dim);
        default: throw std::logic_error("no collective of a mesh");
      }
    });
  for (std::thread& thread : threads) thread.join();
  return out;
}

/// A member's buffers, stream and call.
struct DeviceMember {
  int ordinal;
  cuda::StreamHandle stream;
  std::vector<DeviceBuffer> buffers;
  KernelCall call;

  DeviceMember(int ordinal, const Exchange& exchange, int m, bool in_place) : ordinal(ordinal) {
    check(cudaSetDevice(ordinal));
    stream = cuda::make_stream();
    const auto bytes = [](void* p) { return static_cast<std::byte*>(p); };
    for (const HostTensor& tensor : exchange.inputs[m]) {
      call.inputs.push_back(kernel_tensor(tensor));
      call.inputs.back().data = bytes(buffers.emplace_back(tensor).data());
    }
    for (const HostTensor& tensor : exchange.outputs[m]) {
      call.outputs.push_back(kernel_tensor(tensor));
      const std::size_t i = call.outputs.size() - 1;
      call.outputs[i].data =
          in_place ? call.inputs[i].data : bytes(buffers.emplace_back(tensor.bytes.size()).data());
    }
    const std::int64_t scratch = lower::nccl_scratch_bytes(exchange.call, call);
    call.workspace = bytes(buffers.emplace_back(static_cast<std::size_t>(scratch)).data());
  }
};

/// What devices on these cards make of it; `captured`: twice over, launched as a graph.
inline std::vector<std::vector<HostTensor>> on_devices(const Exchange& exchange,
                                                       cuda::CollectiveGroup& group,
                                                       const std::vector<int>& ordinals,
                                                       bool in_place, bool captured) {
  std::vector<DeviceMember> devices;
  devices.reserve(ordinals.size());
  std::vector<cuda::Member> members;
  for (std::size_t m = 0; m < ordinals.size(); ++m) {
    DeviceMember& device =
        devices.emplace_back(ordinals[m], exchange, static_cast<int>(m), in_place);
    members.push_back({static_cast<int>(m), device.stream.get(), &device.call});
  }
  check(cudaSetDevice(ordinals[0]));
  const cuda::Stream origin = devices[0].stream.get();
  const cuda::EventHandle fork = cuda::make_event();
  if (captured) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    check(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
    check(cudaEventRecord(fork.get(), origin));
    for (std::size_t m = 1; m < devices.size(); ++m)
      check(cudaStreamWaitEvent(devices[m].stream.get(), fork.get(), 0));
    group.queue(exchange.call, members);
    std::vector<cuda::EventHandle> joins;
    for (std::size_t m = 1; m < devices.size(); ++m) {
      check(cudaSetDevice(ordinals[m]));
      joins.push_back(cuda::make_event());
      cuda::order(devices[m].stream.get(), joins.back().get(), origin);
    }
    check(cudaSetDevice(ordinals[0]));
    check(cudaStreamEndCapture(origin, &graph));
    check(cudaGraphInstantiate(&executable, graph, 0));
    check(cudaGraphLaunch(executable, origin));
    check(cudaStreamSynchronize(origin));
    check(cudaGraphExecDestroy(executable));
    check(cudaGraphDestroy(graph));
  } else {
    group.queue(exchange.call, members);
  }
  std::vector<std::vector<HostTensor>> results;
  for (std::size_t m = 0; m < devices.size(); ++m) {
    check(cudaSetDevice(ordinals[m]));
    check(cudaStreamSynchronize(devices[m].stream.get()));
    for (const DeviceBuffer& buffer : devices[m].buffers) buffer.check_guards();
    results.emplace_back();
    for (std::size_t t = 0; t < exchange.outputs[m].size(); ++t)
      results[m].push_back(
          devices[m].buffers[(in_place ? 0 : exchange.inputs[m].size()) + t].download(
              exchange.outputs[m][t].type));
  }
  check(cudaSetDevice(ordinals[0]));
  return results;
}

using MakeGroup =
    std::function<std::unique_ptr<cuda::CollectiveGroup>(const std::vector<int>& ordinals)>;

/// Combiners that a collective is tried with.
inline std::vector<Combiner> combiners_of(CollectiveKind kind, DType dtype) {
  std::vector<Combiner> all{dtype == f16 || dtype == i32 ? Combiner::max : Combiner::sum};
  const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
  if (reduces && (dtype == f32 || dtype == f64)) all.push_back(Combiner::log_sum_exp);
  return all;
}

/// Bit for bit; of functions of the card, within its rounding.
inline bool agree(const std::vector<std::vector<HostTensor>>& got,
                  const std::vector<std::vector<HostTensor>>& expected, Combiner combiner) {
  if (combiner != Combiner::log_sum_exp) return got == expected;
  for (std::size_t m = 0; m < expected.size(); ++m)
    for (std::size_t t = 0; t < expected[m].size(); ++t)
      for (std::int64_t i = 0; i < expected[m][t].type.elements(); ++i)
        if (!(std::abs(got[m][t].get(i) - expected[m][t].get(i)) <=
              16 * epsilon(expected[m][t].type.dtype)))
          return false;
  return true;
}

/// All kinds, types, shapes (even, uneven, empty shards) and dimensions over members on these
/// cards.
inline void check_collectives(const std::vector<int>& ordinals, const MakeGroup& make_group) {
  const int n = static_cast<int>(ordinals.size());
  const auto group = make_group(ordinals);
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_gather, CollectiveKind::all_to_all})
    for (const DType dtype : kDTypes)
      for (const Shape& shape : {Shape{12, 12, 24}, Shape{7, 5, 3}, Shape{2, 1, 9}})
        for (int dim = 0; dim < 3; ++dim) {
          const int from_dim = (dim + 1 + static_cast<int>(shape[0]) % 2) % 3;
          const bool turns = kind == CollectiveKind::all_to_all,
                     reduces = kind == CollectiveKind::all_reduce;
          if (reduces && dim > 0) continue;
          std::vector<Shape> shapes = {shape, {shape[2], shape[1], shape[0]}, {n, n, n}};
          if (turns) shapes.resize(1);
          for (const Combiner combiner : combiners_of(kind, dtype)) {
            const Exchange exchange =
                make_exchange(kind, combiner, dtype, n, shapes, dim, from_dim);
            const auto expected = on_threads(exchange);
            CAPTURE(name_of(kind));
            CAPTURE(name_of(dtype));
            CAPTURE(static_cast<int>(combiner));
            CAPTURE(to_string(shape));
            CAPTURE(dim);
            CAPTURE(n);
            for (const bool captured : {false, true})
              CHECK(agree(on_devices(exchange, *group, ordinals, false, captured), expected,
                          combiner));
            if (reduces)
              CHECK(agree(on_devices(exchange, *group, ordinals, true, false), expected, combiner));
          }
        }
}

}  // namespace alpa::testing
