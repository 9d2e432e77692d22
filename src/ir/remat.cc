// src/ir/remat.cc — rematerialised layers while a graph is recorded
#include <algorithm>
#include <map>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/recorder.h"

namespace alpa {

void Recorder::begin_remat() {
  const int number = remat_ < 0 ? num_remat_++ : remat_layers_[remat_].number;
  remat_layers_.push_back({.around = remat_, .number = number});
  remat_ = static_cast<int>(remat_layers_.size()) - 1;
}

void Recorder::end_remat() {
  invariant(remat_ >= 0, "end_remat without begin_remat");
  remat_ = remat_layers_[remat_].around;
}

void Recorder::enter_remat(Node& node) {
  node.remat = remat_layers_[remat_].number;
  const int outermost = outermost_remat(remat_);
  int& first = remat_layers_[outermost].first_node;
  if (first < 0) first = num_nodes();
  // A cut inside would need values of an earlier stage again once that stage's gradients are due.
  if (layer_per_node_ && region_ == Region::forward && is_rematerialised(node.remat))
    node.layer = first;
}

int Recorder::outermost_remat(int layer) const {
  while (remat_layers_[layer].around >= 0) layer = remat_layers_[layer].around;
  return layer;
}

bool Recorder::is_rematerialised(int number) const {
  return !rematerialised_ || std::find(rematerialised_->begin(), rematerialised_->end(), number) !=
                                 rematerialised_->end();
}

int Recorder::remat_layers_of_model() {
  if (num_remat_ > 0 || layer_per_node_) return num_remat_;
  std::map<int, int> layers;  // of the model, in order
  for (const Node& node : nodes_)
    if (node.layer >= 0 && node.op != &ops::input) layers[node.layer] = -1;
  for (auto& [layer, remat] : layers) {
    remat = static_cast<int>(remat_layers_.size());
    remat_layers_.push_back({.number = num_remat_++});
  }
  for (int n = 0; n < num_nodes(); ++n) {
    if (nodes_[n].layer < 0 || nodes_[n].op == &ops::input) continue;
    remat_of_node_[n] = layers.at(nodes_[n].layer);
    nodes_[n].remat = remat_layers_[remat_of_node_[n]].number;
  }
  return num_remat_;
}

std::vector<int> Recorder::remat_of(int node) const {
  std::vector<int> around;
  if (nodes_.at(node).remat < 0 || nodes_[node].again || !is_rematerialised(nodes_[node].remat))
    return around;
  for (int value : nodes_[node].operands) {
    const Node& source = nodes_[producer(value)];
    if (source.op == &ops::input && source.attributes.string("kind") == "accumulator")
      return around;  // it may have changed since
  }
  for (int layer = remat_of_node_[node]; layer >= 0; layer = remat_layers_[layer].around)
    around.push_back(layer);
  return around;
}

Values Recorder::repeat(int node, const Values& operands) {
  const Node& first = nodes_.at(node);
  const LayerScope layer(*this, first.layer);
  const Values results = emit(*first.op, operands, first.attributes);
  Node& copy = nodes_.back();
  copy.name = first.name + ".again";
  copy.remat = first.remat;
  copy.again = true;
  remat_of_node_.back() = -1;
  return results;
}

RematScope::RematScope(Builder& builder) : builder_(builder) { recorder(builder).begin_remat(); }

RematScope::~RematScope() { recorder(builder_).end_remat(); }

}  // namespace alpa
