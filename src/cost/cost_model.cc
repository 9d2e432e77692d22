// src/cost/cost_model.cc — roofline time of an operator's local part
#include "alpa/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "alpa/base/error.h"

namespace alpa {
namespace {

void check_rate(double value, const char* what) {
  invariant(std::isfinite(value) && value >= 0, "cluster: {} is {}", what, value);
}

std::vector<std::int64_t> local_factor_sizes(const Rule& rule, std::span<const int> factor_of_axis,
                                             const DeviceMesh& mesh) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(rule.factors.size());
  for (const Factor& factor : rule.factors) sizes.push_back(factor.size);
  for (int axis = 0; axis < static_cast<int>(factor_of_axis.size()); ++axis) {
    if (factor_of_axis[axis] < 0) continue;
    std::int64_t& size = sizes[factor_of_axis[axis]];
    size = (size + mesh.size(axis) - 1) / mesh.size(axis);  // ceil twice is ceil of the product
  }
  return sizes;
}

double local_bytes(const std::vector<DimFactors>& dims, std::span<const TensorType> types,
                   const std::vector<std::int64_t>& sizes) {
  invariant(dims.size() == types.size(), "rule for {} tensors, given {}", dims.size(), types.size());
  double bytes = 0;
  for (std::size_t t = 0; t < types.size(); ++t) {
    double tensor = static_cast<double>(size_of(types[t].dtype));
    for (const std::vector<int>& factors : dims[t]) {
      for (int factor : factors) tensor *= static_cast<double>(sizes[factor]);
    }
    bytes += tensor;
  }
  return bytes;
}

/// The type an operator computes in: its first floating operand's, else its first floating result's.
double flop_rate(const DeviceModel& device, std::span<const TensorType> operands,
                 std::span<const TensorType> results) {
  for (std::span<const TensorType> types : {operands, results}) {
    for (const TensorType& type : types) {
      if (!is_floating(type.dtype)) continue;
      const auto rate = device.flops_per_second.find(type.dtype);
      return rate == device.flops_per_second.end() ? 0 : rate->second;
    }
  }
  return 0;
}

}  // namespace

CostModel CostModel::of(const Cluster& cluster) {
  invariant(cluster.num_hosts >= 1 && cluster.devices_per_host >= 1, "cluster: {} hosts of {} devices",
            cluster.num_hosts, cluster.devices_per_host);
  for (const auto& [dtype, rate] : cluster.device.flops_per_second) check_rate(rate, "flops_per_second");
  check_rate(cluster.device.memory_bytes_per_second, "memory_bytes_per_second");
  check_rate(cluster.device.launch_seconds, "launch_seconds");
  CostModel model;
  model.device = cluster.device;
  model.reshard.memory_bytes_per_second = cluster.device.memory_bytes_per_second;
  model.reshard.launch_seconds = cluster.device.launch_seconds;
  return model;
}

CostModel CostModel::communication_only(CollectiveOptions options) {
  CostModel model;
  model.reshard.collectives = options;
  return model;
}

double operator_seconds(const Rule& rule, std::span<const int> factor_of_axis,
                        std::span<const TensorType> operands, std::span<const TensorType> results,
                        const DeviceMesh& mesh, const CostModel& model) {
  const std::vector<std::int64_t> sizes = local_factor_sizes(rule, factor_of_axis, mesh);
  double flops = rule.flops_per_point;
  for (std::int64_t size : sizes) flops *= static_cast<double>(size);
  const double bytes =
      local_bytes(rule.operands, operands, sizes) + local_bytes(rule.results, results, sizes);
  const double rate = flop_rate(model.device, operands, results),
               bandwidth = model.device.memory_bytes_per_second;
  const double compute = rate > 0 ? flops / rate : 0, memory = bandwidth > 0 ? bytes / bandwidth : 0;
  return std::max(compute, memory) + model.device.launch_seconds;
}

}  // namespace alpa
