#pragma once
/// Operators of programs: defined once, outside of the library, then planned, split, verified and
/// run like its own. docs/own-operators.md has an example.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "alpa/ir/builder.h"
#pragma GCC visibility push(default)

namespace alpa {

struct OpDef;
class ThreadTeam;

/// One operand or result of a call: the part of a tensor that a device holds.
struct TensorView {
  void* data = nullptr;  ///< first element; null while scratch is planned
  TensorType type;       ///< of the part; an extent is 0 on a device that holds nothing
  Shape strides;         ///< elements from one index of a dimension to the next
  Shape offset;          ///< index of the first element in the whole tensor, per dimension
  Shape whole;           ///< extents of the whole tensor

  /// The first element. `T` is double for f64, float for f32, std::int32_t for i32, std::uint8_t
  /// for u8, and an integer of two bytes for bf16 and f16.
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// Element at a place in memory, of any element type, rounded to it when set. Slower than `as`.
  double get(std::int64_t place) const;
  void set(std::int64_t place, double value) const;  ///< as `get`
};

/// One call of an operator on one device.
struct OpCall {
  std::vector<TensorView> operands;  ///< to read
  std::vector<TensorView> results;   ///< to write, all of each
  Attributes attributes;             ///< of the node
  void* scratch = nullptr;           ///< `OpDefinition::scratch_bytes`, 64-byte aligned

  /// On the CPU: calls body(begin, end) for disjoint slices of [0, n), each at least `grain` long
  /// if n allows, on the threads of the device. Returns when all are done.
  void parallel_for(std::int64_t n, std::int64_t grain,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& body) const;

  ThreadTeam* team = nullptr;  ///< for `parallel_for`
};

/// Arguments of a gradient: Values of the graph, to compute with.
struct GradientCall {
  Values operands;  ///< of the node
  Values results;   ///< of the node
  /// Gradients of the results. A result on which the loss does not depend has an empty Value; at
  /// least one is not empty.
  Values result_gradients;
  Attributes attributes;  ///< of the node
};

/// Definition of an operator. Its functions may be called by several threads at a time.
struct OpDefinition {
  /// Letters, digits, `_` and dots, of which there is one at least: "shop.rms_norm". So it is never
  /// the name of an operator of the library. Graphs and plan files have it.
  std::string name;
  /// Index notation, operands -> results, e.g. "...c!, c! -> ...c!". Shapes, ways to split the
  /// operator, and its communication follow from it: a letter may be split over devices. `...` is
  /// any dimensions, the same in every tensor; `c!` is never split. Results are summed over a
  /// letter that they lack, so that each device may compute a partial sum. "(hd)" is one dimension,
  /// of which only the first letter can be split. The extent of a letter is that of an operand, or
  /// the integer attribute of that name.
  std::string dims;
  /// Element types of the results; default: that of operand 0. Throws Error for types that the
  /// operator does not take.
  std::function<std::vector<DType>(const std::vector<TensorType>& operands,
                                   const Attributes& attributes)>
      result_dtypes = {};
  /// Floating-point operations of the whole operator; default: one per combination of letters.
  std::function<double(const std::vector<TensorType>& operands, const Attributes& attributes)>
      flops = {};
  /// Bytes: per operand, letters whose extents multiply to the number of elements that are read, as
  /// in {"", "tc"} where operand 1 is a table. "" or absent: each element once. '.' is `...`.
  std::vector<std::string> reads = {};
  /// Sets of operands (bit i: operand i) in which the results are jointly linear: if exactly those
  /// are partial sums, so are the results. {0b01, 0b10} for a product.
  std::vector<std::uint32_t> linear = {};
  /// One Value per operand, of its type; empty: no gradient. Absent: not differentiable.
  std::function<Values(const GradientCall& call)> gradient = {};
  /// Computes the results on the CPU, of f64 too if `alpa verify` is to run it.
  std::function<void(const OpCall& call)> cpu = {};
  /// Queues the same on a CUDA stream (`cudaStream_t`); tensors and scratch are device memory.
  /// Allocates nothing and waits for nothing, as a step is captured. Absent: a step that has the
  /// operator is not loaded on CUDA devices.
  std::function<void(const OpCall& call, void* stream)> cuda = {};
  /// Bytes of `OpCall::scratch`, from types and attributes alone; default: none. A part of the
  /// planned memory.
  std::function<std::int64_t(const OpCall& call)> scratch_bytes = {};
  /// Raise it when what the functions compute changes: no plan made with another version is taken,
  /// and restoring a checkpoint saved with one tells so. Attribute "version" of the nodes; 0: none.
  int version = 0;
};

/// A defined operator: a handle, cheap to copy.
class CustomOp {
 public:
  /// The results, as new nodes of the operands' graph. Throws Error if operands do not fit `dims`.
  Values operator()(const Values& operands, Attributes attributes = {}) const;
  const OpDefinition& definition() const;  ///< as it was given

 private:
  friend CustomOp define_op(OpDefinition definition);
  friend void verify_op(const CustomOp& op, const std::vector<TensorType>& operands,
                        const Attributes& attributes);
  explicit CustomOp(const OpDef* record) : record_(record) {}
  const OpDef* record_;
};

/// Defines an operator for the rest of the program, in every process alike, before plans that have
/// it are read. Throws Error if the name is malformed or taken, `dims` is malformed, or there is no
/// CPU function.
CustomOp define_op(OpDefinition definition);

/// Runs the CPU function on random operands of these types, whole, and split in every way that
/// `dims` and `linear` allow over 2, 3 and 2x2 simulated devices. Integers are 0 or 1. Throws Error
/// naming operator, letter and result where parts put together differ from the whole, by more than
/// rounding. Letters of fewer elements than devices are not split: give types whose extents are 4
/// or more.
void verify_op(const CustomOp& op, const std::vector<TensorType>& operands,
               const Attributes& attributes = {});

/// The same of every operator of the graph that the program defined, with the types of its nodes.
/// Throws Error naming the first node that is wrong.
void verify_ops(const Graph& graph);

}  // namespace alpa
#pragma GCC visibility pop
