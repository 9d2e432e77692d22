#pragma once
/// Decoders with mixtures of experts in every second layer (GShard, Lepikhin et al. 2020; sizes of
/// the Alpa paper's table).
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "alpa/alpa.h"
#include "alpa/models/tied_head.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Sizes and variants of a decoder with experts.
struct MoeDecoderOptions {
  std::int64_t layers = 2, hidden = 64, heads = 4;   ///< blocks, width, heads
  std::int64_t experts = 4;                          ///< of every second block
  std::int64_t sequence = 1024, vocabulary = 32000;  ///< most tokens of a row; number of tokens
  std::int64_t factor = 8;          ///< width of every MLP, as a multiple of `hidden`
  int choices = 2;                  ///< experts of a token
  double capacity_factor = 1;       ///< places of an expert, as a multiple of its fair share
  std::int64_t group = 2048;        ///< tokens that share the places of an expert
  double balance_weight = 0.01;     ///< of the loss that balances the experts' loads
  std::optional<DType> dtype = {};  ///< of parameters; default: the step's
  bool remat = false;               ///< blocks are layers for `StepOptions::remat`
  bool dense_dispatch = false;      ///< as in `MoEOptions`
};

/// A published size, by its name; fields as in `MoeDecoderOptions`.
struct MoeDecoderSize {
  std::string_view name;                        ///< as the paper calls it, "380M"
  std::int64_t layers, hidden, heads, experts;  ///< blocks, width, heads, experts
};

/// Sizes of MoE in Alpa's evaluation (Zheng et al. 2022, table 5), and one for trials.
inline constexpr std::array<MoeDecoderSize, 10> kMoeSizes{{{"tiny", 2, 64, 4, 4},
                                                           {"380M", 8, 768, 16, 8},
                                                           {"690M", 8, 768, 16, 16},
                                                           {"1.3B", 16, 768, 16, 16},
                                                           {"2.4B", 16, 1024, 16, 16},
                                                           {"7.1B", 16, 1280, 16, 32},
                                                           {"10B", 16, 1536, 16, 32},
                                                           {"27B", 16, 2048, 16, 48},
                                                           {"70B", 32, 2048, 16, 64},
                                                           {"140B", 32, 2048, 16, 128}}};

/// x + attention(norm(x)), then x + MLP(norm(x)) or x + experts(norm(x)).
class MoeDecoderBlock {
 public:
  /// A block of these sizes, with experts or with an MLP.
  MoeDecoderBlock(const MoeDecoderOptions& o, bool experts)
      : attention_(o.hidden, o.heads, {.kernel = kernel(), .name = "attention"}),
        mlp_({nn::Dense(o.factor * o.hidden, {.kernel = kernel(), .name = "up"}), nn::GELU(),
              nn::Dense(o.hidden, {.kernel = kernel(), .name = "down"})},
             {.name = "feed_forward"}) {
    if (experts)
      experts_.emplace(o.experts, o.factor * o.hidden,
                       nn::MoEOptions{.choices = o.choices,
                                      .capacity_factor = o.capacity_factor,
                                      .group = o.group,
                                      .activation = gelu,
                                      .kernel = kernel(),
                                      .dense_dispatch = o.dense_dispatch,
                                      .name = "experts"});
  }

  /// x [B, T, C] → the result [B, T, C], and the balance loss, a scalar, of a block with experts.
  nn::MoEOutput operator()(Value x) const {
    x = x + attention_(norms_[0](x));
    const Value normal = norms_[1](x);
    if (!experts_) return {x + mlp_(normal), {}};
    const nn::MoEOutput result = (*experts_)(normal);
    return {x + result.y, result.balance_loss};
  }

 private:
  static nn::KernelInitializer kernel() { return Initializer::normal(0, 0.02); }

  std::array<nn::LayerNorm, 2> norms_{nn::LayerNorm({.name = "attention_norm"}),
                                      nn::LayerNorm({.name = "feed_forward_norm"})};
  nn::SelfAttention attention_;
  nn::Sequential mlp_;
  std::optional<nn::MoE> experts_;
};

/// Predicts every next token. The head is the embedding's table and a learnt number per token; each
/// block is a layer of pipelines.
class MoeDecoder {
 public:
  /// A decoder of these sizes; blocks 1, 3, 5, … have experts.
  explicit MoeDecoder(MoeDecoderOptions options)
      : options_(options),
        tokens_(options.vocabulary, options.hidden, {.dtype = options.dtype, .name = "tokens"}),
        positions_(options.sequence, options.hidden, {.dtype = options.dtype, .name = "positions"}),
        head_(tokens_, options.vocabulary) {
    for (std::int64_t i = 0; i < options.layers; ++i) blocks_.emplace_back(options_, i % 2 == 1);
  }

  /// The sizes and variants it was made with.
  const MoeDecoderOptions& options() const { return options_; }

  /// Tokens i32 [B, T] → logits [B, T, vocabulary], and the mean balance loss of the layers with
  /// experts, if there are any.
  nn::MoEOutput operator()(Value tokens) const {
    Value x = tokens_(tokens) + positions_(iota(tokens, {i32, {tokens.dim(1)}})), balance;
    double layers = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (i > 0) x = mark_pipeline_boundary(x);
      const nn::Scope in(x, "blocks", i);
      const nn::MoEOutput block = options_.remat ? nn::remat(blocks_[i])(x) : blocks_[i](x);
      x = block.y;
      if (!block.balance_loss) continue;
      balance = balance ? balance + block.balance_loss : block.balance_loss;
      ++layers;
    }
    return {head_(norm_(x)), balance ? balance * (1 / layers) : balance};
  }

  /// Mean cross-entropy of labels i32 [B, T] after tokens i32 [B, T], and the mean balance loss
  /// times its weight. Metric "balance": that mean.
  LossAndMetrics loss(Value tokens, Value labels) const {
    const auto [logits, balance] = (*this)(tokens);
    const Value prediction = nn::cross_entropy(logits, labels);
    if (!balance) return prediction;
    return {prediction + balance * options_.balance_weight, {{"balance", balance}}};
  }

 private:
  MoeDecoderOptions options_;
  nn::Embedding tokens_, positions_;
  std::vector<MoeDecoderBlock> blocks_;
  nn::LayerNorm norm_{{.name = "norm"}};
  TiedHead head_;
};

}  // namespace alpa::models
#pragma GCC visibility pop
