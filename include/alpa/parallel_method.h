#pragma once
/// The ways of spreading a training step over devices, and their options.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "alpa/intra_op/planning_progress.h"
#include "alpa/runtime/executor.h"

namespace alpa {

enum class MethodKind : std::uint8_t { serial, data, zero2, zero3, shard };

/// A parallel method and its options, e.g. `ShardParallel{.num_micro_batches = 4}`. All methods have the
/// same options.
template <MethodKind method>
struct ParallelMethod {
  /// Gradients are accumulated over as many parts of the batch; must divide it.
  int num_micro_batches = 1;
  /// Logical mesh, e.g. {2, 4}. Empty: every shape is tried and the cheapest taken.
  std::vector<int> mesh_shape = {};
  /// Forces the batch onto this axis of the mesh, in every node that has a batch dimension, of the backward
  /// pass too; other axes stay free. Alpa's force_batch_dim_to_mesh_dim binds matrix products alone, and is
  /// on unless told otherwise where a mesh has two axes (axis 0); this one is off.
  std::optional<int> batch_mesh_axis = {};
  bool allow_all_gather = true;
  bool allow_all_to_all = true;
  /// Bytes a device may use; default: what the cluster says it has.
  std::optional<std::int64_t> memory_budget_bytes = {};
  /// Seconds for planning, lowering included: a tenth of them, for large graphs up to half, is kept for
  /// lowering. When the rest is over, the best plan found so far is taken and its proven gap reported.
  double solver_seconds = 60;
  /// Plans that little work does not prove to be the best are searched until (objective - bound) /
  /// objective is at most this.
  double relative_gap = 0.005;
  /// Set true by another thread or a signal handler, it ends planning early: the best plan so far is taken.
  const std::atomic<bool>* stop = nullptr;
  /// Called from the planning thread whenever the best plan or the bound improves.
  ProgressCallback progress = {};
  /// Every pass writes its result there: 01_graph.txt, 02_plan.json, …; empty: nowhere.
  std::string dump_dir = {};
  ExecutorOptions executor = {};

  static constexpr MethodKind kind = method;
};

/// One device; the reference for all others.
using Serial = ParallelMethod<MethodKind::serial>;
/// Batch split, parameters and optimizer state on every device.
using DataParallel = ParallelMethod<MethodKind::data>;
/// Batch split, optimizer state split (ZeRO stage 2, Rajbhandari et al. 2020).
using Zero2Parallel = ParallelMethod<MethodKind::zero2>;
/// Batch split, parameters and optimizer state split, parameters gathered at use (ZeRO stage 3).
using Zero3Parallel = ParallelMethod<MethodKind::zero3>;
/// The best plan the planner finds.
using ShardParallel = ParallelMethod<MethodKind::shard>;

using Method = std::variant<Serial, DataParallel, Zero2Parallel, Zero3Parallel, ShardParallel>;

/// "serial", "data", "zero2", "zero3", "shard".
std::string_view name_of(MethodKind kind);

/// The method of this name with default options. Throws Error naming the methods.
Method parse_method(std::string_view name);

}  // namespace alpa
