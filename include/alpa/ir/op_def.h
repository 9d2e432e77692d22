#pragma once
/// One record per operator: everything the framework knows about it stands in one `OpDef`, in the operator's file.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/base/attributes.h"
#include "alpa/base/shape.h"
#include "alpa/ir/reshard_kind.h"
#include "alpa/ir/rule.h"

namespace alpa {

class Builder;
struct Node;
struct Value;
struct KernelDef;
using Values = std::vector<Value>;

struct OpDef;

/// What a rule may depend on: the node's operand types and attributes, and the operator itself (filled in by `rule_of`), so that
/// a family of operators can share one rule function.
struct OpQuery {
  std::span<const TensorType> operands;
  const Attributes& attributes;
  const OpDef* op = nullptr;
};

/// What the planner and the scheduler of collectives take a node's work for.
enum class Work : std::uint8_t {
  normal,  ///< priced by its FLOPs and bytes
  free,    ///< none: neither computes nor moves data, or is done once when a program is loaded
  heavy,   ///< as normal; most of a step's time goes here, and splitting it as far as possible pays
};

/// Whether a result may occupy the buffer of an operand of equal type that dies here.
enum class InPlace : std::uint8_t {
  none,
  paired,  ///< result i that of operand i
  any,     ///< each result that of any operand: an element of every operand is read before it is written
};

/// A node that stands for n nodes of operator `single`, its members. Operands are the first `each` of every member, one member
/// after the other; then, if `gradients`, the next one of every member; then those that all members share. Results are the
/// members' results in the same order, `each` of every member.
struct Members {
  const OpDef* single = nullptr;
  std::size_t each = 1;
  bool gradients = false;
  std::size_t shared = 0;
};

struct OpDef {
  std::string_view name;
  /// Index notation, operands -> results, e.g. "...c!, c -> ...c": `...` any dimensions, the same in every tensor; `c!` must stay
  /// whole; a letter is summed into each result that lacks it; "(hd)" a compound dimension of which only the major letter can be split,
  /// into equal parts. A letter's extent comes from an operand or from the integer attribute of that name. Either this or `rule`.
  std::string_view dims = {};
  /// The rule where it depends on attributes or on broadcasting. Throws Error on a user's mistake, with the whole message.
  Rule (*rule)(const OpQuery&) = nullptr;
  /// Element types of the results; default: one result, the type of operand 0.
  std::vector<DType> (*result_dtypes)(const OpQuery&) = nullptr;
  double flops_per_point = 0;                ///< used with `dims`, and by rule functions of families
  std::vector<std::uint32_t> linear = {};    ///< likewise; see Rule::linear
  /// Gradient: one value per operand (id -1: no gradient), given the gradient of every result: an empty Value where the loss
  /// does not depend on it; at least one is there. Null: not differentiable.
  Values (*vjp)(Builder&, const Node&, const Values& dys) = nullptr;
  /// Code of the elementwise formula in kernels/elementwise.h (-1: not elementwise). Elementwise nodes can be fused.
  int elementwise = -1;
  /// The code where it depends on attributes; `elementwise` is then that of some attributes.
  int (*elementwise_of)(const Attributes&) = nullptr;
  /// The attributes hold an ElementwiseProgram, which says what becomes of partial sums in place of Rule::linear.
  bool elementwise_program = false;
  Work work = Work::normal;
  InPlace in_place = InPlace::none;
  /// The result is operand 0's bytes, under another type, wherever it has as many elements on a device: nothing runs there.
  bool alias = false;
  /// How the node changes its operands' layout on the mesh, if that is all it does. No backend has a kernel for it.
  std::optional<ReshardKind> reshard = {};
  /// What the node stands for, if it stands for several.
  std::optional<Members> members = {};
  /// The CPU's kernel. Those of CUDA stand in kernels/cuda/kernels.h, as CUDA's library has records of its own.
  const KernelDef* cpu = nullptr;
};

/// The rule of a node of operator `op`, from its notation or its rule function. Throws Error on bad operands.
Rule rule_of(const OpDef& op, const OpQuery& query);

/// Types of the results. Throws Error on bad operands.
std::vector<TensorType> result_types(const OpDef& op, const OpQuery& query);

/// "f32[8, 768], f32[768]", for messages.
std::string to_string(std::span<const TensorType> types);

}  // namespace alpa
