#pragma once
/// Seconds and bytes of operators: max(FLOPs / rate, bytes / bandwidth) + launch, on the local part of a
/// node.
#include <cstdint>
#include <optional>
#include <span>

#include "alpa/cost/reshard.h"
#include "alpa/ir/rule.h"
#include "alpa/mesh/cluster.h"

namespace alpa {

struct CostModel {
  DeviceModel device;
  ReshardModel reshard;

  bool operator==(const CostModel&) const = default;

  /// The model of a cluster's devices. Throws Bug if the cluster is inconsistent.
  static CostModel of(const Cluster& cluster);
  /// Communication only: infinitely fast devices, α and β of the mesh; for comparison with published
  /// objectives.
  static CostModel communication_only(CollectiveOptions options);
};

/// Seconds of one run of an operator with this rule on one device; `factor_of_axis` says which factor each
/// mesh axis splits (-1: none), so that local factor sizes are ceil(size / product of its axes). FLOPs
/// count at the rate of the first floating type among operands, then results; bytes are those read of all
/// operands and those of all results, or `moved` where a part of them stays in registers. Operators that
/// move nothing (reshape, constant, input) are free and not priced here.
double operator_seconds(const Rule& rule, std::span<const int> factor_of_axis,
                        std::span<const TensorType> operands, std::span<const TensorType> results,
                        const DeviceMesh& mesh, const CostModel& model, std::optional<double> moved = {});

/// Those bytes.
double operator_bytes(const Rule& rule, std::span<const int> factor_of_axis,
                      std::span<const TensorType> operands, std::span<const TensorType> results,
                      const DeviceMesh& mesh);

}  // namespace alpa
