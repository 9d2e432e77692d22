// src/spmd/fuse_epilogues.cc — fuses einsums with the bias, activation,
// gradient, sums or addend beside them
#include <algorithm>
#include <numeric>
#include <optional>

#include "kernels/plan/einsum_plan.h"
#include "kernels/plan/epilogue.h"
#include "rewrite.h"
#include "src/ir/rewrite.h"
#include "src/ops/all_ops.h"
#include "src/tensor/kernel.h"

namespace alpa::spmd {
namespace {

using Function = Epilogue::Function;

/// The program being rewritten. Nodes keep their numbers until `finish`.
class Rewriting {
 public:
  Rewriting(const SpmdProgram& before, FusesEpilogue fuses)
      : program(before),
        nodes(program.graph.nodes),
        fuses_(fuses),
        before_(nodes.size()),
        place_(nodes.size()),
        readers_(consumers(program.graph)),
        read_outside_(externally_used_values(program.graph)) {
    std::iota(place_.begin(), place_.end(), 0);
  }

  SpmdProgram program;      ///< values may be added
  std::vector<Node> nodes;  ///< without operator: dropped

  int producer(int value) const { return program.graph.values[value].producer; }
  const TensorType& type(int value) const { return program.graph.type(value); }
  const std::vector<int>& readers(int value) const { return readers_[value]; }

  bool is_partial(int value) const { return program.specs[value].is_partial(); }

  /// The only node that reads `value`, if it is of the region of node n; else -1.
  int only_reader(int value, int n) const {
    if (readers_[value].size() != 1 || read_outside_[value]) return -1;
    const int reader = readers_[value][0];
    return nodes[reader].op && nodes[reader].region == nodes[n].region ? reader : -1;
  }

  /// The other operand of a binary node; -1 if there is none.
  int other_operand(int n, int value) const {
    const std::vector<int>& operands = nodes[n].operands;
    if (operands.size() != 2 || operands[0] == operands[1]) return -1;
    return operands[0] == value ? operands[1] : operands[0];
  }

  bool is_einsum(int n) const {
    if (nodes[n].op != &ops::einsum) return false;
    const DType dtype = type(nodes[n].results[0]).dtype;
    return dtype == f32 || dtype == bf16 || dtype == f16;
  }

  /// True if `value` is made before node n, as the program is now.
  bool is_ready(int value, int n) const {
    return producer(value) != n && place_[producer(value)] <= n;
  }

  /// Node n makes `value` from now on.
  void set_producer(int value, int n) { program.graph.values[value].producer = n; }

  /// Makes `value` ready before node n: inputs and nodes of n's region that are ready there
  /// are moved to stand just before n, together with what they read. Returns false, and
  /// moves nothing, if one is not.
  bool bring_before(int value, int n) {
    std::vector<int> moved;
    if (!collect(value, n, moved)) return false;
    for (int p : moved) {
      before_[n].push_back(std::move(nodes[p]));
      nodes[p].op = nullptr;
      place_[p] = n;
    }
    return true;
  }

  /// True if the backend has one kernel for the node, and the layouts of its values allow one node.
  bool is_joint(const Node& node) const {
    if (!follows_a_strategy(program, node)) return false;
    KernelCall call;
    call.attributes = &node.attributes;
    const std::vector<int> first(program.mesh_of(node).num_axes(), 0);
    const auto local = [&](int value) {
      return KernelTensor{nullptr,
                          {type(value).dtype, local_shape(type(value).shape, program.specs[value],
                                                          program.mesh_of(value), first)},
                          {},
                          {}};
    };
    for (int value : node.operands) call.inputs.push_back(local(value));
    for (int value : node.results) call.outputs.push_back(local(value));
    return fuses_(call);
  }

  SpmdProgram finish() {
    std::vector<Node> result;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      for (Node& moved : before_[n]) result.push_back(std::move(moved));
      result.push_back(std::move(nodes[n]));
    }
    return with_nodes(program, std::move(result));
  }

 private:
  /// Appends to `moved` what must be moved before node n for `value` to be ready there, in order.
  bool collect(int value, int n, std::vector<int>& moved) const {
    const int p = producer(value);
    if (is_ready(value, n) || std::find(moved.begin(), moved.end(), p) != moved.end()) return true;
    const Node& node = nodes[p];
    if (p == n || !node.op || (node.op != &ops::input && node.region != nodes[n].region))
      return false;
    for (int operand : node.operands)
      if (!collect(operand, n, moved)) return false;
    if (node.op == &ops::input) collect_inputs(n, p, moved);
    moved.push_back(p);
    return true;
  }

