// src/ir/recorder.cc — records a graph: inputs, nodes, updates, metrics, scopes
#include "src/ir/recorder.h"

#include <algorithm>
#include <cmath>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "region_rules.h"
#include "src/base/name_table.h"
#include "src/base/wildcard.h"
#include "src/ir/early_sums.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/rewrite.h"

namespace alpa {
namespace {

std::string_view name_of(Initializer::Kind kind) {
  constexpr std::string_view kNames[] = {"constant", "normal", "uniform", "unset"};
  return name_in(kNames, kind, "initializer");
}

Attributes input_attributes(InputKind kind, const TensorType& type, const Initializer& init) {
  Attributes attributes{
      {"kind", std::string(name_of(kind))}, {"dtype", type.dtype}, {"shape", type.shape}};
  if (kind != InputKind::state) return attributes;
  attributes.set("init", std::string(name_of(init.kind)));
  attributes.set("a", init.a);
  attributes.set("b", init.b);
  return attributes;
}

}  // namespace

Builder& BuilderHandle::get() const {
  invariant(shared_ != nullptr, "an empty Value is used");
  require(*shared_ != nullptr,
          "a Value of an earlier trace is used, but its graph no longer exists; "
          "create Values each time the model is traced");
  return **shared_;
}

const TensorType& Value::type() const { return recorder(*this).type(id); }

std::int64_t Value::dim(std::int64_t axis) const {
  require(rank() > 0, "dim({}): {} is a scalar, which has no dimensions", axis, to_string(type()));
  require(axis >= -rank() && axis < rank(), "dim({}): {} has dimensions 0 to {}; -1 is the last",
          axis, to_string(type()), rank() - 1);
  return shape()[axis < 0 ? axis + rank() : axis];
}

Recorder::Recorder(int num_micro_batches, bool layer_per_node)
    : self_(std::make_shared<Recorder*>(this)),
      num_micro_batches_(num_micro_batches),
      layer_per_node_(layer_per_node) {
  require(num_micro_batches >= 1, "num_micro_batches must be at least 1, not {}",
          num_micro_batches);
}

Recorder::~Recorder() { *self_ = nullptr; }

Value Recorder::input(InputKind kind, const std::string& name, TensorType type, Initializer init) {
  require(!name.empty(), "an input needs a name");
  require(!input_by_name_.count(name), "input \"{}\" exists already; give inputs different names",
          name);
  check_type(type, fmt::format("input \"{}\"", name));
  for (std::int64_t extent : type.shape)
    require(extent >= 1, "input \"{}\" has type {}; extents must be at least 1", name,
            to_string(type));
  const Region region = region_;
  if (kind != InputKind::boundary) region_ = Region::forward;
  const Value value = emit_one(ops::input, {}, input_attributes(kind, type, init));
  region_ = region;
  nodes_.back().name = name;
  input_by_name_[name] = static_cast<int>(inputs_.size());
  inputs_.push_back({.value = value.id, .kind = kind, .name = name});
  note_layer();
  return value;
}

void Recorder::note_layer() {
  const int layer = names_.layer();
  if (layer >= 0 && inputs_.back().name.starts_with(names_.path(layer) + "."))
    layer_of_input_[static_cast<int>(inputs_.size()) - 1] = layer;
}

Value Recorder::parameter(const std::string& name, TensorType type, Initializer init) {
  const DType asked = type.dtype;
  if (view_.f32_masters && (asked == bf16 || asked == f16)) type.dtype = f32;
  const Value stored = stored_parameter(name, std::move(type), init);
  if (stored.dtype() == asked) return stored;
  if (layer_per_node_) return view_.cast(stored, asked);
  Value& converted = converted_[{stored.id, asked, layer_}];
  if (!converted) converted = view_.cast(stored, asked);
  return converted;
}

Value Recorder::stored_parameter(const std::string& name, TensorType type, Initializer init) {
  const auto found = input_by_name_.find(name);
  if (found == input_by_name_.end()) {
    const Value made = input(InputKind::state, name, std::move(type), init);
    parameters_.push_back(made);
    return made;
  }
  const Input& known = inputs_[found->second];
  require(known.kind == InputKind::state, "parameter \"{}\": a {} input has this name", name,
          alpa::name_of(known.kind));
  require(known.of.empty(),
          "parameter \"{}\": an optimizer state of \"{}\" has this name; choose another", name,
          known.of);
  require(this->type(known.value) == type,
          "parameter \"{}\" is {} but was made as {}; tied parameters need one type", name,
          to_string(type), to_string(this->type(known.value)));
  return value(known.value);
}

void Recorder::rename(Value input, const std::string& name) {
  const Input* known = input_of(input);
  require(known != nullptr, "rename to \"{}\": the value is not an input of this graph", name);
  require(!input_by_name_.count(name), "rename: an input is called \"{}\" already", name);
  for (Input& owned : inputs_)
    if (owned.of == known->name && owned.value != input.id) owned.of = name;
  const auto entry = input_by_name_.extract(known->name);
  inputs_[entry.mapped()].name = nodes_[producer(input.id)].name = name;
  input_by_name_[name] = entry.mapped();
}

Values Builder::parameters(std::string_view pattern) const {
  Values found;
  std::vector<std::string> names;
  for (Value parameter : parameters()) {
    const Recorder& graph = recorder(parameter);
    names.push_back(graph.node(graph.producer(parameter.id)).name);
    if (matches(pattern, names.back())) found.push_back(parameter);
  }
  require(!found.empty(), "parameters: \"{}\" matches no parameter made so far; these are {}",
          excerpt(pattern), quoted_names(names));
  return found;
}

void Recorder::freeze(Value parameter) {
  require(static_cast<bool>(parameter), "freeze: the parameter is an empty Value");
  const Input* known = input_of(parameter);
  require(known && known->kind == InputKind::state && known->of.empty(),
          "freeze: {} is not a parameter of this graph; give what `parameter` returned",
          to_string(parameter.type()));
  require(!has_update(parameter), "freeze: \"{}\" has an update already; freeze it before",
          known->name);
  inputs_[input_by_name_.at(known->name)].frozen = true;
  std::erase_if(parameters_, [&](const Value& trained) { return trained.id == parameter.id; });
}

void Recorder::set_frozen_names(std::function<bool(std::string_view name)> frozen_names) {
  frozen_names_ = std::move(frozen_names);
}

void Recorder::set_lora(std::optional<Lora> lora) {
  if (!lora) return;
  require(!lora->targets.empty(),
          "lora: no targets; name Dense layers, e.g. {{\"*.attention.*\"}}");
  require(lora->rank >= 1, "lora: rank {}; give at least 1", lora->rank);
  require(std::isfinite(lora->alpha) && lora->alpha > 0, "lora: alpha must be above 0, not {}",
          lora->alpha);
  require(lora->dropout >= 0 && lora->dropout < 1, "lora: dropout rate {} is not in [0, 1)",
          lora->dropout);
  found_targets_.assign(lora->targets.size(), false);
  lora_ = std::move(lora);
}

std::optional<Lora> Recorder::lora_of(std::string_view layer) {
  bool is_target = false;
  for (std::size_t i = 0; i < found_targets_.size(); ++i) {
    if (!matches(lora_->targets[i], layer)) continue;
    is_target = found_targets_[i] = true;
  }
  return is_target ? lora_ : std::nullopt;
}

void Recorder::set_quantized(std::vector<Quantized> quantized) {
  found_quantized_.assign(quantized.size(), false);
  quantized_ = std::move(quantized);
}

std::optional<Quantization> Recorder::quantization_of(std::string_view layer) {
  std::optional<Quantization> type;
  for (std::size_t i = 0; i < quantized_.size(); ++i) {
    if (!matches(quantized_[i].layers, layer)) continue;
    found_quantized_[i] = true;
    if (!type) type = quantized_[i].type;
  }
  return type;
}

void Recorder::check_layer_patterns() const {
  constexpr const char* kNames =
      "names are like \"blocks.0.attention.query\", and * stands for any text";
  for (std::size_t i = 0; i < found_targets_.size(); ++i)
    require(found_targets_[i], "lora: target \"{}\" fits the name of no Dense layer; {}",
            excerpt(lora_->targets[i]), kNames);
  for (std::size_t i = 0; i < quantized_.size(); ++i)
    require(found_quantized_[i],
            "quantized: pattern \"{}\" fits the name of no Dense layer with a multiple of 32 "
            "inputs; {}",
            excerpt(quantized_[i].layers), kNames);
}

bool Recorder::will_freeze(const std::string& parameter) {
  const auto found = input_by_name_.find(parameter);
  require(found != input_by_name_.end(), "parameter \"{}\" is not made yet", parameter);
  const bool frozen = frozen_names_ && frozen_names_(parameter);
  told_frozen_[inputs_[found->second].value] = frozen;
  return frozen;
}

void Recorder::freeze_named() {
  const Values trained = parameters_;  // a copy: freezing takes them out
  for (const Value& parameter : trained) {
    const std::string& name = input_of(parameter)->name;
    const bool frozen = frozen_names_ && frozen_names_(name);
    const auto told = told_frozen_.find(parameter.id);
    require(told == told_frozen_.end() || told->second == frozen,
            "parameter \"{}\" is {}frozen, but its layer had another number when it was used; "
            "give the layer a name",
            name, frozen ? "" : "not ");
    if (frozen) freeze(parameter);
  }
}

Value Recorder::optimizer_state(Value parameter, const std::string& what,
                                const std::optional<TensorType>& type) {
  require(static_cast<bool>(parameter), "optimizer_state \"{}\": the parameter is an empty Value",
          what);
  const Input* of = input_of(parameter);
  require(
      of && of->kind == InputKind::state && of->of.empty(),
      "optimizer_state \"{}\": {} is not a parameter of this graph; give what `parameter` returned",
      what, to_string(parameter.type()));
  const std::string name = of->name;
  const Value made = input(InputKind::state, name + "." + what, type.value_or(parameter.type()),
                           Initializer::zeros());
  inputs_.back().of = name;
  return made;
}

Value Recorder::step_state(const std::string& name, TensorType type, Initializer init) {
  const Value made = input(InputKind::state, name, std::move(type), init);
  inputs_.back().of = name;
  return made;
}

Value Recorder::state_of(Value parameter, const std::string& name, TensorType type,
                         Initializer init) {
  require(static_cast<bool>(parameter), "state_of \"{}\": the parameter is an empty Value", name);
  const Input* of = input_of(parameter);
  require(of && of->kind == InputKind::state && of->of.empty(),
          "state_of \"{}\": {} is not a parameter of this graph; give what `parameter` returned",
          name, to_string(parameter.type()));
  const std::string owner = of->name;
  if (const auto found = input_by_name_.find(name); found != input_by_name_.end()) {
    const Input& known = inputs_[found->second];
    require(known.of == owner && this->type(known.value) == type,
            "state_of \"{}\": another input has this name; choose another", name);
    return value(known.value);
  }
  const Value made = input(InputKind::state, name, std::move(type), init);
  inputs_.back().of = owner;
  return made;
}

const Input* Recorder::input_of(Value value) const {
  if (!value || value.builder != handle()) return nullptr;
  // in the order in which they were made
  const auto found = std::lower_bound(inputs_.begin(), inputs_.end(), value.id,
                                      [](const Input& input, int id) { return input.value < id; });
  return found == inputs_.end() || found->value != value.id ? nullptr : &*found;
}

Region Recorder::region_reading(const std::vector<int>& operands) const {
  Region region = region_;
  for (int value : operands)
    region =
        std::max(region, sums_.contains(value) ? Region::apply : nodes_[producer(value)].region);
  return region;
}

Values Recorder::emit(const OpDef& op, const Values& operands, Attributes attributes) {
  require(
      num_nodes() < kMaxGraphNodes,
      "{}: with it the graph has more than {} nodes, the most of one graph; give the model fewer "
      "layers",
      op.name, kMaxGraphNodes);
  std::vector<TensorType> types;
  types.reserve(operands.size());
  Node node;
  for (const Value& operand : operands) {
    require(static_cast<bool>(operand), "{}: operand {} is an empty Value", op.name, types.size());
    require(operand.builder == handle(), "{}: operand {} belongs to another graph", op.name,
            types.size());
    types.push_back(operand.type());
    node.operands.push_back(operand.id);
  }
  Values results;
  for (TensorType& type : result_types(op, {types, attributes})) {
    const int id = static_cast<int>(values_.size());
    total_bytes_ += type.bytes();
    if (total_bytes_ > kMaxGraphBytes)
      fail("{}: with its result {} the values of the graph take more than 2^60 bytes", op.name,
           to_string(type));
    values_.push_back({std::move(type), num_nodes(), static_cast<int>(results.size())});
    node.results.push_back(id);
    results.push_back(value(id));
  }
  node.op = &op;
  node.attributes = std::move(attributes);
  node.name = names_.prefix() + std::string(op.name);
  node.region = region_reading(node.operands);
  node.layer = layer_per_node_ && node.region == Region::forward ? num_nodes() : layer_;
  if (remat_ >= 0 && &op != &ops::input) enter_remat(node);
  remat_of_node_.push_back(node.remat >= 0 ? remat_ : -1);
  nodes_.push_back(std::move(node));
  return results;
}

Value Recorder::emit_one(const OpDef& op, const Values& operands, Attributes attributes) {
  const Values results = emit(op, operands, std::move(attributes));
  invariant(results.size() == 1, "{} has {} results", op.name, results.size());
  return results[0];
}

void Recorder::update(Value input, Value value) {
  require(input && value && input.builder == handle() && value.builder == handle(),
          "update: both values must belong to this graph");
  const Input* known = input_of(input);
  require(known && (known->kind == InputKind::state || known->kind == InputKind::accumulator),
          "update: {} \"{}\" is not a state; only state and accumulator inputs can be updated",
          nodes_[producer(input.id)].op->name, nodes_[producer(input.id)].name);
  require(!known->frozen,
          "update of \"{}\": it is frozen; leave it out of StepOptions::frozen to train it",
          known->name);
  if (input.type() != value.type())
    fail("update of \"{}\": it is {} but the new value is {}", known->name, to_string(input.type()),
         to_string(value.type()));
  require(updated_.insert(input.id).second, "update of \"{}\": it has an update already",
          known->name);
  updates_.push_back({input.id, value.id});
  if (known->kind == InputKind::accumulator) sums_.insert(value.id);
}

void Recorder::replace_update(Value input, Value value) {
  // The last ones first: an optimizer replaces what it has just declared.
  const auto found = std::find_if(updates_.rbegin(), updates_.rend(),
                                  [&](const Update& update) { return update.input == input.id; });
  require(found != updates_.rend(), "replace_update: {} has no update", to_string(input.type()));
  updates_.erase(std::next(found).base());
  updated_.erase(input.id);
  update(input, value);
}

void Recorder::metric(const std::string& name, Value value) {
  require(value && value.builder == handle(), "metric \"{}\": the value must belong to this graph",
          name);
  require(value.rank() == 0, "metric \"{}\": {} is not a scalar; reduce it first, e.g. with mean",
          name, to_string(value.type()));
  for (const Metric& earlier : metrics_)
    require(earlier.name != name, "metric \"{}\" exists already", name);
  metrics_.push_back({name, value.id});
}

void Recorder::add_output(const std::string& name, Value value) {
  for (const Output& earlier : outputs_)
    require(earlier.name != name, "output \"{}\" exists already; give outputs different names",
            name);
  outputs_.push_back({name, value.id});
}

std::int64_t Recorder::next_stream() {
  return (static_cast<std::int64_t>(layer_ + 1) << 32) + streams_[layer_]++;
}

std::string Recorder::describe_layer(int scope) const {
  const std::string& path = names_.path(scope);
  std::string parameters;
  int more = 0;
  for (const Input& input : inputs_)
    if (input.kind == InputKind::state && input.of.empty() && input.name.starts_with(path + "."))
      if (++more <= 2)
        parameters += fmt::format("{}\"{}\" {}", parameters.empty() ? "" : ", ", input.name,
                                  to_string(type(input.value)));
  if (more > 2) parameters += fmt::format(" and {} more", more - 2);
  return fmt::format("{} ({})", names_.kind(scope),
                     parameters.empty() ? "without parameters yet" : parameters);
}

void Recorder::push_layer(const LayerIdentity& layer) {
  if (const int rival = names_.rival(layer); rival >= 0)
    fail(
        "two layers are called \"{}\": a {} and another {}; give one of them another name "
        "({{.name = \"…\"}}), open an nn::Scope around each call, or use copies of one layer to "
        "share its parameters",
        names_.path(rival), describe_layer(rival), layer.kind);
  names_.open(layer);
}

Graph Recorder::finish() {
  invariant(*self_ != nullptr, "a recording is finished twice");
  *self_ = nullptr;
  std::vector<Node> nodes = take_ordered_nodes();
  Graph recorded;
  recorded.values = {std::make_move_iterator(values_.begin()),
                     std::make_move_iterator(values_.end())};
  recorded.inputs = std::move(inputs_), recorded.updates = std::move(updates_);
  recorded.metrics = std::move(metrics_), recorded.outputs = std::move(outputs_);
  recorded.num_micro_batches = num_micro_batches_;
  add_early(recorded, nodes);
  Graph graph = with_nodes(recorded, std::move(nodes)).graph;
  std::sort(graph.inputs.begin(), graph.inputs.end(),
            [](const Input& a, const Input& b) { return a.value < b.value; });
  const std::string mistake = region_mistake(graph);
  require(mistake.empty(), "{}", mistake);
  verify(graph);
  return graph;
}

void Recorder::end_layer() {
  // Behind the first boundary, a node in no layer has none on purpose: a sum over micro-batches.
  if (layer_ < 0)
    for (Node& node : nodes_)
      if (node.region == Region::forward && node.op != &ops::input)
        node.layer = std::max(node.layer, 0);
  layer_ = std::max(layer_, 0) + 1;
}

Value mark_pipeline_boundary(Value x) {
  require(static_cast<bool>(x), "mark_pipeline_boundary: the value is empty");
  recorder(x).end_layer();
  return x;
}

}  // namespace alpa
