// src/autograd/recomputation.cc — computes rematerialised layers again for the backward pass
#include "recomputation.h"

namespace alpa {

Recomputation::Recomputation(Recorder& builder, int last) : builder_(builder) {
  for (int n = 0; n <= last; ++n)
    for (const Part& part : parts_of(n)) copies_[part].nodes.push_back(n);
}

std::vector<Recomputation::Part> Recomputation::parts_of(int n) const {
  std::vector<Part> parts;
  for (int layer : builder_.remat_of(n)) parts.emplace_back(layer, builder_.node(n).layer);
  return parts;
}

Node Recomputation::node(int n) {
  Node node = builder_.node(n);
  const std::vector<Part> parts = parts_of(n);
  make(parts);
  for (int& value : node.operands) value = read(value, parts);
  for (int& value : node.results) value = read(value, parts);
  return node;
}

/// Outermost first: an inner layer reads what the outer one computed again.
void Recomputation::make(const std::vector<Part>& parts) {
  for (std::size_t inner = parts.size(); inner-- > 0;) {
    Copies& copies = copies_.at(parts[inner]);
    if (copies.made) continue;
    copies.made = true;
    const std::vector<Part> around(parts.begin() + static_cast<std::ptrdiff_t>(inner), parts.end());
    for (int n : copies.nodes) {
      Values operands;
      for (int value : builder_.node(n).operands)
        operands.push_back(builder_.value(read(value, around)));
      const Values results = builder_.repeat(n, operands);
      for (std::size_t i = 0; i < results.size(); ++i)
        copies.of_value[builder_.node(n).results[i]] = results[i].id;
    }
  }
}

int Recomputation::read(int value, const std::vector<Part>& parts) const {
  for (const Part& part : parts) {
    const std::map<int, int>& known = copies_.at(part).of_value;
    if (const auto found = known.find(value); found != known.end()) return found->second;
  }
  return value;
}

}  // namespace alpa
