#pragma once
/// A few operators of the tests' own: the graph modules know none.
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/recorder.h"

namespace alpa::testing::sample {

inline const alpa::OpDef add = {
    .name = "add", .dims = "..., ... -> ...", .flops_per_point = 1, .linear = {0b11}};
inline const alpa::OpDef dot = {
    .name = "dot", .dims = "ik, kj -> ij", .flops_per_point = 2, .linear = {0b01, 0b10}};
inline const alpa::OpDef total = {
    .name = "total", .dims = "ij -> ", .flops_per_point = 1, .linear = {0b1}};
inline const alpa::OpDef scale = {.name = "scale", .dims = "... -> ..."};
inline const alpa::OpDef split = {
    .name = "split",
    .dims = "... -> ..., ...",
    .result_dtypes =
        [](const alpa::OpQuery& q) { return std::vector<alpa::DType>(2, q.operands[0].dtype); },
};

inline const alpa::OpDef* const all[] = {&add, &dot, &total, &scale, &split};

/// w starts normal; loss = total(x w), once per micro-batch into an accumulator; w becomes w + w.
inline alpa::Graph step(int micro_batches) {
  alpa::Recorder b(micro_batches);
  const alpa::Value x = b.input(alpa::InputKind::batch, "x", {alpa::f32, {2, 3}});
  const alpa::Value w = b.parameter("w", {alpa::f32, {3, 4}}, alpa::Initializer::normal(0, 0.5));
  const alpa::Value sum = b.input(alpa::InputKind::accumulator, "loss_sum", {alpa::f32, {}});
  b.push_scope("dense0");
  b.set_layer(0);
  const alpa::Value y = b.emit_one(dot, {x, w});
  b.pop_scope();
  const alpa::Value loss = b.emit_one(total, {y}, {{"note", std::string("a \"quoted\" {name}\n")}});
  const alpa::Value summed = b.emit_one(add, {sum, loss});
  b.update(sum, summed);
  b.set_region(alpa::Region::apply);
  b.set_layer(-1);
  const alpa::Values parts =
      b.emit(split, {w}, {{"at", 0.5}, {"axes", std::vector<std::int64_t>{0, 1}}});
  b.update(w, b.emit_one(add, {parts[0], parts[1]}));
  b.metric("loss", b.emit_one(scale, {summed}, {{"by", 0.25}}));
  return b.finish();
}

}  // namespace alpa::testing::sample
