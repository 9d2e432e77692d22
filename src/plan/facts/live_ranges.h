#pragma once
/// When the values of a graph occupy memory, before offsets are assigned. Points are node
/// indices, plus one for the end of the step. Updates in place take no memory of their own;
/// neither does an elementwise result that reuses the buffer of an operand at its last use. A
/// reduction happens as soon as its operand exists and reuses its buffer; any other copy is made
/// just before its first use.
#include <vector>

#include "src/plan/facts/uses.h"

namespace alpa::intra_op {

/// Points [from, to).
struct LivePoints {
  int from = 0, to = 0;
};

/// The first node of region backward, inputs apart: what lives before it and from it on is kept by
/// a micro-batch in flight. The number of nodes if there is none.
int first_backward(const Graph& graph);

/// The first node of region apply, inputs apart. The number of nodes if there is none.
int first_apply(const Graph& graph);

/// The node that makes a value which lives between these points, or loads it if it is an input.
/// A result that takes over an operand's memory lives only from the next point on.
int made_at(const Graph& graph, int value, const LivePoints& points);

/// Per node, the point at which it runs: its own, or where the loop runs that it is part of
/// (src/plan/facts/fusion.h). A value that only its loop reads is never stored.
std::vector<int> points_of_nodes(const Graph& graph, const NodeClasses& classes);

/// Per value, given the points of nodes and the last point at which each value is read (-1: never).
/// State and accumulators live always, and so do boundary inputs that are the same in all
/// micro-batches; other inputs live from where they are first read.
std::vector<LivePoints> live_ranges(const Graph& graph, const NodeClasses& classes,
                                    const std::vector<int>& points,
                                    const std::vector<int>& last_read);

/// Last point at which each value could be read.
std::vector<int> last_reads(const Graph& graph, const std::vector<std::vector<Use>>& uses,
                            const std::vector<int>& points);

/// The point at which a use happens: a node's own; for an update, that of the node that computes
/// the new value; the end for metrics and outputs.
int point_of_use(const Graph& graph, UseId use);

/// The first point at which the sum of `value`, left partial by its producer, is there for
/// `use`: just after the producer, but at the start of region apply if that is once per
/// step and the producer is not.
int point_of_reduction(const Graph& graph, int value, UseId use);

}  // namespace alpa::intra_op
