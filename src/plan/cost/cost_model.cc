// src/plan/cost/cost_model.cc — roofline time of a device's part of an operator
#include "src/plan/cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "alpa/base/error.h"
#include "src/plan/cost/log_position.h"

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
std::optional<DType> computed_type(std::span<const TensorType> operands,
                                   std::span<const TensorType> results) {
  for (std::span<const TensorType> types : {operands, results})
    for (const TensorType& type : types)
      if (is_floating(type.dtype)) return type.dtype;
  return {};
}

/// True of attention's gradient: it has more FLOPs per point than attention's 4, and with a window,
/// which lessens both, three results.
bool is_attention_grad(const Rule& rule) {
  return rule.flops_per_point > 4 || rule.results.size() == 3;
}

/// Of products, or of fused attention where it has a rate.
double flop_rate(const CostModel& model, const Rule& rule, std::optional<DType> dtype) {
  if (!dtype) return 0;
  const DeviceModel& device = model.device;
  const auto rate_in = [&](const std::map<DType, double>& rates, double otherwise) {
    const auto rate = rates.find(*dtype);
    return rate == rates.end() ? otherwise : rate->second;
  };
  const double of_products = rate_in(device.flops_per_second, 0);
  if (rule.scores.empty() || model.software.attention_passes > 0) return of_products;
  return rate_in(is_attention_grad(rule) ? device.attention_grad_flops_per_second
                                         : device.attention_flops_per_second,
                 of_products);
}

/// m, n and k of a product [m, k] · [k, n] on a device; none for other operators.
std::optional<std::array<double, 3>> product_sizes(const Rule& rule,
                                                   const std::vector<std::int64_t>& sizes) {
  if (rule.operands.size() < 2 || rule.results.size() != 1) return {};
  std::vector<int> in(sizes.size(), 0);  // bit 0, 1: operands; bit 2: the result
  const auto mark = [&](const DimFactors& dims, int bit) {
    for (const std::vector<int>& factors : dims)
      for (int factor : factors) in[factor] |= bit;
  };
  mark(rule.operands[0], 1);
  mark(rule.operands[1], 2);
  mark(rule.results[0], 4);
  std::array<double, 3> mnk{1, 1, 1};
  bool contracts = false;
  for (std::size_t f = 0; f < sizes.size(); ++f) {
    if (in[f] == (1 | 4)) mnk[0] *= static_cast<double>(sizes[f]);
    if (in[f] == (2 | 4)) mnk[1] *= static_cast<double>(sizes[f]);
    if (in[f] == (1 | 2)) mnk[2] *= static_cast<double>(sizes[f]);
    contracts = contracts || in[f] == (1 | 2);
  }
  if (!contracts || mnk[0] * mnk[1] <= 1) return {};
  return mnk;
}

/// FLOP/s at m, n and k, interpolated between the eight measured shapes around them.
double rate_at(const MeasuredRates::Products& products, const std::array<double, 3>& mnk) {
  const std::size_t n = products.sizes.size();
  std::array<LogPosition, 3> at;
  for (int d = 0; d < 3; ++d) at[d] = log_position(products.sizes, mnk[d]);
  double log_rate = 0;
  for (int corner = 0; corner < 8; ++corner) {
    double weight = 1;
    std::size_t index = 0;
    for (int d = 0; d < 3; ++d) {
      const bool above = corner >> d & 1;
      weight *= above ? at[d].share : 1 - at[d].share;
      index = index * n + (above ? at[d].above : at[d].below);
    }
    if (weight > 0) log_rate += weight * std::log2(products.flops_per_second[index]);
  }
  return std::exp2(log_rate);
}

/// The share of the full rate that a product of this shape reaches; 1 for other operators.
double share_of_rate(const DeviceModel& device, std::optional<DType> dtype, const Rule& rule,
                     const std::vector<std::int64_t>& sizes) {
  if (!dtype || !device.half_rate_size.contains(*dtype)) return 1;
  const auto mnk = product_sizes(rule, sizes);
  if (!mnk) return 1;
  const double c = device.half_rate_size.at(*dtype);
  return (*mnk)[0] / ((*mnk)[0] + c) * (*mnk)[1] / ((*mnk)[1] + c);
}

