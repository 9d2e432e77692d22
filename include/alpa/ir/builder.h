#pragma once
/// Records a graph. Models call operators on `Value`s; each appends a node to the value's
/// builder. Preconditions are checked here, when the graph is built, never when it runs. Thread
/// rule: one thread per builder.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "alpa/ir/graph.h"
#include "alpa/ir/layer_names.h"

namespace alpa {

class Builder;
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
  friend class Builder;
  explicit BuilderHandle(std::shared_ptr<Builder*> shared) : shared_(std::move(shared)) {}
  Builder& get() const;

  std::shared_ptr<Builder*> shared_;
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
  enum class Kind : std::uint8_t { constant, normal, uniform } kind = Kind::constant;
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
  /// uniform in [low, high)
  static Initializer uniform(double low, double high) { return {Kind::uniform, low, high}; }
};

/// Parameters that start as 0 or as 1: `in.parameter("gain", {x.dim(-1)}, ones)`.
inline constexpr Initializer zeros{Initializer::Kind::constant, 0},
    ones{Initializer::Kind::constant, 1};

/// How parameters are kept and read while a graph is recorded, other than as they are asked for.
struct ParameterView {
  /// Element type of layers without an operand that says it.
  DType compute = f32;
  /// Parameters asked for in half precision are kept in f32 and converted by `cast` where read.
  bool f32_masters = false;
  /// Converts `x` to `to`; null where no conversion is needed.
  Value (*cast)(Value x, DType to) = nullptr;
};

/// Records a graph: nodes, inputs, updates and metrics.
class Builder {
 public:
  /// With `layer_per_node`, every forward node is a layer of its own, whatever `set_layer` says: a
  /// planner can group them later, and their gradients with them. Random streams stay as they are.
  explicit Builder(int num_micro_batches = 1, bool layer_per_node = false);
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// A new graph input. Throws Error if the name is taken.
  Value input(InputKind kind, const std::string& name, TensorType type, Initializer init = {});
  /// State input `name`, made at the first call; later calls return it (weight tying).
  /// `frozen`: training does not change it. Throws Error if the parameter exists with another
  /// type or another `frozen`.
  Value parameter(const std::string& name, TensorType type, Initializer init, bool frozen = false);
  /// Freezes a parameter made as trainable. Throws Error if it has an update, or if
  /// `parameter` is not a parameter.
  void freeze(Value parameter);
  /// Gives an input another name. Throws Error if the name is taken or `input` is not an input.
  void rename(Value input, const std::string& name);
  /// While true, new parameters are frozen.
  void set_freezing(bool freezing) { freezing_ = freezing; }
  bool freezing() const { return freezing_; }  ///< see `set_freezing`
  /// How parameters are kept from now on, and read.
  void set_parameter_view(ParameterView view) { view_ = std::move(view); }
  const ParameterView& parameter_view() const { return view_; }  ///< see `set_parameter_view`
  /// Optimizer state "<parameter's name>.<what>", initially zero; of the parameter's type unless
  /// `type` is given. Throws Error if `parameter` is not a parameter.
  Value optimizer_state(Value parameter, const std::string& what,
                        const std::optional<TensorType>& type = {});
  /// State of the step as a whole, such as a loss scale: not a parameter, nor that of one.
  Value step_state(const std::string& name, TensorType type, Initializer init);
  /// State `name` that belongs to `parameter`, such as a running mean: not trained, changed by
  /// `update` alone. Made at the first call; later calls return it. Throws Error if `parameter` is
  /// not a parameter, or the name is taken by something else.
  Value state_of(Value parameter, const std::string& name, TensorType type, Initializer init);
  /// Parameters that are not frozen (without other state), in the order of creation
  /// or of `order_parameters`.
  const std::vector<Value>& parameters() const { return parameters_; }
  /// Orders parameters, and numbers layers, by the order in which `roots` read them, operands from
  /// left to right. Without it, the order in `first(x) + second(x)` is up to the compiler.
  /// Parameters that no root reads come last.
  void order_parameters(const Values& roots);

