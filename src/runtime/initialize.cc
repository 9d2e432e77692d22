#include "initialize.h"

#include <algorithm>
#include <cstring>

#include "alpa/base/error.h"
#include "alpa/base/half.h"
#include "alpa/base/philox.h"
#include "alpa/tensor/box_copy.h"

namespace alpa {
namespace {

/// FNV-1a: the number of a name's random stream.
std::uint64_t hash(const std::string& name) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Numbers 4·group … 4·group + 3 of the stream.
void draw(const RandomStream& stream, std::uint64_t group, bool normal, double numbers[4]) {
  const Philox4 words = stream.words(group);
  for (int i = 0; i < 4; i += 2) {
    const NormalPair pair =
        normal ? normal_pair(words.word[i], words.word[i + 1])
               : NormalPair{unit_interval(words.word[i]), unit_interval(words.word[i + 1])};
    numbers[i] = pair.first;
    numbers[i + 1] = pair.second;
  }
}

}  // namespace

void store_element(DType dtype, std::byte* to, double value) {
  switch (dtype) {
    case DType::f32: return put(to, static_cast<float>(value));
    case DType::f64: return put(to, value);
    case DType::bf16: return put(to, to_bf16(static_cast<float>(value)));
    case DType::f16: return put(to, to_f16(static_cast<float>(value)));
    case DType::i32: return put(to, static_cast<std::int32_t>(value));
    case DType::u8: return put(to, static_cast<std::uint8_t>(value));
  }
}

double load_element(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::f32: return get<float>(from);
    case DType::f64: return get<double>(from);
    case DType::bf16: return to_float(get<Bf16>(from));
    case DType::f16: return to_float(get<F16>(from));
    case DType::i32: return get<std::int32_t>(from);
    case DType::u8: return get<std::uint8_t>(from);
  }
  bug("unknown element type");
}

void initialize(const KernelTensor& shard, const std::string& name, const Attributes& attributes,
                std::uint64_t seed, ThreadTeam& team) {
  const std::string& kind = attributes.string("init");
  const double a = attributes.real("a"), b = attributes.real("b");
  const bool normal = kind == "normal", uniform = kind == "uniform";
  const double scale = normal ? b : b - a;
  const RandomStream stream = random_stream(seed, hash(name), 0, 0);
  const DType dtype = shard.type.dtype;
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const Shape origin(shard.type.shape.size(), 0);
  const BoxCopy box =
      BoxCopy::make(shard.global_shape, shard.offset, shard.type.shape, origin, shard.type.shape);
  if (box.elements() == 0) return;
  // Elements are counted over all runs, so that one long run is shared among the threads as well.
  team.parallel_for(box.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
    double numbers[4];
    const std::int64_t first_run = begin / box.run;
    std::int64_t run = first_run;
    box.for_each_run(first_run, (end + box.run - 1) / box.run,
                     [&](std::int64_t global, std::int64_t local) {
                       const std::int64_t from = std::max<std::int64_t>(0, begin - run * box.run),
                                          to = std::min(box.run, end - run * box.run);
                       for (std::int64_t i = from; i < to; ++i) {
                         const auto index = static_cast<std::uint64_t>(global + i);
                         if ((normal || uniform) && (i == from || index % 4 == 0))
                           draw(stream, index / 4, normal, numbers);
                         store_element(dtype, shard.data + (local + i) * size,
                                       normal || uniform ? a + scale * numbers[index % 4] : a);
                       }
                       ++run;
                     });
  });
}

}  // namespace alpa
