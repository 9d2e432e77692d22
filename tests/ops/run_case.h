#pragma once
/// Operands and results of the rows of the case table.
#include <random>

#include "alpa/base/error.h"
#include "alpa/mesh/device_mesh.h"
#include "cases.h"
#include "kernels/kernel_call.h"

namespace alpa::testing::cases {

using alpa::testing::HostTensor;

/// Reproducible elements in the operand's range, whole numbers for integer types.
inline HostTensor draw(const Operand& operand, unsigned seed) {
  HostTensor tensor(operand.type);
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> real(operand.low, operand.high);
  std::uniform_int_distribution<int> whole(static_cast<int>(operand.low),
                                           static_cast<int>(operand.high));
  for (std::int64_t i = 0; i < operand.type.elements(); ++i)
    tensor.put(i, alpa::is_floating(operand.type.dtype) ? real(generator) : whole(generator));
  return tensor;
}

inline std::vector<HostTensor> draw_operands(const Case& row) {
  std::vector<HostTensor> operands;
  for (const Operand& operand : row.operands)
    operands.push_back(draw(operand, 17 + static_cast<unsigned>(operands.size())));
  return operands;
}

inline std::vector<TensorType> operand_types(const Case& row) {
  std::vector<TensorType> types;
  for (const Operand& operand : row.operands) types.push_back(operand.type);
  return types;
}

inline alpa::Rule rule_of(const Case& row) {
  const std::vector<TensorType> types = operand_types(row);
  return alpa::rule_of(*row.op, {types, row.attributes});
}

inline std::vector<TensorType> result_types(const Case& row) {
  const std::vector<TensorType> types = operand_types(row);
  return alpa::result_types(*row.op, {types, row.attributes});
}

/// The CPU kernel on whole tensors.
inline std::vector<HostTensor> run_unsplit(const Case& row,
                                           const std::vector<HostTensor>& operands) {
  std::vector<HostTensor> results;
  for (const TensorType& type : result_types(row)) results.emplace_back(type);
  return alpa::testing::run_kernel(
      *row.op->cpu, operands, results,
      {.attributes = row.attributes, .step = {.seed = 5, .step = 2, .micro_batch = 1}});
}

inline Tensor to_reference(const HostTensor& tensor) {
  Tensor result{tensor.type.shape, {}};
  for (std::int64_t i = 0; i < tensor.type.elements(); ++i) result.data.push_back(tensor.get(i));
  return result;
}

inline std::vector<Tensor> to_reference(const std::vector<HostTensor>& tensors) {
  std::vector<Tensor> result;
  for (const HostTensor& tensor : tensors) result.push_back(to_reference(tensor));
  return result;
}

/// True for rows that have an own kernel (all but graph inputs).
inline bool is_computed(const Case& row) { return row.op->cpu != nullptr; }

/// Meshes under which every way to split an operator is tried.
inline std::vector<DeviceMesh> meshes() {
  const auto axis = [](const char* name, int size) { return MeshAxis{name, size, 0, 0}; };
  return {DeviceMesh({axis("x", 2)}), DeviceMesh({axis("x", 3)}), DeviceMesh({axis("x", 4)}),
          DeviceMesh({axis("x", 2), axis("y", 2)}), DeviceMesh({axis("x", 3), axis("y", 2)})};
}

}  // namespace alpa::testing::cases