  /// Appends a node; checks operands against the operator's rule. Throws Error on a user's mistake,
  /// and if the graph has as many nodes as a graph may hold (2^20).
  Values emit(const OpDef& op, const Values& operands, Attributes attributes = {});
  /// The same for operators with one result.
  Value emit_one(const OpDef& op, const Values& operands, Attributes attributes = {});

  /// Declares that `value` becomes the content of state or accumulator `input`. Throws Error if
  /// types differ or `input` already has an update.
  void update(Value input, Value value);
  const std::vector<Update>& updates() const { return updates_; }  ///< declared so far
  /// Whether `input` has an update.
  bool has_update(Value input) const { return updated_.count(input.id) > 0; }
  /// Changes the value that an earlier `update` of `input` declared. Throws Error if there is none
  /// or types differ.
  void replace_update(Value input, Value value);
  /// Reports a scalar after every step. Throws Error if `value` is not a
  /// scalar or the name is taken.
  void metric(const std::string& name, Value value);

  /// Region and layer of nodes appended from now on.
  void set_region(Region region) { region_ = region; }
  Region region() const { return region_; }      ///< of new nodes
  void set_layer(int layer) { layer_ = layer; }  ///< of new nodes; -1: none
  int layer() const { return layer_; }           ///< of new nodes; -1: none
  /// Begins the next layer. Forward nodes of no layer, which come before the
  /// first one, become layer 0.
  void end_layer();
  /// Begins a rematerialised layer: `gradient` computes the nodes appended until `end_remat` again
  /// instead of keeping their results. May be nested: an inner layer is then computed twice again.
  void begin_remat();
  void end_remat();  ///< ends the innermost open one
  /// Rematerialises only these layers, by their numbers in the order of recording (nested ones
  /// count with the outermost); none: all. To be set before they are recorded.
  void set_remat(std::optional<std::vector<int>> layers) { rematerialised_ = std::move(layers); }
  /// If no rematerialised layer was recorded, makes one of every layer (`set_layer`). Returns the
  /// number of rematerialised layers.
  int remat_layers_of_model();
  /// The rematerialised layers around a node, innermost first, as numbers of the builder; none if
  /// `gradient` is to keep its results.
  std::vector<int> remat_of(int node) const;
  /// Appends node `node` again, with other operands, in its layer.
  Values repeat(int node, const Values& operands);
  /// Number of the next sequence of random numbers (kStreamAttribute), different for every
  /// call. Each layer counts its own, so that its random numbers do not depend on the
  /// contents of other layers.
  std::int64_t next_stream();
  /// Opens the scope of a layer until `pop_scope`; nodes and parameters are named by its path.
  /// Throws Error, naming both, if another layer has this path.
  void push_layer(const LayerIdentity& layer);
  /// Opens a scope of the model, e.g. "encoder" or "blocks.3", in which layers are named.
  void push_path(std::string_view path) { names_.open(path); }
  /// Opens a scope for people, part of the names of nodes alone.
  void push_scope(std::string_view name) { names_.open_text(name); }
  void pop_scope() { names_.close(); }  ///< ends the last scope
  /// Path of the innermost scope, "blocks.3.attention"; "" outside of all.
  const std::string& scope_path() const { return names_.path(names_.innermost()); }
  /// The name of layer `number`, if it opens next, has none of its own and is new.
  void suggest_name(std::uintptr_t number, std::string_view name) { names_.suggest(number, name); }

