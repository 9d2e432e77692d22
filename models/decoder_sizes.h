#pragma once
/// Sizes of decoders: GPT and Llama.
#include <array>
#include <cstdint>
#include <string_view>

namespace models {

struct DecoderSize {
  std::string_view name;
  std::int64_t layers, hidden, heads, feed_forward = 0;
};

/// Sizes of GPT in Alpa's evaluation (Zheng et al. 2022, table 4), and one for trials.
inline constexpr std::array<DecoderSize, 10> kGptSizes{{{"tiny", 2, 64, 4},
                                                        {"125M", 12, 768, 12},
                                                        {"350M", 24, 1024, 16},
                                                        {"760M", 24, 1536, 16},
                                                        {"1.3B", 24, 2048, 32},
                                                        {"2.6B", 32, 2560, 32},
                                                        {"6.7B", 32, 4096, 32},
                                                        {"15B", 48, 5120, 40},
                                                        {"39B", 48, 8192, 64},
                                                        {"76B", 60, 10240, 80}}};
/// Sizes of Llama (Touvron et al. 2023, table 2), whose head is a kernel of its own.
inline constexpr std::array<DecoderSize, 4> kLlamaSizes{{{"7B", 32, 4096, 32, 11008},
                                                         {"13B", 40, 5120, 40, 13824},
                                                         {"33B", 60, 6656, 52, 17920},
                                                         {"65B", 80, 8192, 64, 22016}}};

}  // namespace models
