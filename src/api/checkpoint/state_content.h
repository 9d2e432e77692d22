#pragma once
/// Tensors and counters of a state, and its copies in host memory.
#include <cstddef>
#include <memory>
#include <vector>

#include "alpa/executable.h"
#include "src/runtime/device_state.h"
#include "src/runtime/executor.h"

namespace alpa::checkpoint {

/// The boxes of a state, which it keeps alive.
class StateContent {
 public:
  /// Throws Error if the state is empty.
  explicit StateContent(const TrainState& state);

  const Graph& graph() const;  ///< whose state inputs are the tensors
  /// Plan and programs of the executable that made the state.
  const std::shared_ptr<const CompiledStep>& planned() const;
  /// Tensors of all processes.
  const std::vector<runtime::StateBox>& boxes() const;
  /// Tensors that this process holds, with their places in a snapshot of these.
  const std::vector<runtime::StateBox>& boxes_here() const;

  /// From now on, what is recorded there is thrown at the next step on the state.
  void watch(const std::shared_ptr<runtime::Background>& background) const;
  /// Copies boxes that this process holds to a snapshot, after all started steps.
  runtime::StateCounters read(const std::vector<runtime::StateBox>& boxes,
                              std::byte* snapshot) const;
  /// Copies `boxes` of a snapshot into the state. `counters`: null for none.
  void write(const std::vector<runtime::StateBox>& boxes, const std::byte* snapshot,
             const runtime::StateCounters* counters) const;

 private:
  TrainState state_;
};

}  // namespace alpa::checkpoint
