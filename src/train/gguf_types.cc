// src/train/gguf_types.cc — blocks of GGUF files to floats, and floats to blocks
#include "src/train/gguf_types.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "alpa/base/error.h"
#include "src/base/half.h"

namespace alpa {
namespace {

constexpr int kBlock = 32;        ///< elements of a plain block
constexpr int kSuperBlock = 256;  ///< elements of a block of K-quants

int byte_at(const std::byte* at) { return std::to_integer<int>(*at); }
int signed_at(const std::byte* at) { return static_cast<std::int8_t>(byte_at(at)); }

float half_at(const std::byte* at) {
  F16 half;
  std::memcpy(&half, at, sizeof half);
  return to_float(half);
}

/// Q4_0, Q4_1, Q5_0, Q5_1: a scale, a least number or none, the fifth bits, then the low four bits,
/// of elements i and i + 16 in a byte.
template <int kBits, bool kLeast>
void decode_plain(const std::byte* block, float* to) {
  const float scale = half_at(block), least = kLeast ? half_at(block + 2) : 0;
  const std::byte* bits = block + (kLeast ? 4 : 2);
  std::uint32_t fifth = 0;
  if (kBits == 5) std::memcpy(&fifth, bits, sizeof fifth), bits += sizeof fifth;
  for (int i = 0; i < kBlock; ++i) {
    const int low = i < 16 ? byte_at(bits + i) & 15 : byte_at(bits + i - 16) >> 4;
    const int number = low | static_cast<int>(fifth >> i & 1) << 4;
    const int zero = kLeast ? 0 : 1 << (kBits - 1);
    to[i] = static_cast<float>(number - zero) * scale + least;
  }
}

void decode_q8_0(const std::byte* block, float* to) {
  const float scale = half_at(block);
  for (int i = 0; i < kBlock; ++i) to[i] = static_cast<float>(signed_at(block + 2 + i)) * scale;
}

/// Scale (`least` 0) or least number (1) of 32 elements of a Q4_K or Q5_K: six bits each, those of
/// the last four groups in two places.
int six_bits(const std::byte* packed, int group, int least) {
  if (group < 4) return byte_at(packed + group + 4 * least) & 63;
  const int low = byte_at(packed + group + 4) >> (4 * least) & 15,
            high = byte_at(packed + group - 4 + 4 * least) >> 6;
  return low | high << 4;
}

/// Q4_K and Q5_K: scale of scales and of least numbers, both packed, the fifth bits, then the low
/// four bits, of two groups of 32 in 32 bytes.
template <int kBits>
void decode_k(const std::byte* block, float* to) {
  const float scale = half_at(block), least = half_at(block + 2);
  const std::byte *const packed = block + 4, *const fifth = packed + 12,
                         *const low = fifth + (kBits == 5 ? 32 : 0);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int group = i / 32;
    int number = byte_at(low + group / 2 * 32 + i % 32) >> (group % 2 * 4) & 15;
    if (kBits == 5) number |= (byte_at(fifth + i % 32) >> group & 1) << 4;
    to[i] = scale * static_cast<float>(six_bits(packed, group, 0)) * static_cast<float>(number) -
            least * static_cast<float>(six_bits(packed, group, 1));
  }
}

/// Low four bits, upper two bits, a scale per 16 elements, a scale of these.
void decode_q6_k(const std::byte* block, float* to) {
  const std::byte *const high = block + 128, *const scales = high + 64;
  const float scale = half_at(scales + 16);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128, in_half = i % 128, quarter = in_half / 32;
    const int low = byte_at(block + 64 * half + in_half % 64) >> (quarter / 2 * 4) & 15,
              upper = byte_at(high + 32 * half + i % 32) >> (2 * quarter) & 3;
    to[i] = scale * static_cast<float>(signed_at(scales + i / 16)) *
            static_cast<float>((low | upper << 4) - 32);
  }
}

