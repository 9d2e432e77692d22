// src/ir/structural_hash.cc — hashes of graphs without names
#include <array>
#include <map>
#include <string>

#include "alpa/ir/graph.h"
#include "src/base/fnv.h"
#include "src/ir/op_def.h"
#include "src/ir/subgraph.h"

namespace alpa {
namespace {

/// The same on every machine, so that plans written on one are accepted by another.
class Hash {
 public:
  void add(std::string_view bytes) {
    state_ = fnv1a(bytes, state_);
    add(static_cast<std::int64_t>(bytes.size()));
  }
  void add(std::int64_t number) {
    std::array<char, 8> bytes;
    for (int i = 0; i < 8; ++i)
      bytes[i] = static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i));
    state_ = fnv1a({bytes.data(), bytes.size()}, state_);
  }
  void add(const TensorType& type) {
    add(name_of(type.dtype));
    add(static_cast<std::int64_t>(type.shape.size()));
    for (std::int64_t extent : type.shape) add(extent);
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = fnv1a("");
};

void add_inputs(const Graph& graph, Hash& hash) {
  std::map<std::string_view, std::int64_t> places;
  for (const Input& input : graph.inputs) {
    const auto of = places.find(input.of);
    hash.add(of == places.end() ? std::int64_t{input.of.empty() ? -1 : -2} : of->second);
    hash.add(std::int64_t{input.frozen});
    places.emplace(input.name, static_cast<std::int64_t>(places.size()));
  }
}

std::string text_of(const Attributes& attributes, bool with_stream) {
  if (with_stream || !attributes.contains(kStreamAttribute)) return to_string(attributes);
  Attributes others = attributes;
  others.set(std::string(kStreamAttribute), std::int64_t{0});
  return to_string(others);
}

/// Hash of the graph, with layers and streams or without.
std::uint64_t hash_of(const Graph& graph, bool with_layers) {
  Hash hash;
  std::vector<std::int64_t> number(graph.values.size(),
                                   -1);  // values in order of definition, whatever their ids
  std::int64_t next = 0;
  hash.add(static_cast<std::int64_t>(graph.num_micro_batches));
  for (const Node& node : graph.nodes) {
    hash.add(node.op->name);
    if (node.op->custom) hash.add(node.op->dims);
    hash.add(text_of(node.attributes, with_layers));
    hash.add(static_cast<std::int64_t>(node.operands.size()));
    for (int value : node.operands) hash.add(number[value]);
    for (int value : node.results) {
      number[value] = next++;
      hash.add(graph.type(value));
    }
    hash.add(static_cast<std::int64_t>(node.region));
    if (with_layers) hash.add(static_cast<std::int64_t>(node.layer));
  }
  for (const Update& update : graph.updates) {
    hash.add(number[update.input]);
    hash.add(number[update.value]);
  }
  for (const Metric& metric : graph.metrics) hash.add(number[metric.value]);
  for (const Output& output : graph.outputs) hash.add(number[output.value]);
  if (!with_layers) add_inputs(graph, hash);
  return hash.value();
}

}  // namespace

std::uint64_t structural_hash(const Graph& graph) { return hash_of(graph, true); }

std::uint64_t layer_hash(const Graph& graph) { return hash_of(graph, false); }

}  // namespace alpa
