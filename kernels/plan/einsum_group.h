#pragma once
/// Calls of operator einsum_group, for every backend: products of equal equations, epilogues and
/// types that share their first operand. Operands: the shared one, then the second one of every
/// member, then its bias, then its addend. Results: the products, then the sums. Attributes are
/// those of einsum_epilogue, and "members".
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/plan/epilogue.h"
#include "src/tensor/kernel.h"

namespace alpa {

struct EinsumGroup {
  std::size_t members = 0;
  Epilogue epilogue;  ///< of every member; may be none
};

/// Throws Bug unless the attributes are those of a group.
EinsumGroup einsum_group_of(const Attributes& attributes);

/// Tensors of one kind, one of every member: operands or results of a call from `first` on.
struct TensorRow {
  bool results = false;
  std::size_t first = 0, count = 0;

  bool operator==(const TensorRow&) const = default;
};

/// All tensors of a call but the shared operand.
std::vector<TensorRow> rows_of(const EinsumGroup& group);

/// The operands, or the results, of one member among those of the call, in the order of
/// einsum_epilogue.
std::vector<std::size_t> tensors_of_member(const EinsumGroup& group, std::size_t member,
                                           bool results);

/// What computes one member each, built with the call. Belongs to the thread that runs the call.
class MemberCalls {
 public:
  MemberCalls(const EinsumGroup& group, const KernelCall& call);

  /// The members' calls with the data pointers of `call`, its team, step and workspace; allocates
  /// nothing.
  std::vector<KernelCall>& of(const KernelCall& call);

  std::vector<KernelCall> calls;

 private:
  std::vector<std::vector<std::size_t>> inputs_, outputs_;  ///< by member
};

/// Bytes from each tensor of a row to the next, if they are the same everywhere and no two tensors
/// have common bytes; nullopt otherwise, and where data pointers are null.
std::optional<std::int64_t> distance_in(const KernelCall& call, const TensorRow& row);

}  // namespace alpa
