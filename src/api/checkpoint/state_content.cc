// src/api/checkpoint/state_content.cc — finds and copies the boxes of a TrainState
#include "src/api/checkpoint/state_content.h"

#include "src/spmd/program.h"

namespace alpa::checkpoint {

StateContent::StateContent(const TrainState& state) : state_(state) { state.executor(); }

const std::vector<runtime::StateBox>& StateContent::boxes() const {
  return state_.executor().state_boxes();
}

const Graph& StateContent::graph() const { return state_.executor().program().graph; }

const std::shared_ptr<const CompiledStep>& StateContent::planned() const { return state_.planned_; }

const std::vector<runtime::StateBox>& StateContent::boxes_here() const {
  return state_.executor().state_boxes_here();
}

void StateContent::watch(const std::shared_ptr<runtime::Background>& background) const {
  state_.executor().add_background(*state_.state_, background);
}

runtime::StateCounters StateContent::read(const std::vector<runtime::StateBox>& boxes,
                                          std::byte* snapshot) const {
  return state_.executor().snapshot(*state_.state_, boxes, snapshot);
}

void StateContent::write(const std::vector<runtime::StateBox>& boxes, const std::byte* snapshot,
                         const runtime::StateCounters* counters) const {
  state_.executor().restore(*state_.state_, boxes, snapshot, counters);
}

}  // namespace alpa::checkpoint
