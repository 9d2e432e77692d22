// src/ops/embedding.cc — y[…, d] = table[ids[…], d], and its gradient, which adds rows up by id

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Factors: one per dimension of the ids, then the table's rows and its width.
struct Lookup {
  std::vector<Factor> factors;
  DimFactors ids, table, picked;
  std::vector<int> moved;  ///< factors of the elements that are picked, ids × width
};

Lookup lookup(const Shape& ids, std::int64_t rows, std::int64_t width) {
  Lookup l;
  const int rank = static_cast<int>(ids.size());
  for (std::int64_t extent : ids) l.factors.push_back({extent});
  for (int d = 0; d < rank; ++d) l.ids.push_back({d});
  l.factors.push_back({rows});
  l.factors.push_back({width});
  l.table = {{rank}, {rank + 1}};
  l.picked = l.ids;
  l.picked.push_back({rank + 1});
  for (const std::vector<int>& dim : l.picked) l.moved.push_back(dim[0]);
  return l;
}

/// (table, ids) -> rows. A device that holds some of the table's rows gives zeros for
/// the others: a partial sum.
Rule embedding_rule(const OpQuery& query) {
  ops::require_ids(query, "table");
  const Shape &table = query.operands[0].shape, &ids = query.operands[1].shape;
  if (table.size() != 2)
    fail("embedding: table must have 2 dimensions, rows and width ({})", to_string(query.operands));
  const Lookup l = lookup(ids, table[0], table[1]);
  return {.factors = l.factors,
          .operands = {l.table, l.ids},
          .results = {l.picked},
          .reduced = {{{l.table[0][0]}}},
          .reads = {l.moved, std::nullopt},
          .work = {l.moved},
          .linear = query.op->linear};
}

/// (dy, ids) -> dtable of "rows" rows.
Rule embedding_grad_rule(const OpQuery& query) {
  ops::require_ids(query, "dy");
  const Shape &dy = query.operands[0].shape, &ids = query.operands[1].shape;
  if (dy.empty() || Shape(dy.begin(), dy.end() - 1) != ids)
    fail("embedding_grad: dy must have the dimensions of ids and a width ({})",
         to_string(query.operands));
  const Lookup l = lookup(ids, query.attributes.integer("rows"), dy.back());
  Rule rule{.factors = l.factors,
            .operands = {l.picked, l.ids},
            .results = {l.table},
            .reduced = {{}},
            .work = {l.moved},
            .linear = query.op->linear,
            .flops_per_point = query.op->flops_per_point};
  for (const std::vector<int>& dim : l.ids) rule.reduced[0].push_back({dim[0]});
  return rule;
}

}  // namespace

const OpDef ops::embedding = {
    .name = "embedding",
    .rule = embedding_rule,
    .linear = {0b01},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value table = g.operand(n, 0), ids = g.operand(n, 1);
      return {g.emit_one(embedding_grad, {dys[0], ids}, {{"rows", table.shape()[0]}}), Value{}};
    },
    .cpu = &cpu::embedding,
};

const OpDef ops::embedding_grad = {
    .name = "embedding_grad",
    .rule = embedding_grad_rule,
    .flops_per_point = 1,
    .linear = {0b01},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {alpa::embedding(dys[0], g.operand(n, 1)), Value{}};
    },
    .chunked = ChunkedSum::rows,
    .cpu = &cpu::embedding_grad,
};

Value embedding(Value table, Value ids) {
  require(table && ids, "embedding: an operand is an empty Value");
  return recorder(table).emit_one(ops::embedding, {table, ids});
}

}  // namespace alpa
