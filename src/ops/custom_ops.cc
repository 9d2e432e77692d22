// src/ops/custom_ops.cc — operators that the program defines
#include "src/ops/custom_ops.h"

#include <deque>
#include <mutex>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/half.h"
#include "src/base/thread_team.h"
#include "src/ir/notation.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// A definition, and the record that the library knows it by.
struct Custom {
  OpDefinition definition;
  OpDef op;
};

/// Operators defined so far. Never destroyed: graphs of static objects may refer to them.
struct Registry {
  std::mutex mutex;
  std::deque<Custom> ops;
};

Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

std::vector<TensorType> types_of(const OpQuery& query) {
  return {query.operands.begin(), query.operands.end()};
}

// ---- what the record says

Rule custom_rule(const OpQuery& query) {
  const OpDefinition& definition = *query.op->custom;
  FactorsOfLetters letters;
  Rule rule = rule_of_notation(*query.op, query, &letters);
  double points = 1;
  for (const Factor& factor : rule.factors) points *= static_cast<double>(factor.size);
  rule.flops_per_point = 1;
  if (definition.flops && points > 0)
    rule.flops_per_point = definition.flops(types_of(query), query.attributes) / points;
  for (const std::string& reads : definition.reads) {
    rule.reads.emplace_back();
    if (reads.empty()) continue;
    rule.reads.back().emplace();
    for (char letter : reads)
      for (int factor : letters[letter]) rule.reads.back()->push_back(factor);
  }
  if (!rule.reads.empty()) rule.reads.resize(query.operands.size());
  return rule;
}

std::vector<DType> custom_dtypes(const OpQuery& query) {
  const OpDefinition& definition = *query.op->custom;
  if (definition.result_dtypes) return definition.result_dtypes(types_of(query), query.attributes);
  return std::vector<DType>(rule_of(*query.op, query).results.size(), query.operands[0].dtype);
}

Values custom_gradient(Recorder& g, const Node& n, const Values& dys) {
  const OpDefinition& definition = *n.op->custom;
  require(static_cast<bool>(definition.gradient),
          "gradient: the loss depends on {} \"{}\", which has no gradient; give its OpDefinition a "
          "`gradient`, or wrap it in stop_gradient",
          definition.name, n.name);
  GradientCall call{.operands = {}, .results = {}, .result_gradients = dys, .attributes = {}};
  call.attributes = n.attributes;
  for (int value : n.operands) call.operands.push_back(g.value(value));
  for (int value : n.results) call.results.push_back(g.value(value));
  Values gradients = definition.gradient(call);
  require(gradients.size() == call.operands.size(),
          "{}: its gradient gives {} Values for {} operands; give one each, empty where there is "
          "none",
          definition.name, gradients.size(), call.operands.size());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    require(!gradients[i] || gradients[i].type() == call.operands[i].type(),
            "{}: its gradient of operand {} is {}, but the operand is {}; give it that type",
            definition.name, i, to_string(gradients[i] ? gradients[i].type() : TensorType{}),
            to_string(call.operands[i].type()));
  return gradients;
}

// ---- the CPU kernel of all of them; `KernelCall::prepared` is the definition

const OpDefinition& definition_of(const KernelCall& call) {
  return *static_cast<const OpDefinition*>(call.prepared.get());
}

void run_custom(const KernelCall& call) { definition_of(call).cpu(op_call(call)); }

std::int64_t custom_workspace(const KernelCall& call) {
  const OpDefinition& definition = definition_of(call);
  return definition.scratch_bytes ? definition.scratch_bytes(op_call(call)) : 0;
}

constexpr KernelDef kCustomKernel{run_custom, nullptr, custom_workspace};

TensorView view_of(const KernelTensor& tensor) {
  return dense_view(tensor.data, tensor.type, tensor.offset, tensor.global_shape);
}

// ---- definitions

bool is_name(std::string_view name) {
  char before = '.';
  bool dotted = false;
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '_' && (c != '.' || before == '.')) return false;
    dotted |= c == '.';
    before = c;
  }
  return dotted && before != '.';
}

/// Calls `check`; the invariants that it finds broken are the user's mistake.
template <class Check>
auto as_mistake(const OpDefinition& definition, const Check& check) {
  try {
    return check();
  } catch (const Bug& bug) {
    fail("{}: dims \"{}\": {}; OpDefinition::dims says how it is written", definition.name,
         definition.dims, bug.what());
  } catch (const Error& error) {
    fail("{}; its dims are \"{}\"", error.what(), definition.dims);
  }
}

void check_definition(const OpDefinition& definition) {
  require(is_name(definition.name),
          "define_op: \"{}\" is no name for an operator; give it letters, digits and _ with a dot "
          "between them, as in \"shop.rms_norm\"",
          excerpt(definition.name));
  require(static_cast<bool>(definition.cpu),
          "define_op: {} has no CPU function, which is needed to verify it and to run it on CPU "
          "devices; set OpDefinition::cpu",
          definition.name);
  require(definition.version >= 0, "define_op: {} has version {}; give 0 or more", definition.name,
          definition.version);
  as_mistake(definition, [&] { check_notation(definition.dims, definition.reads); });
}

}  // namespace

