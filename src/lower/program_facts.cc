// src/lower/program_facts.cc — decides once for all devices which collectives are started
#include "src/lower/program_facts.h"

#include <algorithm>

#include "src/ir/op_def.h"

namespace alpa::lower {
namespace {

bool is_work(const Node& node) { return node.op->cpu && node.op->work != Work::free; }

/// Per node, the next node of its list that computes; the number of nodes if none.
std::vector<int> next_works(const spmd::SpmdProgram& program, const Lists& lists) {
  const Graph& graph = program.graph;
  const int size = static_cast<int>(graph.nodes.size());
  std::vector<std::vector<int>> behind;  // by group and list
  for (const GroupLists& group : lists.groups) behind.emplace_back(group.names.size(), size);
  std::vector<int> next(size, size);
  for (int n = size - 1; n >= 0; --n) {
    const int mesh = program.mesh_index(graph.nodes[n].results[0]);
    int& work = behind[lists.group_of_mesh[mesh]][lists.of_node[n]];
    next[n] = work;
    if (is_work(graph.nodes[n])) work = n;
  }
  return next;
}

std::vector<bool> worth_starting(const spmd::SpmdProgram& program, const Lists& lists) {
  const Graph& graph = program.graph;
  const std::vector<std::vector<int>> readers = consumers(graph);
  const std::vector<int> next_work = next_works(program, lists);
  const int size = static_cast<int>(graph.nodes.size());
  std::vector<bool> worth(size, false);
  for (int n = 0; n < size; ++n) {
    if (!spmd::is_collective(graph.nodes[n])) continue;
    int use = size;
    for (int value : graph.nodes[n].results)
      if (!readers[value].empty()) use = std::min(use, readers[value].front());
    worth[n] = next_work[n] < use;
  }
  return worth;
}

}  // namespace

ProgramFacts::ProgramFacts(const spmd::SpmdProgram& given, bool overlap,
                           const pipeline::PipelineSchedule& schedule)
    : program(given),
      lists(lists_of(given, schedule)),
      messages(given),
      slots(given, schedule),
      starts(overlap ? worth_starting(given, lists) : std::vector<bool>(given.graph.nodes.size())) {
}

}  // namespace alpa::lower
