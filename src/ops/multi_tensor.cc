// src/ops/multi_tensor.cc — updates parameters with Adam (Kingma and Ba 2015, algorithm 1), or with
// AdamW if "decoupled": (w, m, v, gradient) -> (w, m, v) per parameter; shared: learning_rate,
// step. And with momentum (Sutskever et al. 2013): (w, velocity, gradient) -> (w, velocity);
// shared: learning_rate. Those named `_copy` make w in element type "copy", too.
#include <initializer_list>

#include "alpa/base/error.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/members.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Copies are narrower; those of f64 may be f64, so that a step has a form all in f64.
bool may_copy(DType parameter, DType copy) {
  return is_floating(copy) &&
         (size_of(copy) < size_of(parameter) || (copy == f64 && parameter == f64));
}

/// Types of the states of all members and, if the operator makes copies, of those: "copy", which w
/// must be wider than. Throws Error unless all operands are floating, and Bug unless the node has
/// the attributes that its kernel reads.
std::vector<DType> state_dtypes(const OpQuery& query, std::initializer_list<const char*> reals,
                                const char* flag) {
  const Members& members = *query.op->members;
  const std::size_t states = num_members(*query.op, query.operands.size()) * members.each;
  std::vector<DType> dtypes;
  for (const TensorType& type : query.operands) {
    if (!is_floating(type.dtype))
      fail("{}: {} is not a floating type ({})", query.op->name, to_string(type),
           to_string(query.operands));
    if (dtypes.size() < states) dtypes.push_back(type.dtype);
  }
  if (members.copies) {
    const DType copy = query.attributes.dtype("copy");
    for (std::size_t w = 0; w < states; w += members.each)
      if (!may_copy(dtypes[w], copy))
        fail("{}: a {} parameter has no copy in {}, which is not narrower", query.op->name,
             name_of(dtypes[w]), name_of(copy));
    dtypes.insert(dtypes.end(), states / members.each, copy);
  }
  for (const char* name : reals) query.attributes.real(name);
  query.attributes.integer(flag);
  return dtypes;
}

std::vector<DType> adam_dtypes(const OpQuery& query) {
  return state_dtypes(query, {"beta1", "beta2", "epsilon", "weight_decay"}, "decoupled");
}

std::vector<DType> sgd_dtypes(const OpQuery& query) {
  return state_dtypes(query, {"momentum", "weight_decay"}, "nesterov");
}

OpDef with_copies(OpDef op, std::string_view name, std::string_view dims) {
  op.name = name, op.dims = dims, op.members->copies = true;
  return op;
}

}  // namespace

const OpDef ops::multi_tensor_adam = {
    .name = "multi_tensor_adam",
    .dims = "..., ..., ..., ..., , -> ..., ..., ...",
    .result_dtypes = adam_dtypes,
    .flops_per_point = 14,
    .in_place = InPlace::paired,
    .members = Members{.each = 3, .gradients = true, .shared = 2},
    .cpu = &cpu::multi_tensor_adam,
};

const OpDef ops::multi_tensor_adam_copy = with_copies(
    multi_tensor_adam, "multi_tensor_adam_copy", "..., ..., ..., ..., , -> ..., ..., ..., ...");

const OpDef ops::multi_tensor_sgd = {
    .name = "multi_tensor_sgd",
    .dims = "..., ..., ..., -> ..., ...",
    .result_dtypes = sgd_dtypes,
    .flops_per_point = 6,
    .in_place = InPlace::paired,
    .members = Members{.each = 2, .gradients = true, .shared = 1},
    .cpu = &cpu::multi_tensor_sgd,
};

const OpDef ops::multi_tensor_sgd_copy =
    with_copies(multi_tensor_sgd, "multi_tensor_sgd_copy", "..., ..., ..., -> ..., ..., ...");

}  // namespace alpa
