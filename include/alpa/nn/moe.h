#pragma once
/// Mixture of experts: every token is sent to one or two of many MLPs (GShard, Lepikhin et al.
/// 2020; Switch, Fedus et al. 2021). Letters: G groups of S tokens of M features, E experts of
/// hidden width H, each with room for C tokens of a group.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/nn/initializer.h"
#include "alpa/nn/layer.h"
#include "alpa/ops/ops.h"

namespace alpa::nn {

/// Where tokens go.
struct Routing {
  Value dispatch;  ///< [G, S, E, C]: 1 where token s has place c of expert e, else 0; no gradient
  Value combine;   ///< [G, S, E, C]: the weight of that expert's result for the token, else 0
  /// E · Σ_e (share of tokens whose first choice is e) · (mean gate of e), mean over the groups: 1
  /// if the load is even. Its gradient reaches the gates.
  Value balance_loss;
};

/// The `choices` (1 or 2) experts with the largest gates take each token, in the order of the
/// tokens, all first choices before the second ones; a token for which an expert has no place
/// left gets nothing from it. Gates [G, S, E] are floating. With two choices their gates are
/// scaled to the sum 1; with one the weight is the gate itself.
inline Routing route(Value gates, int choices, std::int64_t capacity) {
  require(gates && gates.rank() == 3, "nn::route: needs gates [G, S, E]");
  require(choices == 1 || choices == 2, "nn::route: {} choices; give 1 or 2", choices);
  require(capacity >= 1, "nn::route: capacity {}; give at least 1", capacity);
  const std::int64_t experts = gates.dim(-1);
  require(choices <= experts, "nn::route: {} choices among {} experts", choices, experts);
  const DType dtype = gates.dtype();
  const Value first = one_hot(argmax(gates), experts, dtype);
  Value chosen = first, place = first * cumulative_sum(first, 1, true);
  if (choices == 2) {
    const Value second = one_hot(argmax(gates - first * 2), experts, dtype);
    place = place + second * (cumulative_sum(second, 1, true) + sum(first, {1}, true));
    chosen = first + second;
  }
  Value weight = gates * chosen;
  if (choices == 2) weight = weight / sum(weight, {-1}, true);
  const auto column = [](Value x) {
    return reshape(x, {x.shape()[0], x.shape()[1], x.shape()[2], 1});
  };
  const Value here = eq(column(place), iota(gates, {dtype, {capacity}}));
  const Value balance = mean(first, {1}) * mean(gates, {1});
  const double scale = static_cast<double>(experts) / static_cast<double>(gates.dim(0));
  return {where(here, column(chosen), 0), where(here, column(weight), 0), sum(balance) * scale};
}

/// Options of `MoE`.
struct MoEOptions {
  int choices = 2;             ///< experts of a token, 1 or 2
  double capacity_factor = 1;  ///< places of an expert, as a multiple of choices · S / E
  std::int64_t group =
      2048;  ///< tokens that share places; must divide the tokens, if there are more
  Value (*activation)(Value) = relu;     ///< of the hidden layer
  KernelInitializer kernel = he_normal;  ///< of gate and experts
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
    require(options_.choices == 1 || options_.choices == 2, "nn::MoE: {} choices; give 1 or 2",
            options_.choices);
    require(options_.choices <= experts, "nn::MoE: {} choices among {} experts", options_.choices,
            experts);
    require(options_.capacity_factor > 0 && options_.group >= 1,
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
    const Value up =
        in.parameter("up", {experts_, features, hidden_}, options_.kernel(features, hidden_));
    const Value down =
        in.parameter("down", {experts_, hidden_, features}, options_.kernel(hidden_, features));
    const Value logits = einsum("gsm,me->gse", tokens, gate);
    const Value gates = softmax(x.dtype() == f64 ? logits : cast(logits, f32));
    const Routing routing = route(gates, options_.choices, capacity(tokens.dim(1)));
    const Value sent = einsum("gsec,gsm->egcm", cast(routing.dispatch, x.dtype()), tokens);
    const Value inner = options_.activation(einsum("egcm,emh->egch", sent, up));
    const Value results = einsum("egch,ehm->egcm", inner, down);
    const Value y = einsum("gsec,egcm->gsm", cast(routing.combine, x.dtype()), results);
    return {reshape(y, x.shape()), routing.balance_loss};
  }

  /// Places that an expert has for a group of so many tokens.
  std::int64_t capacity(std::int64_t tokens) const {
    const double even = static_cast<double>(options_.choices) * static_cast<double>(tokens) /
                        static_cast<double>(experts_);
    const double places = std::ceil(even * options_.capacity_factor - 1e-9);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(places), 1, tokens);
  }

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  /// x as [G, S, M].
  Value grouped(Value x) const {
    require(x && x.rank() >= 2,
            "nn::MoE: the input needs a feature dimension and at least one before it");
    const std::int64_t tokens = x.type().elements() / x.dim(-1),
                       group = std::min(options_.group, tokens);
    require(tokens % group == 0,
            "nn::MoE: {} has {} tokens, not a multiple of groups of {}; choose another group size",
            to_string(x.type()), tokens, group);
    return reshape(x, {tokens / group, group, x.dim(-1)});
  }

  LayerId id_;
  std::int64_t experts_, hidden_;
  MoEOptions options_;
};

}  // namespace alpa::nn
