// src/compile/parallel_method.cc — names of parallel methods, and shorthands
#include "alpa/compile/parallel_method.h"

#include "alpa/base/error.h"

namespace alpa {

std::string_view name_of(MethodKind kind) {
  switch (kind) {
    case MethodKind::serial: return "serial";
    case MethodKind::data: return "data";
    case MethodKind::zero2: return "zero2";
    case MethodKind::zero3: return "zero3";
    case MethodKind::shard: return "shard";
    case MethodKind::pipeline: return "pipeline";
  }
  bug("no parallel method has the number {}", static_cast<int>(kind));
}

Method parse_method(std::string_view name) {
  const Method methods[] = {Serial{},        DataParallel{},  Zero2Parallel{},
                            Zero3Parallel{}, ShardParallel{}, PipeshardParallel{}};
  std::string known;
  for (const Method& method : methods) {
    const std::string_view own = std::visit([](const auto& m) { return name_of(m.kind); }, method);
    if (own == name) return method;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", own);
  }
  fail("\"{}\" is not a parallel method; the methods are {}", name, known);
}

PipeshardParallel parallel_3d(int data, int tensor, int pipeline,
                              std::optional<int> num_micro_batches) {
  require(data >= 1 && tensor >= 1 && pipeline >= 1,
          "parallel_3d: degrees {} of data, {} of tensor and {} of pipeline parallelism; give at "
          "least 1 of each",
          data, tensor, pipeline);
  PipeshardParallel method{.num_micro_batches = num_micro_batches,
                           .layers = AutoLayers{pipeline},
                           .stages = UniformStages{pipeline}};
  method.mesh_shape = {data * tensor};
  if (data > 1 && tensor > 1) method.mesh_shape = {data, tensor};
  if (data > 1) method.batch_mesh_axis = 0;
  return method;
}

}  // namespace alpa
