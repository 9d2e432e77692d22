#pragma once
/// Mixture of experts: every token is sent to a few of many MLPs (GShard, Lepikhin et al.
/// 2020; Switch, Fedus et al. 2021). Letters: G groups of S tokens of M features, E experts of
/// hidden width H, each with room for C tokens of a group.
#include <cstdint>
#include <string>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/nn/initializer.h"
#include "alpa/nn/layer.h"
#include "alpa/ops/ops.h"
#pragma GCC visibility push(default)

namespace alpa::nn {

/// Where tokens go.
struct Routing {
  /// i32 [G, S, choices]: expert · capacity + place of every choice, -1 if it has no place left
  Value places;
  Value weights;  ///< [G, S, choices]: of the experts' results
  /// E · Σ_e (share of tokens whose first choice is e) · (mean gate of e), mean over the groups: 1
  /// if the load is even. Its gradient reaches the gates.
  Value balance_loss;
};

/// The `choices` experts with the largest gates take each token, in the order of the tokens, all
/// first choices before the second ones; a token for which an expert has no place left gets nothing
/// from it. Gates [G, S, E] are f32 or f64. The gates of several choices are scaled to the sum 1;
/// with one choice the weight is the gate itself.
inline Routing route(Value gates, int choices, std::int64_t capacity) {
  require(gates && gates.rank() == 3, "nn::route: needs gates [G, S, E]");
  require(gates.dtype() == f32 || gates.dtype() == f64, "nn::route: gates {}; cast them to f32",
          to_string(gates.type()));
  require(choices >= 1, "nn::route: {} choices; give at least 1", choices);
  require(capacity >= 1, "nn::route: capacity {}; give at least 1", capacity);
  const std::int64_t groups = gates.dim(0), tokens = gates.dim(1), experts = gates.dim(2);
  require(choices <= experts, "nn::route: {} choices among {} experts", choices, experts);
  const TopK best = top_k(gates, choices);
  // In the order in which they take places.
  const Value queue =
      reshape(transpose(best.indices, {0, 2, 1}), {groups, std::int64_t{choices} * tokens});
  const Value chosen = one_hot(queue, experts, gates.dtype());
  const Value place = cast(sum(chosen * cumulative_sum(chosen, 1, true), {-1}), i32);
  const Value places = where(lt(place, static_cast<double>(capacity)),
                             queue * static_cast<double>(capacity) + place, -1);
  const Value first = slice(chosen, 1, 0, tokens);
  const Value balance = mean(first, {1}) * mean(gates, {1});
  const double scale = static_cast<double>(experts) / static_cast<double>(groups);
  return {transpose(reshape(places, {groups, choices, tokens}), {0, 2, 1}),
          choices == 1 ? best.values : best.values / sum(best.values, {-1}, true),
          sum(balance) * scale};
}

/// Options of `MoE`.
struct MoEOptions {
  int choices = 2;             ///< experts of a token
  double capacity_factor = 1;  ///< places of an expert, as a multiple of choices · S / E
  /// Tokens that share places; must divide the tokens, if there are more. 0: those of a row.
  std::int64_t group = 2048;
  Value (*activation)(Value) = relu;  ///< of the hidden layer
  /// activation(x · expert_gate_e) · (x · up_e) is the hidden layer (SwiGLU with `silu`: Mixtral),
  /// with a parameter "expert_gate" [E, M, H] more.
  bool gated = false;
  KernelInitializer kernel = he_normal;  ///< of gate and experts
  /// Tokens travel in products with masks [G, S, E, C], as GShard's and Alpa's do: up to a third
  /// more FLOPs. For forecasts of such programs.
  bool dense_dispatch = false;
  std::string name = {};  ///< the layer's own; default: its position or kind (`Scope`)
};

/// What `MoE` returns.
struct MoEOutput {
  Value y;             ///< of x's type
  Value balance_loss;  ///< to be added to the loss, times about 0.01; see Routing
};

/// y = Σ_e weight_e(x) · activation(x · up_e) · down_e over the experts that x [..., M] is routed
/// to, 0 for a token that no expert has a place for. Parameters "gate" [M, E], "up" [E, M, H] and
/// "down" [E, H, M], of x's element type; gates are computed in f32 at least.
/// Where a plan splits E, tokens travel by all_to_all.
class MoE {
 public:
  /// Throws Error on counts below 1 or a capacity factor that is not positive.
  MoE(std::int64_t experts, std::int64_t hidden, MoEOptions options = {})
      : id_(options.name), experts_(experts), hidden_(hidden), options_(std::move(options)) {
    require(experts >= 1 && hidden >= 1, "nn::MoE: {} experts of width {}; give at least 1 of each",
            experts, hidden);
    require(options_.choices >= 1, "nn::MoE: {} choices; give at least 1", options_.choices);
    require(options_.choices <= experts, "nn::MoE: {} choices among {} experts", options_.choices,
            experts);
    require(options_.capacity_factor > 0 && options_.group >= 0,
            "nn::MoE: capacity factor {} and groups of {}; both must be positive",
            options_.capacity_factor, options_.group);
  }

