#pragma once
/// Recording of a graph. Models call operators on `Value`s; each appends a node to the value's
/// builder. Preconditions are checked when the graph is built, never when it runs. Thread rule: one
/// thread per builder.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alpa/ir/graph.h"
#pragma GCC visibility push(default)

namespace alpa {

namespace nn {
class KeyValueCache;  // alpa/nn/transformer.h
class Documents;
}  // namespace nn

class Builder;
class Recorder;  // the library's own: src/ir/recorder.h
struct Value;
using Values = std::vector<Value>;  ///< a list of tensors

/// A value's reference to its builder. It detects that the builder is gone, and never equals the
/// handle of another builder, even of a later one at the same address.
class BuilderHandle {
 public:
  BuilderHandle() = default;
  bool operator==(const BuilderHandle&) const = default;

  /// The builder. Throws Error if it is gone, because a Value outlived its trace.
  Builder& operator*() const { return get(); }
  Builder* operator->() const { return &get(); }

 private:
  friend class Recorder;
  explicit BuilderHandle(std::shared_ptr<Recorder*> shared) : shared_(std::move(shared)) {}
  Builder& get() const;

  std::shared_ptr<Recorder*> shared_;
};

/// A tensor of a graph under construction: a handle, cheap to copy.
struct Value {
  BuilderHandle builder;  ///< of the graph
  int id = -1;            ///< number in the graph; -1: no value

  const TensorType& type() const;                      ///< element type and shape
  const Shape& shape() const { return type().shape; }  ///< extents
  /// Extent of dimension `axis`; -1 is the last. Throws Error if there is no such dimension.
  std::int64_t dim(std::int64_t axis) const;
  DType dtype() const { return type().dtype; }  ///< element type
  int rank() const { return type().rank(); }    ///< number of dimensions
  explicit operator bool() const { return id >= 0; }
  /// The builder, so that a Value can stand for its graph: `iota(x, {i32, {x.dim(0)}})`.
  operator Builder&() const { return *builder; }
};

/// Initial content of a parameter. Every element is a function of (seed, parameter name, global
/// index), the same under every plan.
struct Initializer {
  /// the distribution
  enum class Kind : std::uint8_t { constant, normal, uniform, unset } kind = Kind::constant;
  double a = 0;  ///< constant: the value; normal: mean; uniform: low
  double b = 0;  ///< normal: standard deviation; uniform: high

  /// every element is `value`
  static Initializer constant(double value) { return {Kind::constant, value, 0}; }
  static Initializer zeros() { return constant(0); }  ///< every element is 0
  static Initializer ones() { return constant(1); }   ///< every element is 1
  /// Normally distributed.
  static Initializer normal(double mean, double standard_deviation) {
    return {Kind::normal, mean, standard_deviation};
  }
  /// None: the step itself writes what it reads. For `Builder::step_state` alone.
  static Initializer unset() { return {Kind::unset, 0, 0}; }
  /// uniform in [low, high)
  static Initializer uniform(double low, double high) { return {Kind::uniform, low, high}; }
};

/// Low-rank adapters (LoRA, Hu et al. 2021): a `nn::Dense` whose name fits a target also has the
/// parameters "lora_a" [in, rank] and "lora_b" [rank, features], initially zero, and adds
/// alpha / rank · (dropout(x) · lora_a) · lora_b to its result. No other parameters are trained.
struct Lora {
  /// Patterns of names of Dense layers, `*` matches any text: {"*.attention.*"}.
  std::vector<std::string> targets;
  std::int64_t rank = 8;  ///< width between the two products
  double alpha = 16;      ///< times rank⁻¹: the scale of what is added
  double dropout = 0;     ///< rate, of x ahead of the first product
};

/// Types of quantised kernels, those of ggml and GGUF files: blocks of 32 numbers in 34, 18 or 20
/// bytes. A number is scale · q, of q4_1 scale · q + least, where q has 8 or 4 bits.
enum class Quantization : std::uint8_t { q8_0, q4_0, q4_1 };

/// Dense layers whose kernels are kept quantised, and so frozen (QLoRA, Dettmers et al. 2023): u8
/// [features, in / 32, bytes of a block]. Products read the blocks. Loading weights quantises, or
/// takes a file's blocks of the same type as they are; before it, such kernels are 0.
struct Quantized {
  /// A pattern of names of Dense layers, `*` matches any text. The first one that fits a layer
  /// counts. A kernel whose `in` is no multiple of 32 stays as it is.
  std::string layers;
  Quantization type = Quantization::q8_0;  ///< of the blocks
};

/// Parameters that start as 0 or as 1: `in.parameter("gain", {x.dim(-1)}, ones)`.
inline constexpr Initializer zeros{Initializer::Kind::constant, 0},
    ones{Initializer::Kind::constant, 1};

/// The graph of a step while it is recorded, as models and custom steps see it. `Value`s convert to
/// it: `Builder& graph = x;`.
class Builder {
 public:
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// A new graph input, such as a number that the step is given (`InputKind::scalar`). Throws Error
  /// if the name is taken.
  virtual Value input(InputKind kind, const std::string& name, TensorType type,
                      Initializer init = {}) = 0;
  /// State input `name`, made at the first call; later calls return it (weight tying).
  /// Throws Error if the parameter exists with another type.
  virtual Value parameter(const std::string& name, TensorType type, Initializer init) = 0;
  /// Parameters that are not frozen (without other state), in the order of creation, or in that in
  /// which the loss reads them.
  virtual const Values& parameters() const = 0;
  /// The parameters whose whole name fits a pattern, in which `*` stands for any text:
  /// `parameters("generator.*")`. Throws Error, with their names, if there are none.
  Values parameters(std::string_view pattern) const;
  /// Optimizer state "<parameter's name>.<what>", initially zero; of the parameter's type unless
  /// `type` is given. Throws Error if `parameter` is not a parameter.
  virtual Value optimizer_state(Value parameter, const std::string& what,
                                const std::optional<TensorType>& type = {}) = 0;
  /// State of the step as a whole, such as a loss scale: not a parameter, nor that of one. If it is
  /// `Initializer::unset`, a step that follows another one may have it alone. Its content then
  /// lasts until a step runs that lacks it.
  virtual Value step_state(const std::string& name, TensorType type, Initializer init) = 0;
  /// State `name` that belongs to `parameter`, such as a running mean: not trained, changed by
  /// `update` alone. Made at the first call; later calls return it. Throws Error if `parameter` is
  /// not a parameter, or the name is taken by something else.
  virtual Value state_of(Value parameter, const std::string& name, TensorType type,
                         Initializer init) = 0;

