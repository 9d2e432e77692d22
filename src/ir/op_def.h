#pragma once
/// One record per operator: an `OpDef` in the operator's file holds everything the
/// framework knows about it.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/base/attributes.h"
#include "alpa/base/shape.h"
#include "alpa/mesh/collective.h"
#include "src/ir/rule.h"

namespace alpa {

class Recorder;
struct Node;
struct Value;
struct KernelDef;
struct OpDefinition;

struct OpDef;
enum class ReshardKind : std::uint8_t;  // alpa/mesh/collective.h

/// Arguments of a rule: operand types and attributes of the node, and the operator itself (set by
/// `rule_of`), so that a family of operators can share one rule function.
struct OpQuery {
  std::span<const TensorType> operands;
  const Attributes& attributes;
  const OpDef* op = nullptr;
};

/// A node's work, as the planner and the scheduler of collectives see it.
enum class Work : std::uint8_t {
  normal,  ///< priced by its FLOPs and bytes
  free,    ///< none: neither computes nor moves data, or runs once when a program is loaded
  /// priced as normal; takes most of a step's time, so it should be split as far as possible
  heavy,
};

/// Rule by which results may reuse the buffers of operands of equal type whose last use is this
/// node.
enum class InPlace : std::uint8_t {
  none,
  paired,  ///< result i may reuse operand i's buffer
  /// result 0 may reuse the last operand's buffer; of a node with attribute "members", so many
  /// results the buffers of as many last operands, in order
  last,
  any,  ///< a result may reuse any operand's buffer: each element is read before it is written
};

/// Operands of a variadic operator, whose nodes have one or more members of equal attributes. A
/// node has the first `each` operands of every member, member by member; then, if `gradients`, the
/// next operand of every member; then the `shared` operands of all. It has `each` results of every
/// member, in the same order; then, if `copies`, one more of every member.
struct Members {
  std::size_t each = 1;
  bool gradients = false;
  bool copies = false;
  std::size_t shared = 0;
};

/// The summed letter that the CPU kernel can sum in chunks, for sums of one order.
enum class ChunkedSum : std::uint8_t {
  none,
  rows,         ///< the first of operand 0, which is the first of every operand that has it
  contraction,  ///< the first of operand 0's that result 0 lacks
};

struct OpDef {
  std::string_view name;
  /// Index notation, operands -> results, e.g. "...c!, c -> ...c": `...` any dimensions, the
  /// same in every tensor; `c!` cannot be split; a letter is summed into each result that lacks
  /// it; "(hd)" is a compound dimension, of which only the major letter can be split, into
  /// equal parts. A letter's extent comes from an operand or from the integer attribute of that
  /// name. Either this or `rule`.
  std::string_view dims = {};
  /// The rule, if it depends on attributes or on broadcasting. Throws Error on a user's
  /// mistake, with the whole message.
  Rule (*rule)(const OpQuery&) = nullptr;
  /// Element types of the results; default: one result, the type of operand 0.
  std::vector<DType> (*result_dtypes)(const OpQuery&) = nullptr;
  /// used with `dims`, and by rule functions of families
  double flops_per_point = 0;
  std::vector<std::uint32_t> linear = {};  ///< used with `dims`, as above; see Rule::linear
  /// Gradient: one value per operand (id -1: no gradient), given the gradients of the results. A
  /// result on which the loss does not depend has an empty Value; at least one is not empty.
  /// Null: not differentiable.
  std::vector<Value> (*vjp)(Recorder&, const Node&, const std::vector<Value>& dys) = nullptr;
  /// Code of the elementwise formula in kernels/elementwise.h (-1: not elementwise).
  /// Elementwise nodes can be fused.
  int elementwise = -1;
  /// The code where it depends on attributes; `elementwise` is then that of some attributes.
  int (*elementwise_of)(const Attributes&) = nullptr;
  /// The attributes hold an ElementwiseProgram, which replaces Rule::linear for partial sums.
  bool elementwise_program = false;
  Work work = Work::normal;
  InPlace in_place = InPlace::none;
  InPlace (*in_place_of)(const Attributes&) = nullptr;  ///< where it depends on attributes
  /// The result has operand 0's bytes under another type. No kernel runs on a device where both
  /// have equally many elements.
  bool alias = false;
  /// For operators that only change a layout on the mesh: the kind of change. They have no kernel.
  std::optional<CollectiveKind> reshard = {};
  /// For variadic operators: their operands. `dims` is then the notation of one member.
  std::optional<Members> members = {};
  ChunkedSum chunked = ChunkedSum::none;
  /// The CPU kernel. CUDA kernels are listed in kernels/cuda/kernels.h, because
  /// libalpa_cuda.so has its own records.
  const KernelDef* cpu = nullptr;
  /// Definition by the program (alpa/ops/custom.h), with its functions and CUDA launch; null:
  /// the library's own.
  const OpDefinition* custom = nullptr;
};

/// The rule of a node of operator `op`, from its notation or its rule function.
/// Throws Error on bad operands.
Rule rule_of(const OpDef& op, const OpQuery& query);

/// Rule by which results of the node may reuse buffers of its operands.
InPlace in_place(const Node& node);

/// Types of the results. Throws Error on bad operands.
std::vector<TensorType> result_types(const OpDef& op, const OpQuery& query);

/// "f32[8, 768], f32[768]", for messages.
std::string to_string(std::span<const TensorType> types);

}  // namespace alpa