  /// Throws Error unless x has a feature dimension, one before it, and whole groups of tokens.
  MoEOutput operator()(Value x) const {
    const Value tokens = grouped(x);
    const Scope in(x, id_, "moe");
    const std::int64_t features = x.dim(-1);
    const Value gate =
        in.parameter("gate", {features, experts_}, options_.kernel(features, experts_));
    Value expert_gate;
    if (options_.gated)
      expert_gate = in.parameter("expert_gate", {experts_, features, hidden_},
                                 options_.kernel(features, hidden_));
    const Value up =
        in.parameter("up", {experts_, features, hidden_}, options_.kernel(features, hidden_));
    const Value down =
        in.parameter("down", {experts_, hidden_, features}, options_.kernel(hidden_, features));
    const Value logits = einsum("gsm,me->gse", tokens, gate);
    const Value gates = softmax(x.dtype() == f64 ? logits : cast(logits, f32));
    const Routing routing = route(gates, options_.choices, capacity(tokens.dim(1)));
    const Value at_experts = sent(tokens, routing);
    Value inner = einsum("egcm,emh->egch", at_experts, up);
    inner = expert_gate
                ? options_.activation(einsum("egcm,emh->egch", at_experts, expert_gate)) * inner
                : options_.activation(inner);
    const Value results = einsum("egch,ehm->egcm", inner, down);
    return {reshape(returned(results, routing), x.shape()), routing.balance_loss};
  }

  /// Places that an expert has for a group of so many tokens.
  std::int64_t capacity(std::int64_t tokens) const;

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  /// x as [G, S, M].
  Value grouped(Value x) const {
    require(x && x.rank() >= 2,
            "nn::MoE: the input needs a feature dimension and at least one before it");
    const std::int64_t tokens = x.type().elements() / x.dim(-1),
                       most = options_.group > 0 ? options_.group : x.dim(-2),
                       group = most < tokens ? most : tokens;
    require(tokens % group == 0,
            "nn::MoE: {} has {} tokens, not a multiple of groups of {}; choose another group size",
            to_string(x.type()), tokens, group);
    return reshape(x, {tokens / group, group, x.dim(-1)});
  }

  /// Tokens at their places [E, G, C, M].
  Value sent(Value tokens, const Routing& routing) const {
    const std::int64_t places = capacity(tokens.dim(1));
    if (!options_.dense_dispatch) return dispatch(tokens, routing.places, experts_, places);
    return einsum("gsec,gsm->egcm", mask(routing.places, {}, places, tokens.dtype()), tokens);
  }

  /// Weighted sums of the results [E, G, C, M] of every token.
  Value returned(Value results, const Routing& routing) const {
    if (!options_.dense_dispatch) return combine(results, routing.places, routing.weights);
    return einsum("gsec,egcm->gsm",
                  mask(routing.places, routing.weights, results.dim(2), results.dtype()), results);
  }

  /// [G, S, E, C]: the weight, or 1, of token s at place c of expert e, else 0.
  Value mask(Value places, Value weights, std::int64_t capacity, DType dtype) const {
    const double C = static_cast<double>(capacity);
    const Value first = iota(places, {i32, {experts_}}) * C;  // place of every expert
    Value at, weight;                                         // [G, S, E]
    for (int k = 0; k < options_.choices; ++k) {
      const Value own = slice(places, 2, k, k + 1) - first, here = where(lt(own, C), own, -1);
      at = at ? maximum(at, here) : here;
      if (!weights) continue;
      const Value chosen = slice(weights, 2, k, k + 1), taken = ge(here, 0);
      weight = weight ? where(taken, chosen, weight) : where(taken, chosen, 0);
    }
    const Shape column{places.dim(0), places.dim(1), experts_, 1};
    const Value mine = eq(reshape(at, column), iota(places, {i32, {capacity}}));
    return cast(weights ? where(mine, reshape(weight, column), 0) : mine, dtype);
  }

  LayerId id_;
  std::int64_t experts_, hidden_;
  MoEOptions options_;
};

}  // namespace alpa::nn
#pragma GCC visibility pop
