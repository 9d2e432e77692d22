#pragma once
/// Shared by the passes over partitioned programs.
#include <vector>

#include "src/spmd/program.h"

namespace alpa::spmd {

/// `program` with these nodes instead, as ir/rewrite.h says; values keep their specs and meshes.
SpmdProgram with_nodes(const SpmdProgram& program, std::vector<Node> nodes);

/// `nodes`, which are those of `graph` in another order, with inputs where their first reader needs
/// them. Inputs keep their own order.
std::vector<Node> with_inputs_first(const Graph& graph, const std::vector<Node>& nodes);

/// `program` with every reduction where its operands are ready; with several micro-batches none
/// leaves its region, which may run once for all of them.
SpmdProgram hoist_reductions(const SpmdProgram& program);

/// `program` with what reads a reduction at the end of its region, if only later regions read its
/// results and the peak of live bytes grows by no more than the slack. So reductions in between may
/// join the one.
SpmdProgram delay_readers(const SpmdProgram& program, std::int64_t slack_bytes);

bool is_reduction(const Node& node);

/// True if one strategy of the node's rule gives its operands and results the specs that their
/// values have in `program`; the node itself need not be in it. With `keeps_sum_order`, one that
/// does (src/plan/facts/strategy.h).
bool follows_a_strategy(const SpmdProgram& program, const Node& node, bool keeps_sum_order = false);

/// Attributes of the node that does this step.
Attributes attributes_of(const ReshardStep& step);

/// Appends a value, of which the next node of the program is the producer. Returns its number.
int add_value(SpmdProgram& program, const TensorType& type, int index, const ShardingSpec& spec,
              int mesh);

/// Appends `node`, which has its operator, attributes and name, to change the layout of `value` and
/// perhaps its mesh. Returns the result.
int append_reshard(SpmdProgram& program, int value, const ShardingSpec& spec, int mesh, Node node);

/// Appends a transfer of `value` to a mesh in this way, and the reshards that belong to it. `node`
/// has name, region and layer. Returns the last result.
int append_transfer(SpmdProgram& program, int value, int mesh, const cost::PlannedTransfer& way,
                    Node node);

/// Bytes the collective formulas (cost/collective.h) take of a collective node, on the device at
/// coordinate 0: local operands, or the gathered results.
std::int64_t payload_bytes(const SpmdProgram& program, const Node& node);

}  // namespace alpa::spmd
