#pragma once
/// The one kind of `Builder`: what the library itself records with, beside what models see of it.
/// Thread rule: one thread per recorder.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "alpa/ir/builder.h"
#include "src/ir/layer_names.h"

namespace alpa {

/// Types in which parameters are kept and read while a graph is recorded, where they differ from
/// the types asked for.
struct ParameterView {
  /// Element type of layers without an operand that says it.
  DType compute = f32;
  /// Parameters asked for in half precision are kept in f32 and converted by `cast` where read.
  bool f32_masters = false;
  /// Converts `x` to `to`; null where no conversion is needed.
  Value (*cast)(Value x, DType to) = nullptr;
};

/// Records a graph: nodes, inputs, updates and metrics. Every Builder is one.
class Recorder final : public Builder {
 public:
  /// With `layer_per_node`, every forward node is a layer of its own, whatever `set_layer` says: a
  /// planner can group them later, and their gradients with them. Random streams stay as they are.
  explicit Recorder(int num_micro_batches = 1, bool layer_per_node = false);
  ~Recorder();

  Value input(InputKind kind, const std::string& name, TensorType type,
              Initializer init = {}) override;
  Value parameter(const std::string& name, TensorType type, Initializer init) override;
  /// Freezes a parameter: nothing may update it. Throws Error if it has an update, or if
  /// `parameter` is not a parameter.
  void freeze(Value parameter);
  /// Says which parameters `freeze_named` will freeze, for layers that work otherwise then.
  void set_frozen_names(std::function<bool(std::string_view name)> frozen_names);
  /// True if `freeze_named` will freeze this parameter, if its layer keeps its number.
  bool will_freeze(const std::string& parameter);
  /// Freezes the parameters that `set_frozen_names` names. Throws Error if a layer was told
  /// otherwise, because it had another number then.
  void freeze_named();
  /// Says which layers get adapters. Throws Error if a number is out of range.
  void set_lora(std::optional<Lora> lora);
  /// The adapter of the Dense layer of this name, if it is a target.
  std::optional<Lora> lora_of(std::string_view layer);
  /// Says which Dense layers have quantised kernels.
  void set_quantized(std::vector<Quantized> quantized);
  /// The type of the quantised kernel of the Dense layer of this name, if it has one.
  std::optional<Quantization> quantization_of(std::string_view layer);
  /// Throws Error naming a pattern of `set_lora` or `set_quantized` that fits no layer.
  void check_layer_patterns() const;
  /// Gives an input another name. Throws Error if the name is taken or `input` is not an input.
  void rename(Value input, const std::string& name);
  /// Sets how parameters are kept and read from now on.
  void set_parameter_view(ParameterView view) { view_ = std::move(view); }
  const ParameterView& parameter_view() const { return view_; }  ///< see `set_parameter_view`

  Value optimizer_state(Value parameter, const std::string& what,
                        const std::optional<TensorType>& type = {}) override;
  Value step_state(const std::string& name, TensorType type, Initializer init) override;
  Value state_of(Value parameter, const std::string& name, TensorType type,
                 Initializer init) override;
  const Values& parameters() const override { return parameters_; }
  using Builder::parameters;
  /// Orders parameters, and numbers layers, by the order in which `roots` read them, operands from
  /// left to right. Without it, the order in `first(x) + second(x)` is up to the compiler.
  /// Parameters that no root reads come last.
  void order_parameters(const Values& roots);

  /// Appends a node; checks operands against the operator's rule. Throws Error on a user's mistake,
  /// and if the graph has as many nodes as a graph may hold (2^20).
  Values emit(const OpDef& op, const Values& operands, Attributes attributes = {});
  /// The same for operators with one result.
  Value emit_one(const OpDef& op, const Values& operands, Attributes attributes = {});

  void update(Value input, Value value) override;
  const std::vector<Update>& updates() const { return updates_; }  ///< declared so far
  bool has_update(Value input) const override { return updated_.count(input.id) > 0; }
  /// Changes the value that an earlier `update` of `input` declared. Throws Error if there is none
  /// or types differ.
  void replace_update(Value input, Value value);
  void metric(const std::string& name, Value value) override;

  void set_region(Region region) override { region_ = region; }
  Region region() const override { return region_; }
  void set_layer(int layer) override { layer_ = layer; }
  int layer() const override { return layer_; }
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
  int num_micro_batches() const override { return num_micro_batches_; }
  void set_training(bool training) override { training_ = training; }
  bool training() const override { return training_; }
  void set_cache(nn::KeyValueCache* cache) override { cache_ = cache; }
  nn::KeyValueCache* cache() const override { return cache_; }
  void set_documents(nn::Documents* documents) override { documents_ = documents; }
  nn::Documents* documents() const override { return documents_; }

  /// Ends the recording: the graph, without nodes that no update, metric or output needs (inputs
  /// are kept); verified. Values of this builder cannot be used any more.
  Graph finish();

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
  /// Takes the nodes, with the inputs of parameters in their order; inputs that are out of order
  /// move forward.
  std::vector<Node> take_ordered_nodes();
  /// Notes the layer, if it is the innermost scope, that made the last input.
  void note_layer();
  /// The record of an input of this builder, or nullptr.
  const Input* input_of(Value value) const;
  /// The region of a new node: that of `set_region`, or a later one that an operand comes from. A
  /// sum over micro-batches is there once per step.
  Region region_reading(const std::vector<int>& operands) const;
  /// Puts a node that is about to be appended into the open rematerialised layer.
  void enter_remat(Node& node);
  int outermost_remat(int layer) const;
  /// True if `gradient` computes the nodes of outermost layer `number` again.
  bool is_rematerialised(int number) const;
  /// `parameter` of a given type and without a view.
  Value stored_parameter(const std::string& name, TensorType type, Initializer init);

  std::shared_ptr<Recorder*> self_;  ///< holds null once the builder is gone
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
  bool training_ = true;
  nn::KeyValueCache* cache_ = nullptr;
  nn::Documents* documents_ = nullptr;
  std::function<bool(std::string_view name)> frozen_names_;
  std::optional<Lora> lora_;
  std::vector<bool> found_targets_;  ///< of `lora_`: those that a layer's name fits
  std::vector<Quantized> quantized_;
  std::vector<bool> found_quantized_;  ///< of `quantized_`, as `found_targets_`
  std::map<int, bool> told_frozen_;    ///< what `will_freeze` told, by the parameter's value
  std::set<int> sums_;                 ///< over micro-batches: values that update accumulators
};

/// The recorder of a graph, and of a value's.
inline Recorder& recorder(Builder& builder) { return static_cast<Recorder&>(builder); }
inline Recorder& recorder(Value x) { return recorder(*x.builder); }

}  // namespace alpa
