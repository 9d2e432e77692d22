// The data of NCCL's collectives
#include <fmt/core.h>

#include <bit>
#include <cstring>

#include "clique.h"
#include "src/base/half.h"

namespace alpa::emulation {
namespace {

const char* name_of(ncclDataType_t type) {
  static constexpr const char* names[] = {"i8",  "u8",  "i32", "u32", "i64",
                                          "u64", "f16", "f32", "f64", "bf16"};
  return names[type];
}
const char* name_of(ncclRedOp_t op) {
  static constexpr const char* names[] = {"sum", "product", "max", "min", "average"};
  return names[op];
}

template <class W>
W combine(W a, W b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd: return static_cast<W>(a * b);
    case ncclMax: return a >= b || a != a ? a : b;
    case ncclMin: return a <= b || a != a ? a : b;
    default: return static_cast<W>(a + b);
  }
}

/// value(r) of ranks [begin, end), combined: the left part has the largest power of two below the
/// length.
template <class Value>
auto combine_ranks(std::size_t begin, std::size_t end, ncclRedOp_t op, const Value& value) {
  if (end - begin == 1) return value(begin);
  const std::size_t split = begin + std::bit_ceil(end - begin) / 2;
  return combine(combine_ranks(begin, split, op, value), combine_ranks(split, end, op, value), op);
}

/// to[i] = from[·][i], combined, for i of [begin, begin + count), of elements T computed as W.
template <class T, class W, class Widen, class Narrow>
void combine_all(const std::vector<Call>& calls, std::size_t begin, std::size_t count, void* to,
                 const Widen& widen, const Narrow& narrow) {
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    W value = combine_ranks(0, calls.size(), calls[0].op, [&](std::size_t r) -> W {
      return widen(static_cast<const T*>(calls[r].from)[begin + i]);
    });
    if (calls[0].op == ncclAvg) value = static_cast<W>(value / static_cast<W>(calls.size()));
    result[i] = narrow(value);
  }
  std::memcpy(to, result.data(), count * sizeof(T));
}

template <class T>
void combine_plain(const std::vector<Call>& calls, std::size_t begin, std::size_t count, void* to) {
  const auto same = [](T x) { return x; };
  combine_all<T, T>(calls, begin, count, to, same, same);
}

/// Elements [begin, begin + count) of all members, combined into `to`.
void combine_part(const std::vector<Call>& calls, std::size_t begin, std::size_t count, void* to) {
  switch (calls[0].type) {
    case ncclInt8: return combine_plain<std::int8_t>(calls, begin, count, to);
    case ncclUint8: return combine_plain<std::uint8_t>(calls, begin, count, to);
    case ncclInt32:  // sums wrap
    case ncclUint32:
      return calls[0].type == ncclInt32 && calls[0].op != ncclSum
                 ? combine_plain<std::int32_t>(calls, begin, count, to)
                 : combine_plain<std::uint32_t>(calls, begin, count, to);
    case ncclInt64: return combine_plain<std::int64_t>(calls, begin, count, to);
    case ncclUint64: return combine_plain<std::uint64_t>(calls, begin, count, to);
    case ncclFloat16:
      return combine_all<F16, float>(
          calls, begin, count, to, [](F16 x) { return to_float(x); }, to_f16);
    case ncclFloat32: return combine_plain<float>(calls, begin, count, to);
    case ncclFloat64: return combine_plain<double>(calls, begin, count, to);
    case ncclBfloat16:
      return combine_all<Bf16, float>(
          calls, begin, count, to, [](Bf16 x) { return to_float(x); }, to_bf16);
  }
}

char* at(void* data, std::size_t bytes) { return static_cast<char*>(data) + bytes; }

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  static constexpr std::size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

std::string describe(const Call& call) {
  static constexpr const char* names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                          "reduce",     "send",           "recv"};
  std::string text = fmt::format("{} of {} {}", names[static_cast<int>(call.kind)], call.count,
                                 name_of(call.type));
  if (call.kind <= Exchange::reduce_scatter || call.kind == Exchange::reduce)
    text += fmt::format(" ({})", name_of(call.op));
  if (call.kind == Exchange::broadcast || call.kind == Exchange::reduce)
    text += fmt::format(", root {}", call.peer);
  return text;
}

std::size_t from_bytes(const Call& call, int size, int rank) {
  if (call.kind == Exchange::recv || (call.kind == Exchange::broadcast && rank != call.peer))
    return 0;
  const std::size_t parts =
      call.kind == Exchange::reduce_scatter ? static_cast<std::size_t>(size) : 1;
  return parts * call.count * bytes_of(call.type);
}
std::size_t to_bytes(const Call& call, int size, int rank) {
  if (call.kind == Exchange::send || (call.kind == Exchange::reduce && rank != call.peer)) return 0;
  const std::size_t parts = call.kind == Exchange::all_gather ? static_cast<std::size_t>(size) : 1;
  return parts * call.count * bytes_of(call.type);
}

void exchange(const std::vector<Call>& calls) {
  const Call& first = calls[0];
  const std::size_t count = first.count, bytes = count * bytes_of(first.type);
  const auto root = static_cast<std::size_t>(first.peer);
  if (bytes == 0) return;
  std::vector<char> whole(bytes * calls.size());
  switch (first.kind) {
    case Exchange::all_reduce:
      combine_part(calls, 0, count, whole.data());
      for (const Call& call : calls) std::memcpy(call.to, whole.data(), bytes);
      break;
    case Exchange::reduce:
      combine_part(calls, 0, count, whole.data());
      std::memcpy(calls[root].to, whole.data(), bytes);
      break;
    case Exchange::reduce_scatter:
      for (std::size_t r = 0; r < calls.size(); ++r)
        combine_part(calls, r * count, count, at(whole.data(), r * bytes));
      for (std::size_t r = 0; r < calls.size(); ++r)
        std::memcpy(calls[r].to, &whole[r * bytes], bytes);
      break;
    case Exchange::all_gather:
      for (std::size_t r = 0; r < calls.size(); ++r)
        std::memcpy(&whole[r * bytes], calls[r].from, bytes);
      for (const Call& call : calls) std::memcpy(call.to, whole.data(), whole.size());
      break;
    case Exchange::broadcast:
      std::memcpy(whole.data(), calls[root].from, bytes);
      for (const Call& call : calls) std::memcpy(call.to, whole.data(), bytes);
      break;
    default: break;  // sends and receives do not meet
  }
}

}  // namespace alpa::emulation
