#pragma once
/// One program of several meshes from the parts of a graph, each with a plan of its own.
#include <span>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"
#include "src/spmd/program.h"

namespace alpa::spmd {

/// Micro-batches that a stage has in flight, at most; 1 without a schedule.
int in_flight(const Plan& plan, int stage);

/// The program of `graph` by its plan: its stages, partitioned and joined.
SpmdProgram partition(const Graph& graph, const Plan& plan, const Cluster& cluster);

/// A part of a graph on a mesh of its own.
struct PlannedPart {
  const Graph& graph;        ///< of ir/subgraph.h
  const ShardingPlan& plan;  ///< of `graph`; no boundary input is partial
};

/// Partitions the parts of `whole`, which together are all of it, and joins them: a value that one
/// part computes and another one reads is transferred between their meshes. A partial sum is
/// reduced before it is sent. A value is sent as soon as it is there, in the cheapest way on
/// `cluster` (cost::plan_transfer); reshards of that way come before the first reader. Every mesh
/// loads the inputs of the step that it reads. Throws Bug if the meshes share a device, or if parts
/// wait for each other in a circle.
SpmdProgram join_stages(const Graph& whole, std::span<const PlannedPart> parts,
                        const Cluster& cluster);

}  // namespace alpa::spmd
