// src/cost/cost_model.cc — roofline time of a device's part of an operator
#include "src/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "alpa/base/error.h"

namespace alpa::cost {
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

double product(const std::vector<int>& factors, const std::vector<std::int64_t>& sizes) {
  double points = 1;
  for (int factor : factors) points *= static_cast<double>(sizes[factor]);
  return points;
}

double local_bytes(const DimFactors& dims, const TensorType& type,
                   const std::vector<std::int64_t>& sizes) {
  double bytes = static_cast<double>(size_of(type.dtype));
  for (const std::vector<int>& factors : dims) bytes *= product(factors, sizes);
  return bytes;
}

double bytes_read(const Rule& rule, std::span<const TensorType> operands,
                  const std::vector<std::int64_t>& sizes) {
  invariant(rule.operands.size() == operands.size(), "rule for {} operands, given {}",
            rule.operands.size(), operands.size());
  double bytes = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool all = rule.reads.empty() || !rule.reads[i];
    bytes += local_bytes(all ? rule.operands[i] : DimFactors{*rule.reads[i]}, operands[i], sizes);
  }
  return bytes;
}

double bytes_written(const Rule& rule, std::span<const TensorType> results,
                     const std::vector<std::int64_t>& sizes) {
  invariant(rule.results.size() == results.size(), "rule for {} results, given {}",
            rule.results.size(), results.size());
  double bytes = 0;
  for (std::size_t i = 0; i < results.size(); ++i)
    bytes += local_bytes(rule.results[i], results[i], sizes);
  return bytes;
}

/// The type an operator computes in: its first floating operand's, else its first floating
/// result's.
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
  invariant(cluster.num_hosts >= 1 && cluster.devices_per_host >= 1,
            "cluster: {} hosts of {} devices", cluster.num_hosts, cluster.devices_per_host);
  for (const auto& [dtype, rate] : cluster.device.flops_per_second)
    check_rate(rate, "flops_per_second");
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
                        const DeviceMesh& mesh, const CostModel& model,
                        std::optional<double> moved) {
  const std::vector<std::int64_t> sizes = local_factor_sizes(rule, factor_of_axis, mesh);
  const double bytes =
      moved ? *moved : bytes_read(rule, operands, sizes) + bytes_written(rule, results, sizes);
  const double rate = flop_rate(model.device, operands, results),
               bandwidth = model.device.memory_bytes_per_second;
  const double compute = rate > 0 ? flops(rule, sizes) / rate : 0,
               memory = bandwidth > 0 ? bytes / bandwidth : 0;
  return std::max(compute, memory) + model.device.launch_seconds;
}

double operator_bytes(const Rule& rule, std::span<const int> factor_of_axis,
                      std::span<const TensorType> operands, std::span<const TensorType> results,
                      const DeviceMesh& mesh) {
  const std::vector<std::int64_t> sizes = local_factor_sizes(rule, factor_of_axis, mesh);
  return bytes_read(rule, operands, sizes) + bytes_written(rule, results, sizes);
}

}  // namespace alpa::cost