void put_half(std::byte* at, float number) {
  const F16 half = to_f16(number);
  std::memcpy(at, &half, sizeof half);
}

/// Writes the scale, and (element - least) / scale to the nearest of 0 to 15, two to a byte.
void encode_nibbles(const float* from, float scale, float least, std::byte* block,
                    std::byte* bits) {
  put_half(block, scale);
  const float inverse = scale != 0 ? 1 / scale : 0;
  const auto number = [&](int i) {
    return static_cast<unsigned>(std::clamp((from[i] - least) * inverse + 0.5F, 0.0F, 15.0F));
  };
  for (int i = 0; i < kBlock / 2; ++i)
    bits[i] = static_cast<std::byte>(number(i) | number(i + kBlock / 2) << 4);
}

/// The scale takes the largest magnitude to 127.
void encode_q8_0(const float* from, std::byte* block) {
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(from[i]));
  const float scale = largest / 127, inverse = scale > 0 ? 1 / scale : 0;
  put_half(block, scale);
  for (int i = 0; i < kBlock; ++i)
    block[2 + i] = static_cast<std::byte>(static_cast<int>(std::round(from[i] * inverse)));
}

/// The scale takes the element of the largest magnitude to -8.
void encode_q4_0(const float* from, std::byte* block) {
  const float farthest = *std::max_element(
      from, from + kBlock, [](float a, float b) { return std::abs(a) < std::abs(b); });
  encode_nibbles(from, farthest / -8, farthest, block, block + 2);
}

/// The least element is 0, the largest 15.
void encode_q4_1(const float* from, std::byte* block) {
  const auto [least, largest] = std::minmax_element(from, from + kBlock);
  put_half(block + 2, *least);
  encode_nibbles(from, (*largest - *least) / 15, *least, block, block + 4);
}

constexpr GgufElement kTypes[] = {{0, "F32", 1, 4, f32, nullptr},
                                  {1, "F16", 1, 2, f16, nullptr},
                                  {30, "BF16", 1, 2, bf16, nullptr},
                                  {2, "Q4_0", kBlock, 18, f32, decode_plain<4, false>, encode_q4_0},
                                  {3, "Q4_1", kBlock, 20, f32, decode_plain<4, true>, encode_q4_1},
                                  {6, "Q5_0", kBlock, 22, f32, decode_plain<5, false>},
                                  {7, "Q5_1", kBlock, 24, f32, decode_plain<5, true>},
                                  {8, "Q8_0", kBlock, 34, f32, decode_q8_0, encode_q8_0},
                                  {12, "Q4_K", kSuperBlock, 144, f32, decode_k<4>},
                                  {13, "Q5_K", kSuperBlock, 176, f32, decode_k<5>},
                                  {14, "Q6_K", kSuperBlock, 210, f32, decode_q6_k}};

template <class Is>
const GgufElement* find_type(Is is) {
  const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes), is);
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

const GgufElement* gguf_type(std::uint32_t number) {
  return find_type([&](const GgufElement& type) { return type.number == number; });
}

const GgufElement* gguf_type(std::string_view name) {
  return find_type([&](const GgufElement& type) { return type.name == name; });
}

std::string gguf_encoded(const Array& elements, const GgufElement& type) {
  const Array stored = elements.cast(type.read_as);
  if (type.decode == nullptr)
    return {reinterpret_cast<const char*>(stored.data()), static_cast<std::size_t>(stored.bytes())};
  if (type.encode == nullptr) bug("GGUF's {} is not written", type.name);
  const auto floats = stored.elements_as<float>();
  std::string bytes(floats.size() / kBlock * static_cast<std::size_t>(type.bytes), '\0');
  auto* block = reinterpret_cast<std::byte*>(bytes.data());
  for (std::size_t i = 0; i < floats.size(); i += kBlock, block += type.bytes)
    type.encode(&floats[i], block);
  return bytes;
}

}  // namespace alpa
