// src/ops/optimizer_types.cc — element types and settings of optimizer updates
#include "optimizer_types.h"

#include "alpa/base/error.h"
#include "src/ir/members.h"

namespace alpa::ops {
namespace {

/// Copies are narrower; those of f64 may be f64, so that a step has a form all in f64.
bool may_copy(DType parameter, DType copy) {
  return is_floating(copy) &&
         (size_of(copy) < size_of(parameter) || (copy == f64 && parameter == f64));
}

}  // namespace

std::vector<DType> state_dtypes(const OpQuery& query) {
  const std::size_t states =
      num_members(*query.op, query.operands.size()) * query.op->members->each;
  std::vector<DType> dtypes;
  for (const TensorType& type : query.operands) {
    if (!is_floating(type.dtype))
      fail("{}: {} is not a floating type ({})", query.op->name, to_string(type),
           to_string(query.operands));
    if (dtypes.size() < states) dtypes.push_back(type.dtype);
  }
  const Members& members = *query.op->members;
  if (!members.copies) return dtypes;
  const DType copy = query.attributes.dtype("copy");
  for (std::size_t w = 0; w < states; w += members.each)
    if (!may_copy(dtypes[w], copy))
      fail("{}: a {} parameter has no copy in {}, which is not narrower", query.op->name,
           name_of(dtypes[w]), name_of(copy));
  dtypes.insert(dtypes.end(), states / members.each, copy);
  return dtypes;
}

void require_settings(const OpQuery& query, std::initializer_list<const char*> reals,
                      const char* flag) {
  for (const char* name : reals) query.attributes.real(name);
  query.attributes.integer(flag);
}

}  // namespace alpa::ops