  Value value(int id) { return {handle(), id}; }  ///< the value of this number
  /// operand `i` of a node
  Value operand(const Node& node, int i) { return value(node.operands.at(i)); }
  /// result `i` of a node
  Value result(const Node& node, int i = 0) { return value(node.results.at(i)); }
  /// stays valid while nodes are appended
  const Node& node(int id) const { return nodes_.at(id); }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }  ///< recorded so far
  /// of value number `value`
  const TensorType& type(int value) const { return values_.at(value).type; }
  int producer(int value) const { return values_.at(value).producer; }  ///< node of a value
  int num_micro_batches() const { return num_micro_batches_; }          ///< of a step
  /// False while an evaluation step is recorded: layers such as dropout then do nothing.
  void set_training(bool training) { training_ = training; }
  bool training() const { return training_; }  ///< see `set_training`

  /// The graph recorded so far, without nodes that no update, metric or output needs
  /// (inputs are kept); verified.
  Graph finish() const;

 private:
  friend void output(const std::string& name, Value value);  // train/training_step.h
  /// Declares that the step returns `value`, the result of an operator that leaves no partial sums.
  /// Throws Error if the name is taken.
  void add_output(const std::string& name, Value value);
  BuilderHandle handle() const { return BuilderHandle(self_); }
  /// Numbers unnamed layers by their first parameter in this order of inputs.
  void number_layers(const std::vector<int>& order);
  /// "dense ("head.kernel" f32[8, 2])": the layer of a scope, for messages.
  std::string describe_layer(int scope) const;
  /// Nodes with the inputs of parameters in their order; inputs that are out of order move forward.
  std::vector<Node> ordered_nodes() const;
  /// Notes the layer, if it is the innermost scope, that made the last input.
  void note_layer();
  /// The record of an input of this builder, or nullptr.
  const Input* input_of(Value value) const;
  /// Puts a node that is about to be appended into the open rematerialised layer.
  void enter_remat(Node& node);
  int outermost_remat(int layer) const;
  /// Whether `gradient` computes the nodes of outermost layer `number` again.
  bool is_rematerialised(int number) const;
  /// `parameter` of a given type and without a view.
  Value stored_parameter(const std::string& name, TensorType type, Initializer init, bool frozen);

  std::shared_ptr<Builder*> self_;  ///< holds null once the builder is gone
  std::deque<Node> nodes_;
  std::deque<ValueInfo> values_;
  std::vector<Input> inputs_;
  std::vector<Update> updates_;
  std::set<int> updated_;  ///< values of the inputs that have an update
  std::vector<Metric> metrics_;
  std::vector<Output> outputs_;
  std::vector<Value> parameters_;
  ParameterView view_;
  /// conversions of parameters, by parameter, element type and layer
  std::map<std::tuple<int, DType, int>, Value> converted_;
  std::map<std::string, int, std::less<>> input_by_name_;
  LayerNames names_;
  std::map<int, int> layer_of_input_;  ///< scopes of layers, by number of an input that they made
  std::vector<int> parameter_order_;   ///< values; empty: as made
  std::int64_t total_bytes_ = 0;       ///< of all values
  Region region_ = Region::forward;
  int layer_ = -1;
  /// A rematerialised layer: the one around it (-1: none), and the number of the outermost.
  struct RematLayer {
    int around = -1, number = -1, first_node = -1;
  };
  std::vector<RematLayer> remat_layers_;
  int remat_ = -1, num_remat_ = 0;  ///< innermost open one; outermost ones so far
  std::vector<int> remat_of_node_;  ///< innermost, by node; -1: none
  std::optional<std::vector<int>> rematerialised_;
  std::map<int, std::int64_t> streams_;  ///< drawn so far, by layer
  int num_micro_batches_;
  bool layer_per_node_;
  bool training_ = true, freezing_ = false;
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
/// Nodes appended during its lifetime are in this region.
using RegionScope = BuilderScope<Region, &Builder::region, &Builder::set_region>;
/// Nodes appended during its lifetime are a rematerialised layer: `gradient` keeps only what they
/// read from outside, and computes them again just before it needs their results. Random numbers
/// are the same then, and updates happen once (Chen et al. 2016, arXiv 1604.06174).
class RematScope {
 public:
  explicit RematScope(Builder& builder) : builder_(builder) { builder.begin_remat(); }
  ~RematScope() { builder_.end_remat(); }
  RematScope(const RematScope&) = delete;
  RematScope& operator=(const RematScope&) = delete;

 private:
  Builder& builder_;
};
/// Parameters made during its lifetime are frozen, if true.
using FreezingScope = BuilderScope<bool, &Builder::freezing, &Builder::set_freezing>;

}  // namespace alpa