  /// Declares that `value` becomes the content of state or accumulator `input`. Throws Error if
  /// types differ or `input` already has an update.
  virtual void update(Value input, Value value) = 0;
  /// Whether `input` has an update.
  virtual bool has_update(Value input) const = 0;
  /// Reports a scalar after every step. Throws Error if `value` is not a
  /// scalar or the name is taken.
  virtual void metric(const std::string& name, Value value) = 0;

  /// Region of nodes appended from now on. A node that reads the result of a later region belongs
  /// to that one: what is computed from a gradient is in region backward, what is computed from a
  /// mean or sum over micro-batches in region apply.
  virtual void set_region(Region region) = 0;
  virtual Region region() const = 0;  ///< of new nodes
  /// Layer of nodes appended from now on; -1: none.
  virtual void set_layer(int layer) = 0;
  virtual int layer() const = 0;              ///< of new nodes; -1: none
  virtual int num_micro_batches() const = 0;  ///< of a step
  /// False while an evaluation step is recorded: layers such as dropout then do nothing.
  virtual void set_training(bool training) = 0;
  virtual bool training() const = 0;  ///< see `set_training`
  /// Makes attention read earlier tokens in `cache` and add new ones to it; null: none.
  virtual void set_cache(nn::KeyValueCache* cache) = 0;
  virtual nn::KeyValueCache* cache() const = 0;  ///< see `set_cache`
  /// Makes attention see tokens of the same document alone; null: all.
  virtual void set_documents(nn::Documents* documents) = 0;
  virtual nn::Documents* documents() const = 0;  ///< see `set_documents`

 protected:
  Builder() = default;
  ~Builder() = default;
};

/// Changes one setting of a builder during its lifetime.
template <class T, T (Builder::*get)() const, void (Builder::*set)(T)>
class BuilderScope {
 public:
  BuilderScope(Builder& builder, T value) : builder_(builder), before_((builder.*get)()) {
    (builder.*set)(value);
  }
  ~BuilderScope() { (builder_.*set)(before_); }
  BuilderScope(const BuilderScope&) = delete;
  BuilderScope& operator=(const BuilderScope&) = delete;

 private:
  Builder& builder_;
  T before_;
};

/// Nodes appended during its lifetime belong to a layer of the model. So do their gradients, the
/// updates of parameters that only they read, and the nodes these need. Layers are numbered from 0.
using LayerScope = BuilderScope<int, &Builder::layer, &Builder::set_layer>;
/// Ends a layer of the model at `x`, and returns `x`: what is computed from now on belongs to the
/// next layer. Stages of `PipeshardParallel` begin and end at such boundaries.
Value mark_pipeline_boundary(Value x);
/// Nodes appended during its lifetime are in this region, or in a later one (`set_region`).
using RegionScope = BuilderScope<Region, &Builder::region, &Builder::set_region>;
/// Nodes appended during its lifetime are a rematerialised layer: `gradient` keeps only what they
/// read from outside, and computes them again just before it needs their results. Random numbers
/// are the same then, and updates happen once (Chen et al. 2016, arXiv 1604.06174).
class RematScope {
 public:
  explicit RematScope(Builder& builder);
  ~RematScope();
  RematScope(const RematScope&) = delete;
  RematScope& operator=(const RematScope&) = delete;

 private:
  Builder& builder_;
};

}  // namespace alpa
#pragma GCC visibility pop
