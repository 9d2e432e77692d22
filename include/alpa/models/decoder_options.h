#pragma once
/// Sizes and variants of `Decoder`: GPT, Llama and the families that vary it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alpa/alpa.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// gpt: layer norm, learnt positions, GELU. llama: RMS norm, rotary positions, SwiGLU.
enum class DecoderKind : std::uint8_t { gpt, llama };

/// How transformers' files name and pack the weights of a Llama's blocks.
enum class DecoderNames : std::uint8_t {
  llama,      ///< also Qwen2, Qwen3, Mistral and Gemma
  phi3,       ///< queries, keys and values are one tensor, and gate and up another
  mixtral,    ///< "block_sparse_moe.experts.0.w1"
  qwen3_moe,  ///< "mlp.experts.0.gate_proj"
  none,       ///< a model that is planned, but not loaded (DeepSeek)
};

/// Mixture of gated experts in place of the feed-forward layer of every block (Mixtral).
struct DecoderExperts {
  std::int64_t count = 0;  ///< 0: none
  int choices = 2;         ///< experts of a token
  /// Places of an expert for the tokens of a row, as a multiple of its fair share, choices · tokens
  /// / count; a token without a place gets nothing. 0: places for all, as transformers computes,
  /// for count / choices times the FLOPs.
  double capacity_factor = 0;
  std::int64_t shared = 0;  ///< width of a gated layer that all tokens go through, too (DeepSeek)
  std::int64_t first = 0;   ///< blocks before this one have no experts, but a gated layer
  std::int64_t dense = 0;   ///< width of that layer
};

/// Sizes of latent attention (DeepSeek-V2), per head but for the ranks.
struct LatentSizes {
  std::int64_t query_rank = 0;         ///< of queries; 0: these are made from x at once
  std::int64_t key_rank = 0;           ///< of keys and values; 0: attention is the usual one
  std::int64_t plain = 0, turned = 0;  ///< of queries and keys, without and with rotary positions
  std::int64_t values = 0;             ///< at most plain + turned

  /// Width of queries and keys.
  std::int64_t width() const { return plain + turned; }
};

/// Differences of a family from Llama; the defaults are Llama's.
struct DecoderVariant {
  DecoderNames names = DecoderNames::llama;  ///< of the weights in files
  bool head_norms = false;       ///< RMS norms of each head's queries and keys (Qwen3, Gemma 3)
  bool scales_from_one = false;  ///< norms scale by 1 + their parameter (Gemma)
  bool norms_behind = false;     ///< norms behind attention and feed-forward, too (Gemma 2 and 3)
  bool gelu_gate = false;        ///< the gate of the feed-forward layer is GELU (Gemma), not SiLU
  double embedding_scale = 1;    ///< of the tokens' vectors: sqrt(hidden) of Gemma
  std::optional<double> score_scale = {};  ///< of attention; default 1/sqrt(head width)
  double score_cap = 0, logit_cap = 0;     ///< soft caps of attention and logits (Gemma 2); 0: none
  double rotary_share = 1;                 ///< share of a head that positions turn (Phi-4)
  std::int64_t window = 0;                 ///< keys that a query of a block with a window sees
  std::vector<bool> windowed = {};         ///< blocks with the window; empty: all, if there is one
  double windowed_rotary_base =
      0;                        ///< of these blocks, without scaling (Gemma 3); 0: as the others
  DecoderExperts experts = {};  ///< of every block, in place of its feed-forward layer
  LatentSizes latent = {};      ///< of attention, if it has ranks
};

/// Sizes and variants of a decoder.
struct DecoderOptions {
  DecoderKind kind = DecoderKind::gpt;  ///< kind of norm, positions and feed-forward layer
  std::int64_t layers = 2, hidden = 64, heads = 4;  ///< blocks, width, heads; heads divide hidden
  std::int64_t key_heads = 0;       ///< heads of keys and values, a divisor of heads; 0: heads
  std::int64_t head_width = 0;      ///< 0: hidden / heads
  std::int64_t sequence = 1024;     ///< learnt positions of GPT: the most tokens of a row
  std::int64_t vocabulary = 51200;  ///< number of tokens
  std::int64_t feed_forward = 0;    ///< width between the products; 0: 4·hidden
  double dropout = 0;               ///< rate, of embedding, attention and both sums of a block
  bool head_bias = true;  ///< a learnt number per token of the vocabulary (Alpa's GPT; not GPT-2)
  bool tied_head = true;  ///< the head is the embedding's table; else a kernel of its own, no bias
  /// Biases of Llama's queries, keys and values (Qwen2 has them), and of attention's projection.
  bool query_bias = false, projection_bias = false;
  double norm_epsilon = 0;     ///< of the norms; 0: 1e-5 of GPT, 1e-6 of Llama
  double rotary_base = 10000;  ///< base of Llama's rotary positions
  std::optional<RotaryScaling> rotary_scaling = {};  ///< scaling of Llama 3.1 and later
  std::optional<DType> dtype = {};                   ///< of parameters; default: the step's
  bool remat = false;                                ///< blocks are layers for `StepOptions::remat`
  DecoderVariant variant = {};                       ///< of Llama; GPT has none
};

/// Width of a decoder's heads.
inline std::int64_t head_width_of(const DecoderOptions& o) {
  return o.head_width > 0 ? o.head_width : o.hidden / o.heads;
}

/// Options of a decoder's norms.
inline nn::NormOptions decoder_norm_options(const DecoderOptions& o, const std::string& name) {
  nn::NormOptions options{.scale_from_one = o.variant.scales_from_one, .name = name};
  if (o.norm_epsilon > 0) options.epsilon = o.norm_epsilon;
  return options;
}

}  // namespace alpa::models
#pragma GCC visibility pop
