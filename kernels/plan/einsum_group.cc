// kernels/plan/einsum_group.cc — the members of calls of einsum_group
#include "kernels/plan/einsum_group.h"

#include "alpa/base/error.h"

namespace alpa {

EinsumGroup einsum_group_of(const Attributes& attributes) {
  const EinsumGroup group{static_cast<std::size_t>(attributes.integer("members")),
                          parse_epilogue(attributes.string("epilogue"))};
  invariant(group.members > 1 && !group.epilogue.has_kept(),
            "einsum_group of {} members with epilogue \"{}\"", group.members,
            to_string(group.epilogue));
  return group;
}

std::vector<TensorRow> rows_of(const EinsumGroup& group) {
  const std::size_t n = group.members;
  std::vector<TensorRow> rows = {{false, 1, n}};
  if (group.epilogue.bias) rows.push_back({false, rows.back().first + n, n});
  if (group.epilogue.add) rows.push_back({false, rows.back().first + n, n});
  rows.push_back({true, 0, n});
  if (group.epilogue.sums_of >= 0) rows.push_back({true, n, n});
  return rows;
}

std::vector<std::size_t> tensors_of_member(const EinsumGroup& group, std::size_t member,
                                           bool results) {
  std::vector<std::size_t> tensors;
  if (!results) tensors.push_back(0);
  for (const TensorRow& row : rows_of(group))
    if (row.results == results) tensors.push_back(row.first + member);
  return tensors;
}

MemberCalls::MemberCalls(const EinsumGroup& group, const KernelCall& call) {
  for (std::size_t m = 0; m < group.members; ++m) {
    inputs_.push_back(tensors_of_member(group, m, false));
    outputs_.push_back(tensors_of_member(group, m, true));
    KernelCall& member = calls.emplace_back();
    for (std::size_t i : inputs_[m]) member.inputs.push_back(call.inputs.at(i));
    for (std::size_t o : outputs_[m]) member.outputs.push_back(call.outputs.at(o));
    member.attributes = call.attributes;
    member.threads = call.threads;
  }
}

std::vector<KernelCall>& MemberCalls::of(const KernelCall& call) {
  for (std::size_t m = 0; m < calls.size(); ++m) {
    KernelCall& member = calls[m];
    for (std::size_t i = 0; i < member.inputs.size(); ++i)
      member.inputs[i].data = call.inputs[inputs_[m][i]].data;
    for (std::size_t o = 0; o < member.outputs.size(); ++o)
      member.outputs[o].data = call.outputs[outputs_[m][o]].data;
    member.step = call.step;
    member.team = call.team;
    member.workspace = call.workspace;
  }
  return calls;
}

std::optional<std::int64_t> distance_in(const KernelCall& call, const TensorRow& row) {
  const std::vector<KernelTensor>& tensors = row.results ? call.outputs : call.inputs;
  const std::byte* const first = tensors.at(row.first).data;
  if (first == nullptr) return std::nullopt;
  const std::int64_t distance = tensors.at(row.first + 1).data - first;
  if (distance < tensors[row.first].type.bytes()) return std::nullopt;
  for (std::size_t i = 1; i < row.count; ++i)
    if (tensors.at(row.first + i).data != first + static_cast<std::int64_t>(i) * distance)
      return std::nullopt;
  return distance;
}

}  // namespace alpa
