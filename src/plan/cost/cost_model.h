#pragma once
/// Seconds and bytes of operators: max(FLOPs / rate, bytes / bandwidth) + launch, for
/// a device's part of a node.
#include <cstdint>
#include <optional>
#include <span>

#include "alpa/mesh/cluster.h"
#include "src/ir/rule.h"
#include "src/plan/cost/reshard.h"

namespace alpa::cost {

struct CostModel {
  DeviceModel device;
  ReshardModel reshard;
  SoftwareModel software = {};

  bool operator==(const CostModel&) const = default;

  /// The model of a cluster's devices. Throws Bug if the cluster is inconsistent.
  static CostModel of(const Cluster& cluster);
};

/// Seconds of one run of an operator with this rule on one device. `factor_of_axis` gives the
/// factor that each mesh axis splits (-1: none); a local factor size is ceil(size / product of its
/// axes). FLOPs are counted at the rate of the first floating type among operands, then results.
/// Fused attention has rates of its own where the device has them. Products have the curve of
/// `half_rate_size`. Where rates by size were measured, a product takes
/// its FLOPs at the rate of its shape, and bytes go at the rate of so many.
/// Bytes are those read from operands and written to results, or `moved` if some of them stay in
/// registers. Operators that move no data (reshape, constant, input) are free and not priced here.
double operator_seconds(const Rule& rule, std::span<const int> factor_of_axis,
                        std::span<const TensorType> operands, std::span<const TensorType> results,
                        const DeviceMesh& mesh, const CostModel& model,
                        std::optional<double> moved = {});

/// Lower bound on each of n devices, however they share work: shared / n + own seconds.
struct LeastSeconds {
  double shared = 0, own = 0;
};

/// Lower bound on an operator that moves so many bytes, on up to `most_devices`: FLOPs and bytes
/// count at the best rates of any shape.
LeastSeconds least_operator_seconds(const Rule& rule, std::span<const TensorType> operands,
                                    std::span<const TensorType> results, int most_devices,
                                    const CostModel& model, double moved);

/// The bytes that `operator_seconds` counts.
double operator_bytes(const Rule& rule, std::span<const int> factor_of_axis,
                      std::span<const TensorType> operands, std::span<const TensorType> results,
                      const DeviceMesh& mesh);

}  // namespace alpa::cost
