#pragma once
/// Runs a chat template.
#include <string>
#include <utility>
#include <vector>

#include "src/data/jinja_syntax.h"

namespace alpa::jinja {

/// A template's output, and the ranges of its bytes that `generation` holds.
struct Written {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> generated;
};

/// Runs `root`, the tree of `source`, with these variables. Throws Error naming line, column and
/// mistake, also for a template that takes too many steps or writes too much.
Written run_template(const Source& source, const Node& root, Members variables);

}  // namespace alpa::jinja
