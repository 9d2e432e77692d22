#include <cstring>

#include "alpa/ir/graph.h"

namespace alpa {
namespace {

/// FNV-1a, 64 bits: the same on every machine, so that plans written on one are accepted by another.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (unsigned char byte : bytes) state_ = (state_ ^ byte) * 0x100000001b3u;
    add(static_cast<std::int64_t>(bytes.size()));
  }
  void add(std::int64_t number) {
    for (int i = 0; i < 8; ++i)
      state_ = (state_ ^ (static_cast<std::uint64_t>(number) >> (8 * i) & 0xff)) * 0x100000001b3u;
  }
  void add(const TensorType& type) {
    add(name_of(type.dtype));
    add(static_cast<std::int64_t>(type.shape.size()));
    for (std::int64_t extent : type.shape) add(extent);
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace

std::uint64_t structural_hash(const Graph& graph) {
  Hash hash;
  std::vector<std::int64_t> number(graph.values.size(),
                                   -1);  // values in order of definition, whatever their ids
  std::int64_t next = 0;
  hash.add(static_cast<std::int64_t>(graph.num_micro_batches));
  for (const Node& node : graph.nodes) {
    hash.add(node.op->name);
    hash.add(to_string(node.attributes));
    hash.add(static_cast<std::int64_t>(node.operands.size()));
    for (int value : node.operands) hash.add(number[value]);
    for (int value : node.results) {
      number[value] = next++;
      hash.add(graph.type(value));
    }
    hash.add(static_cast<std::int64_t>(node.region));
    hash.add(static_cast<std::int64_t>(node.layer));
  }
  for (const Update& update : graph.updates) {
    hash.add(number[update.input]);
    hash.add(number[update.value]);
  }
  for (const Metric& metric : graph.metrics) hash.add(number[metric.value]);
  for (const Output& output : graph.outputs) hash.add(number[output.value]);
  return hash.value();
}

}  // namespace alpa
