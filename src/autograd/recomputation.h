#pragma once
/// Values of rematerialised layers as one backward pass reads them: computed again when the first
/// of a layer is read, which is just before the layer's gradients.
#include <map>
#include <utility>
#include <vector>

#include "src/ir/recorder.h"

namespace alpa {

class Recomputation {
 public:
  /// Repeats nodes up to `last`, all of the builder's so far.
  Recomputation(Recorder& builder, int last);

  /// Node `n` with the operands and results that its gradient reads. Appends the nodes that are
  /// computed again for it, where that has not happened.
  Node node(int n);

 private:
  /// Part of a rematerialised layer, and its layer of the model: stages must not wait for earlier
  /// ones in the backward pass.
  using Part = std::pair<int, int>;
  struct Copies {
    std::vector<int> nodes;       ///< ascending
    std::map<int, int> of_value;  ///< by value of these nodes
    bool made = false;
  };
  /// The parts around a node, innermost first.
  std::vector<Part> parts_of(int n) const;
  void make(const std::vector<Part>& parts);
  /// The value that a reader inside these parts reads in place of `value`.
  int read(int value, const std::vector<Part>& parts) const;

  Recorder& builder_;
  std::map<Part, Copies> copies_;
};

}  // namespace alpa
