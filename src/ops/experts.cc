// src/ops/experts.cc — tokens [G, S, M] to places of experts [E, G, C, M] and back, by index.
// Places i32 [G, S, K] say where each of a token's K choices is: expert · C + place, nowhere if
// negative.
// A device with some of the experts leaves out the places of others: a partial sum.
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

enum Letter : int { kGroup, kToken, kChoice, kFeature, kExpert, kPlace };

DimFactors tokens() { return {{kGroup}, {kToken}, {kFeature}}; }
DimFactors choices() { return {{kGroup}, {kToken}, {kChoice}}; }
DimFactors held() { return {{kExpert}, {kGroup}, {kPlace}, {kFeature}}; }

/// The rule of all three records, where `held` is [E, G, C, M]. FLOPs are those of every place.
Rule experts_rule(const OpQuery& query, const Shape& held) {
  const Shape& chosen = query.operands[1].shape;
  return {.factors =
              {{chosen[0]}, {chosen[1]}, {chosen[2], true}, {held[3]}, {held[0]}, {held[2], true}},
          .operands = {},
          .results = {},
          .work = {{kGroup, kFeature, kExpert, kPlace}},
          .linear = query.op->linear,
          .flops_per_point = query.op->flops_per_point};
}

/// Adds the weights, if there are any, in which the node is linear, too.
Rule with_weights(Rule rule, const OpQuery& query) {
  if (query.operands.size() == 2) return rule;
  rule.operands.push_back(choices());
  rule.linear.push_back(0b100);
  rule.flops_per_point += 1;
  return rule;
}

void require_places(const OpQuery& query, std::int64_t groups) {
  const TensorType& places = query.operands[1];
  if (places.dtype != i32 || places.rank() != 3 || places.shape[0] != groups)
    fail("{}: needs places i32 [G, S, K] of all {} groups ({})", query.op->name, groups,
         to_string(query.operands));
}

/// `from` is operand 0, maybe followed by weights of the places.
void require_from(const OpQuery& query, std::int64_t rank) {
  const std::span<const TensorType> all = query.operands;
  if ((all.size() != 2 && all.size() != 3) || !is_floating(all[0].dtype) || all[0].rank() != rank)
    fail("{}: needs floating {} and places ({})", query.op->name,
         rank == 3 ? "tokens [G, S, M]" : "results [E, G, C, M]", to_string(all));
  require_places(query, all[0].shape[rank == 3 ? 0 : 1]);
  const TensorType weights{ops::statistics_type(all[0].dtype), all[1].shape};
  if (all.size() == 3 && all[2] != weights)
    fail("{}: the weights must be {} ({}); cast them", query.op->name, to_string(weights),
         to_string(all));
}

void require_tokens(const OpQuery& query, const Shape& x, const Shape& places) {
  if (x[1] != places[1])
    fail("{}: {} tokens have places, not {} ({})", query.op->name, places[1], x[1],
         to_string(query.operands));
}

/// (x, places, maybe weights) -> [E, G, C, M] of "experts" and "capacity".
Rule dispatch_rule(const OpQuery& query) {
  require_from(query, 3);
  const Shape& x = query.operands[0].shape;
  require_tokens(query, x, query.operands[1].shape);
  const std::int64_t experts = query.attributes.integer("experts"),
                     capacity = query.attributes.integer("capacity");
  if (experts < 1 || capacity < 1)
    fail("dispatch: {} experts of {} places; give at least 1 of each", experts, capacity);
  Rule rule = experts_rule(query, {experts, x[0], capacity, x[2]});
  rule.operands = {tokens(), choices()};
  rule.results = {held()};
  rule.reduced = {{{kToken}}};
  return with_weights(rule, query);
}

/// (results, places, maybe weights) -> [G, S, M]
Rule combine_rule(const OpQuery& query) {
  require_from(query, 4);
  Rule rule = experts_rule(query, query.operands[0].shape);
  rule.operands = {held(), choices()};
  rule.results = {tokens()};
  rule.reduced = {{{kExpert}}};
  return with_weights(rule, query);
}

/// (x, places, results) -> [G, S, K]
Rule products_rule(const OpQuery& query) {
  ops::require_operands(query, 3);
  const TensorType &x = query.operands[0], &results = query.operands[2];
  const bool matching = x.rank() == 3 && results.rank() == 4 && is_floating(x.dtype) &&
                        x.dtype == results.dtype && x.shape[0] == results.shape[1] &&
                        x.shape[2] == results.shape[3];
  if (!matching)
    fail("expert_products: needs floating tokens [G, S, M] and results [E, G, C, M] ({})",
         to_string(query.operands));
  require_places(query, x.shape[0]);
  require_tokens(query, x.shape, query.operands[1].shape);
  Rule rule = experts_rule(query, results.shape);
  rule.operands = {tokens(), choices(), held()};
  rule.results = {choices()};
  rule.reduced = {{{kFeature}, {kExpert}}};
  return rule;
}

/// `of` x or results, times the weights in the node's operand 2, if it has them.
Value back(Recorder& g, const OpDef& op, Value of, const Node& n, const Attributes& attributes) {
  Values operands = {of, g.operand(n, 1)};
  if (n.operands.size() == 3) operands.push_back(g.operand(n, 2));
  return g.emit_one(op, operands, attributes);
}

Attributes sizes_of(Value results) {
  return {{"experts", results.shape()[0]}, {"capacity", results.shape()[2]}};
}

}  // namespace

const OpDef ops::dispatch = {
    .name = "dispatch",
    .rule = dispatch_rule,
    .linear = {0b001},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value dx = back(g, combine, dys[0], n, {});
      if (n.operands.size() == 2) return {dx, Value{}};
      return {dx, Value{},
              g.emit_one(expert_products, {g.operand(n, 0), g.operand(n, 1), dys[0]}, {})};
    },
    .cpu = &cpu::dispatch,
};

const OpDef ops::combine = {
    .name = "combine",
    .rule = combine_rule,
    .flops_per_point = 1,
    .linear = {0b001},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value results = g.operand(n, 0);
      const Value dresults = back(g, dispatch, dys[0], n, sizes_of(results));
      if (n.operands.size() == 2) return {dresults, Value{}};
      return {dresults, Value{},
              g.emit_one(expert_products, {dys[0], g.operand(n, 1), results}, {})};
    },
    .cpu = &cpu::combine,
};

// For every choice: Σ_m x · the result at its place.
const OpDef ops::expert_products = {
    .name = "expert_products",
    .rule = products_rule,
    .result_dtypes =
        [](const OpQuery& query) {
          return std::vector<DType>{ops::statistics_type(query.operands[0].dtype)};
        },
    .flops_per_point = 2,
    .linear = {0b001, 0b100},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value x = g.operand(n, 0), places = g.operand(n, 1), results = g.operand(n, 2);
      return {g.emit_one(combine, {results, places, dys[0]}), Value{},
              g.emit_one(dispatch, {x, places, dys[0]}, sizes_of(results))};
    },
    .cpu = &cpu::expert_products,
};

Value dispatch(Value x, Value places, std::int64_t experts, std::int64_t capacity) {
  require(x && places, "dispatch: an operand is an empty Value");
  return recorder(x).emit_one(ops::dispatch, {x, places},
                              {{"experts", experts}, {"capacity", capacity}});
}

Value combine(Value results, Value places, Value weights) {
  require(results && places && weights, "combine: an operand is an empty Value");
  return recorder(results).emit_one(ops::combine, {results, places, weights});
}

}  // namespace alpa
