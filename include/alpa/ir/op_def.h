#pragma once
/// One record per operator: everything the framework knows about it stands in one `OpDef`, in the operator's file.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/base/attributes.h"
#include "alpa/base/shape.h"
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
  /// A result may occupy the buffer of an operand of equal type that dies here.
  bool in_place = false;
  const KernelDef* cpu = nullptr;
  const KernelDef* cuda = nullptr;
};

/// The rule of a node of operator `op`, from its notation or its rule function. Throws Error on bad operands.
Rule rule_of(const OpDef& op, const OpQuery& query);

/// Types of the results. Throws Error on bad operands.
std::vector<TensorType> result_types(const OpDef& op, const OpQuery& query);

/// "f32[8, 768], f32[768]", for messages.
std::string to_string(std::span<const TensorType> types);

}  // namespace alpa