double TensorView::get(std::int64_t place) const {
  switch (type.dtype) {
    case DType::f64: return as<double>()[place];
    case DType::f32: return as<float>()[place];
    case DType::i32: return as<std::int32_t>()[place];
    case DType::u8: return as<std::uint8_t>()[place];
    case DType::bf16: return to_float(as<Bf16>()[place]);
    case DType::f16: return to_float(as<F16>()[place]);
  }
  bug("element type {}", static_cast<int>(type.dtype));
}

void TensorView::set(std::int64_t place, double value) const {
  switch (type.dtype) {
    case DType::f64: as<double>()[place] = value; return;
    case DType::f32: as<float>()[place] = static_cast<float>(value); return;
    case DType::i32: as<std::int32_t>()[place] = static_cast<std::int32_t>(value); return;
    case DType::u8: as<std::uint8_t>()[place] = static_cast<std::uint8_t>(value); return;
    case DType::bf16: as<Bf16>()[place] = to_bf16(static_cast<float>(value)); return;
    case DType::f16: as<F16>()[place] = to_f16(static_cast<float>(value)); return;
  }
}

void OpCall::parallel_for(
    std::int64_t n, std::int64_t grain,
    const std::function<void(std::int64_t begin, std::int64_t end)>& body) const {
  if (team)
    team->parallel_for(n, grain, body);
  else
    body(0, n);
}

TensorView dense_view(void* data, TensorType type, Shape offset, Shape whole) {
  TensorView view{data, std::move(type), {}, std::move(offset), std::move(whole)};
  view.strides = view.type.shape;
  std::int64_t stride = 1;
  for (std::size_t d = view.strides.size(); d-- > 0;)
    stride *= std::exchange(view.strides[d], stride);
  return view;
}

OpCall op_call(const KernelCall& call) {
  OpCall result{.operands = {}, .results = {}, .attributes = {}, .scratch = call.workspace};
  for (const KernelTensor& tensor : call.inputs) result.operands.push_back(view_of(tensor));
  for (const KernelTensor& tensor : call.outputs) result.results.push_back(view_of(tensor));
  if (call.attributes) result.attributes = *call.attributes;
  result.team = call.team;
  return result;
}

std::vector<const OpDef*> known_ops() {
  std::vector<const OpDef*> ops(all_ops().begin(), all_ops().end());
  const std::lock_guard lock(registry().mutex);
  for (const Custom& custom : registry().ops) ops.push_back(&custom.op);
  return ops;
}

std::map<std::string, std::int64_t> versions_of(const Graph& graph) {
  std::map<std::string, std::int64_t> versions;
  for (const Node& node : graph.nodes)
    if (node.op->custom) versions[node.op->custom->name] = node.op->custom->version;
  return versions;
}

CustomOp define_op(OpDefinition definition) {
  check_definition(definition);
  const std::lock_guard lock(registry().mutex);
  for (const Custom& known : registry().ops)
    require(known.definition.name != definition.name,
            "define_op: {} is defined already; define it once, or give one another name",
            definition.name);
  Custom& custom = registry().ops.emplace_back();
  custom.definition = std::move(definition);
  custom.op.name = custom.definition.name;
  custom.op.dims = custom.definition.dims;
  custom.op.rule = custom_rule;
  custom.op.result_dtypes = custom_dtypes;
  custom.op.linear = custom.definition.linear;
  custom.op.vjp = custom_gradient;
  custom.op.cpu = &kCustomKernel;
  custom.op.custom = &custom.definition;
  return CustomOp(&custom.op);
}

const OpDefinition& CustomOp::definition() const { return *record_->custom; }

Values CustomOp::operator()(const Values& operands, Attributes attributes) const {
  require(!operands.empty(), "{}: called without operands; its dims are \"{}\"", record_->name,
          record_->dims);
  if (const int version = definition().version; version > 0) {
    require(!attributes.contains("version"),
            "{}: attribute \"version\" is that of its definition; give yours another name",
            record_->name);
    attributes.set("version", std::int64_t{version});
  }
  std::vector<TensorType> types;
  for (Value operand : operands) {
    require(static_cast<bool>(operand), "{}: operand {} is an empty Value", record_->name,
            types.size());
    types.push_back(operand.type());
  }
  as_mistake(definition(), [&] {
    const OpQuery query{types, attributes, record_};
    const Rule rule = rule_of(*record_, query);
    verify(rule);
    const std::size_t dtypes = custom_dtypes(query).size();
    require(dtypes == rule.results.size(),
            "{}: result_dtypes gives {} element types for {} results", record_->name, dtypes,
            rule.results.size());
  });
  return recorder(operands[0]).emit(*record_, operands, std::move(attributes));
}

}  // namespace alpa