double loop_rate(const DeviceModel& device, double bytes) {
  const std::vector<double>& rates = device.measured.loop_bytes_per_second;
  if (rates.empty()) return device.memory_bytes_per_second;
  const LogPosition at = log_position(device.measured.loop_bytes, bytes);
  const double below = rates[at.below], above = rates[at.above];
  return std::exp2(std::log2(below) * (1 - at.share) + std::log2(above) * at.share);
}

/// What attention's scores take on their way through memory, without a fused kernel.
double unfused_seconds(const Rule& rule, const std::vector<std::int64_t>& sizes,
                       std::span<const TensorType> operands, const CostModel& model) {
  // Five products in the gradient for two ahead.
  const double passes = model.software.attention_passes * (is_attention_grad(rule) ? 2.5 : 1);
  if (rule.scores.empty() || passes <= 0) return 0;
  const double bytes =
      passes * product(rule.scores, sizes) * static_cast<double>(size_of(operands.front().dtype));
  const double bandwidth = loop_rate(model.device, bytes);
  return bandwidth > 0 ? bytes / bandwidth : 0;
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
  model.reshard.collectives.links = HostLinks::of(cluster);
  model.software = cluster.software;
  return model;
}

double operator_seconds(const Rule& rule, std::span<const int> factor_of_axis,
                        std::span<const TensorType> operands, std::span<const TensorType> results,
                        const DeviceMesh& mesh, const CostModel& model,
                        std::optional<double> moved) {
  const std::vector<std::int64_t> sizes = local_factor_sizes(rule, factor_of_axis, mesh);
  const double bytes =
      moved ? *moved : bytes_read(rule, operands, sizes) + bytes_written(rule, results, sizes);
  const std::optional<DType> dtype = computed_type(operands, results);
  if (dtype && model.device.measured.products.contains(*dtype))
    if (const auto mnk = product_sizes(rule, sizes))
      return flops(rule, sizes) / rate_at(model.device.measured.products.at(*dtype), *mnk) +
             model.device.launch_seconds;
  const double rate =
                   flop_rate(model, rule, dtype) * share_of_rate(model.device, dtype, rule, sizes),
               bandwidth = loop_rate(model.device, bytes);
  const double compute = rate > 0 ? flops(rule, sizes) / rate : 0,
               memory = bandwidth > 0 ? bytes / bandwidth : 0;
  return std::max(compute, memory) + unfused_seconds(rule, sizes, operands, model) +
         model.device.launch_seconds;
}

LeastSeconds least_operator_seconds(const Rule& rule, std::span<const TensorType> operands,
                                    std::span<const TensorType> results, int most_devices,
                                    const CostModel& model, double moved) {
  const DeviceModel& device = model.device;
  std::vector<std::int64_t> sizes;
  for (const Factor& factor : rule.factors) sizes.push_back(factor.size);
  const std::optional<DType> dtype = computed_type(operands, results);
  const auto mnk = product_sizes(rule, sizes);
  double rate = flop_rate(model, rule, dtype), bandwidth = device.memory_bytes_per_second;
  for (double measured : device.measured.loop_bytes_per_second)
    bandwidth = std::max(bandwidth, measured);
  if (mnk && dtype && device.measured.products.contains(*dtype)) {
    for (double measured : device.measured.products.at(*dtype).flops_per_second)
      rate = std::max(rate, measured);
    bandwidth = 0;                                           // the rates hold for the whole product
  } else if (mnk && (*mnk)[0] * (*mnk)[1] > most_devices) {  // parts are products, too
    rate *= share_of_rate(device, dtype, rule, sizes);
  }
  const double compute = rate > 0 ? flops(rule) / rate : 0,
               memory = bandwidth > 0 ? moved / bandwidth : 0;
  return {std::max(compute, memory), device.launch_seconds};
}

double operator_bytes(const Rule& rule, std::span<const int> factor_of_axis,
                      std::span<const TensorType> operands, std::span<const TensorType> results,
                      const DeviceMesh& mesh) {
  const std::vector<std::int64_t> sizes = local_factor_sizes(rule, factor_of_axis, mesh);
  return bytes_read(rule, operands, sizes) + bytes_written(rule, results, sizes);
}

}  // namespace alpa::cost
