// src/parallel_method.cc — names of parallel methods
#include "alpa/parallel_method.h"

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

}  // namespace alpa
