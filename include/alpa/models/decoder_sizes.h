#pragma once
/// Sizes of decoders: GPT and Llama.
#include <array>
#include <cstdint>
#include <string_view>

#include "alpa/ir/graph.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Most blocks of a model: each is at least 64 nodes when it is trained.
inline constexpr std::int64_t kMostBlocks = kMaxGraphNodes / 64;

/// A published size, by its name; fields as in `DecoderOptions`.
struct DecoderSize {
  std::string_view name;               ///< as papers call it, "350M"
  std::int64_t layers, hidden, heads;  ///< blocks, width, heads
  std::int64_t feed_forward = 0;       ///< width between the products; 0: 4·hidden
  std::int64_t key_heads = 0;          ///< 0: as many as heads
  std::int64_t vocabulary = 0;         ///< 0: any
  double rotary_base = 10000;          ///< of Llama's positions
};

/// Sizes of GPT in Alpa's evaluation (Zheng et al. 2022, table 4), those of Megatron-LM
/// (Korthikanti et al. 2022, table 3) above them, and one for trials.
inline constexpr std::array<DecoderSize, 14> kGptSizes{{{"tiny", 2, 64, 4},
                                                        {"125M", 12, 768, 12},
                                                        {"350M", 24, 1024, 16},
                                                        {"760M", 24, 1536, 16},
                                                        {"1.3B", 24, 2048, 32},
                                                        {"2.6B", 32, 2560, 32},
                                                        {"6.7B", 32, 4096, 32},
                                                        {"15B", 48, 5120, 40},
                                                        {"39B", 48, 8192, 64},
                                                        {"76B", 60, 10240, 80},
                                                        {"22B", 48, 6144, 64},
                                                        {"175B", 96, 12288, 96},
                                                        {"530B", 105, 20480, 128},
                                                        {"1T", 128, 25600, 160}}};
/// Sizes of Llama (Touvron et al. 2023, table 2) and of Llama 3 (Dubey et al. 2024, table 3), whose
/// head is a kernel of its own.
inline constexpr std::array<DecoderSize, 7> kLlamaSizes{
    {{"7B", 32, 4096, 32, 11008},
     {"13B", 40, 5120, 40, 13824},
     {"33B", 60, 6656, 52, 17920},
     {"65B", 80, 8192, 64, 22016},
     {"8B", 32, 4096, 32, 14336, 8, 128256, 5e5},
     {"70B", 80, 8192, 64, 28672, 8, 128256, 5e5},
     {"405B", 126, 16384, 128, 53248, 8, 128256, 5e5}}};

}  // namespace alpa::models
#pragma GCC visibility pop
