// src/compile/pass_log.cc — verification and dumps between compiler passes
#include "pass_log.h"

#include <algorithm>
#include <filesystem>

#include "alpa/base/error.h"

namespace alpa {

PassLog::PassLog(std::string directory) : directory_(std::move(directory)) {
  if (directory_.empty()) return;
  std::error_code failure;
  std::filesystem::create_directories(directory_, failure);
  require(!failure, "dump_dir {}: {}", directory_, failure.message());
}

Graph PassLog::check(std::string_view name, Graph graph) const {
  verify(graph);
  write(name, [&] { return to_string(graph); });
  return graph;
}

spmd::SpmdProgram PassLog::check(std::string_view name, spmd::SpmdProgram program) const {
  verify(program);
  write(name, [&] { return to_string(program); });
  return program;
}

std::string PassLog::path_of(std::string_view name) const {
  const auto known = std::find(names_.begin(), names_.end(), name);
  const auto number = static_cast<int>(known - names_.begin()) + 1;
  if (known == names_.end()) names_.emplace_back(name);
  return fmt::format("{}/{:02}_{}", directory_, number, name);
}

}  // namespace alpa