  /// Inputs between n and input p move along: they keep their order.
  void collect_inputs(int n, int p, std::vector<int>& moved) const {
    for (int i = n + 1; i < p; ++i)
      if (nodes[i].op == &ops::input && std::find(moved.begin(), moved.end(), i) == moved.end())
        moved.push_back(i);
  }

  FusesEpilogue fuses_;
  std::vector<std::vector<Node>> before_;  ///< nodes moved to stand just before a node
  /// of a node: its number, or that of the node it was moved before
  std::vector<int> place_;
  std::vector<std::vector<int>> readers_;
  /// Per value of the original program: whether an update, metric or output reads it.
  const std::vector<bool> read_outside_;
};

Node epilogue_node(const Node& einsum, const Epilogue& epilogue, std::vector<int> more_operands,
                   std::vector<int> results, const std::string& last_name) {
  Node node = einsum;
  node.op = &ops::einsum_epilogue;
  node.attributes.set("epilogue", to_string(epilogue));
  node.operands.insert(node.operands.end(), more_operands.begin(), more_operands.end());
  node.results = std::move(results);
  node.name += "+" + last_name;
  return node;
}

// ---- bias, relu, gelu behind the product

/// The nodes that follow an einsum.
struct Tail {
  Epilogue epilogue;
  std::vector<int> nodes, bias;
  std::vector<int> results;
};

void match_bias(const Rewriting& r, int n, Tail& tail) {
  const int product = r.nodes[n].results[0], add = r.only_reader(product, n);
  if (add < 0 || r.nodes[add].op != &ops::add) return;
  const int bias = r.other_operand(add, product);
  const TensorType& z = r.type(product);
  if (bias < 0 || r.type(r.nodes[add].results[0]) != z || r.is_partial(bias)) return;
  const Shape& shape = r.type(bias).shape;
  if (shape.empty() || shape.size() > z.shape.size() ||
      !std::equal(shape.rbegin(), shape.rend(), z.shape.rbegin()))
    return;
  tail.epilogue.bias = true;
  tail.bias = {bias};
  tail.nodes.push_back(add);
  tail.results = {r.nodes[add].results[0]};
}

/// The function; of gelu the operand is kept if others read it, too.
Tail with_function(const Rewriting& r, int n, Tail tail) {
  const int value = tail.results[0];
  int function = -1;
  for (int reader : r.readers(value))
    if ((r.nodes[reader].op == &ops::relu || r.nodes[reader].op == &ops::gelu) &&
        r.nodes[reader].region == r.nodes[n].region)
      function = reader;
  if (function < 0) return tail;
  const bool gelu = r.nodes[function].op == &ops::gelu, read = r.only_reader(value, n) != function;
  if (read && !gelu) return tail;
  tail.epilogue.function = gelu ? Function::gelu : Function::relu;
  tail.epilogue.keep = read;
  tail.nodes.push_back(function);
  tail.results = {r.nodes[function].results[0]};
  if (read) tail.results.push_back(value);
  return tail;
}

void fuse_tail(Rewriting& r, int n) {
  if (!r.is_einsum(n) || r.is_partial(r.nodes[n].results[0])) return;
  Tail bias;
  bias.results = r.nodes[n].results;
  match_bias(r, n, bias);
  for (const Tail& tail : {with_function(r, n, bias), bias}) {
    if (tail.nodes.empty()) continue;
    Node node = epilogue_node(r.nodes[n], tail.epilogue, tail.bias, tail.results,
                              r.nodes[tail.nodes.back()].name);
    if (!r.is_joint(node) || (!tail.bias.empty() && !r.bring_before(tail.bias[0], n))) continue;
    for (int joined : tail.nodes) r.nodes[joined].op = nullptr;
    r.nodes[n] = std::move(node);
    return;
  }
}

// ---- gradients of relu and gelu behind the product

/// Makes the product that computes h = relu(…) also store its mask. Returns the mask's value,
/// -1 if that is impossible.
int keep_relu_mask(Rewriting& r, int h) {
  const int n = r.producer(h);
  Node node = r.nodes[n];
  if (node.op != &ops::einsum_epilogue || r.type(h).shape.back() % 8 != 0) return -1;
  Epilogue epilogue = parse_epilogue(node.attributes.string("epilogue"));
  if (epilogue.function != Function::relu || epilogue.keep || epilogue.gradient) return -1;
  epilogue.keep = true;
  TensorType bits{u8, r.type(h).shape};
  bits.shape.back() /= 8;
  const int value = static_cast<int>(r.program.graph.values.size());
  node.results.push_back(value);
  node.attributes.set("epilogue", to_string(epilogue));
  r.program.graph.values.push_back({bits, n, 1});
  r.program.specs.push_back(r.program.specs[h]);
  if (!r.program.mesh_of_value.empty())
    r.program.mesh_of_value.push_back(r.program.mesh_of_value[h]);
  if (!r.is_joint(node)) {
    r.program.graph.values.pop_back();
    r.program.specs.pop_back();
    if (!r.program.mesh_of_value.empty()) r.program.mesh_of_value.pop_back();
    return -1;
  }
  r.nodes[n] = std::move(node);
  return value;
}

/// Product · function'(kept): the multiplication, the derivative, and what that reads.
struct Slope {
  int multiplication, derivative, operand;
};
std::optional<Slope> match_slope(const Rewriting& r, int n) {
  const int product = r.nodes[n].results[0], mul = r.only_reader(product, n);
  if (r.is_partial(product) || mul < 0 || r.nodes[mul].op != &ops::mul) return std::nullopt;
  const int slope = r.other_operand(mul, product);
  if (slope < 0 || r.type(slope) != r.type(product) || r.only_reader(slope, n) != mul)
    return std::nullopt;
  const int derivative = r.producer(slope);
  const OpDef* const op = r.nodes[derivative].op;
  if (op != &ops::step && op != &ops::gelu_grad) return std::nullopt;
  const int operand = r.nodes[derivative].operands[0];
  if (r.producer(operand) > n) return std::nullopt;
  return Slope{mul, derivative, operand};
}

void fuse_gradient(Rewriting& r, int n) {
  if (!r.is_einsum(n)) return;
  const std::optional<Slope> slope = match_slope(r, n);
  if (!slope) return;
  Epilogue epilogue;
  epilogue.gradient = true;
  const bool relu = r.nodes[slope->derivative].op == &ops::step;
  epilogue.function = relu ? Function::relu : Function::gelu;
  const Node forward = r.nodes[r.producer(slope->operand)];
  const int kept = relu ? keep_relu_mask(r, slope->operand) : slope->operand;
  if (kept < 0) return;
  const Node& mul = r.nodes[slope->multiplication];
  Node node = epilogue_node(r.nodes[n], epilogue, {kept}, mul.results, mul.name);
  if (!r.is_joint(node)) {
    if (relu) r.nodes[r.producer(slope->operand)] = forward;
    return;
  }
  r.nodes[slope->multiplication].op = r.nodes[slope->derivative].op = nullptr;
  r.nodes[n] = std::move(node);
}

// ---- sums of an operand beside the product

/// The sums over the letters that einsum n contracts of its operand `i`; -1 if
/// there are none to be read.
int match_sums(const Rewriting& r, int n, int i) {
  const std::vector<std::int64_t> dims =
      kernels::summed_dims(r.nodes[n].attributes.string("equation"), i);
  for (int reader : r.readers(r.nodes[n].operands[i])) {
    const Node& sum = r.nodes[reader];
    if (sum.op == &ops::reduce_sum && sum.region == r.nodes[n].region &&
        sum.attributes.integer("keep_dims") == 0 && sum.attributes.integers("axes") == dims)
      return reader;
  }
  return -1;
}

/// The position of the fused node: at the einsum, unless a node reads the sums before.
int place_of(const Rewriting& r, int n, int sum) {
  const std::vector<int>& readers = r.readers(r.nodes[sum].results[0]);
  if (readers.empty() || readers.front() > n) return n;
  const bool ready = std::all_of(r.nodes[n].operands.begin(), r.nodes[n].operands.end(),
                                 [&](int value) { return r.producer(value) < sum; });
  return ready ? sum : -1;
}

void fuse_sums(Rewriting& r, int n) {
  if (!r.is_einsum(n)) return;
  for (int i : {0, 1}) {
    const int sum = match_sums(r, n, i);
    if (sum < 0 || r.nodes[n].operands[0] == r.nodes[n].operands[1]) continue;
    const int place = place_of(r, n, sum);
    Epilogue epilogue;
    epilogue.sums_of = i;
    Node node = epilogue_node(r.nodes[n], epilogue, {},
                              {r.nodes[n].results[0], r.nodes[sum].results[0]}, r.nodes[sum].name);
    if (place < 0 || !r.is_joint(node)) continue;
    r.nodes[n].op = r.nodes[sum].op = nullptr;
    r.nodes[place] = std::move(node);
    return;
  }
}

// ---- what is added to the product

/// The epilogue of node n, if it may have an addend, too.
std::optional<Epilogue> epilogue_before_addend(const Rewriting& r, int n) {
  if (r.is_einsum(n)) return Epilogue{};
  if (r.nodes[n].op != &ops::einsum_epilogue) return std::nullopt;
  const Epilogue epilogue = parse_epilogue(r.nodes[n].attributes.string("epilogue"));
  if (epilogue.function != Function::none || epilogue.add) return std::nullopt;
  return epilogue;
}

/// A value that one node reads, perhaps behind a conversion.
struct Converted {
  int value;            ///< what that node reads
  int conversion = -1;  ///< the node that makes it of another value
};

Converted converted(const Rewriting& r, int value, int n) {
  const int cast = r.only_reader(value, n);
  if (cast < 0 || r.nodes[cast].op != &ops::cast) return {value};
  return {r.nodes[cast].results[0], cast};
}

/// A node that adds `addend` to another value.
struct Addition {
  int node, addend;
};

/// True if `value` can be read by node n, or moved before it, without waiting for other devices.
bool may_be_added(const Rewriting& r, int value, int n) {
  const Node& producer = r.nodes[r.producer(value)];
  if (!r.is_ready(value, n)) return producer.op == &ops::input;
  return !producer.op || (!is_collective(producer) && !is_transfer(producer));
}

/// The only reader of `value`, if it adds a value of that type that node n may read.
std::optional<Addition> match_addition(const Rewriting& r, int value, int n) {
  const int add = r.only_reader(value, n);
  if (add < 0 || r.nodes[add].op != &ops::add) return std::nullopt;
  const int addend = r.other_operand(add, value);
  if (addend < 0 || r.type(addend) != r.type(value) || !may_be_added(r, addend, n))
    return std::nullopt;
  return Addition{add, addend};
}

/// Node n becomes `node`, which makes what the addition made, and nodes `dropped` go.
void replace(Rewriting& r, int n, Node node, const std::vector<int>& dropped) {
  for (int joined : dropped) r.nodes[joined].op = nullptr;
  for (int result : node.results) r.set_producer(result, n);
  r.nodes[n] = std::move(node);
}

void fuse_addend(Rewriting& r, int n) {
  std::optional<Epilogue> epilogue = epilogue_before_addend(r, n);
  if (!epilogue) return;
  std::vector<int> results = r.nodes[n].results, dropped;
  for (std::size_t i = 0; i < results.size(); ++i) {  // sums beside z have its type
    if (i > 0 && dropped.empty()) break;
    const Converted result = converted(r, results[i], n);
    results[i] = result.value;
    if (result.conversion >= 0) dropped.push_back(result.conversion);
  }
  const std::optional<Addition> sum = match_addition(r, results[0], n);
  if (!sum || r.type(results.back()).dtype != r.type(results[0]).dtype) return;
  dropped.push_back(sum->node);
  results[0] = r.nodes[sum->node].results[0];
  epilogue->add = true;
  Node node = epilogue_node(r.nodes[n], *epilogue, {sum->addend}, results, r.nodes[sum->node].name);
  if (r.is_joint(node) && r.bring_before(sum->addend, n)) replace(r, n, std::move(node), dropped);
}

/// Fuses the addition of the residual's gradient into a normalisation's gradient of x.
void fuse_onto_norm_gradient(Rewriting& r, int n) {
  Node node = r.nodes[n];
  if (node.op != &ops::layer_norm_grad && node.op != &ops::rms_norm_grad) return;
  const std::optional<Addition> sum = match_addition(r, node.results[0], n);
  if (!sum) return;
  node.operands.push_back(sum->addend);
  node.results[0] = r.nodes[sum->node].results[0];
  node.name += "+" + r.nodes[sum->node].name;
  if (follows_a_strategy(r.program, node) && r.bring_before(sum->addend, n))
    replace(r, n, std::move(node), {sum->node});
}

SpmdProgram for_each_node(const SpmdProgram& program, FusesEpilogue fuses,
                          void (*fuse)(Rewriting&, int n)) {
  Rewriting rewriting(program, fuses);
  for (int n = 0; n < static_cast<int>(rewriting.nodes.size()); ++n)
    if (rewriting.nodes[n].op) fuse(rewriting, n);
  return rewriting.finish();
}

}  // namespace

SpmdProgram fuse_epilogues(const SpmdProgram& program, FusesEpilogue fuses) {
  SpmdProgram result = program;
  for (const auto fuse :
       {fuse_tail, fuse_gradient, fuse_sums, fuse_addend, fuse_onto_norm_gradient})
    result = for_each_node(result, fuses, fuse);
  return result;
}

}  // namespace alpa::spmd
