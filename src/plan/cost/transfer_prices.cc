// src/plan/cost/transfer_prices.cc — remembers transfers by what their price depends on
#include "src/plan/cost/transfer_prices.h"

#include <algorithm>
#include <utility>

namespace alpa::cost {
namespace {

int least_device(const DeviceMesh& mesh) {
  return *std::min_element(mesh.devices().begin(), mesh.devices().end());
}

DeviceMesh moved(const DeviceMesh& mesh, int offset) {
  std::vector<int> devices = mesh.devices();
  for (int& device : devices) device -= offset;
  return {mesh.axes(), std::move(devices)};
}

/// The answer known, or a new one.
template <class AllKnown, class Question, class Answer>
auto find_or_add(AllKnown& known, Question question, const Answer& answer) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const auto& k) { return k.question == question; });
  if (found != known.end()) return found->answer;
  const auto result = answer();
  known.push_back({std::move(question), result});
  return result;
}

}  // namespace

TransferPrices::Question TransferPrices::question_of(const TensorType& type, const MeshLayout& from,
                                                     const MeshLayout& to,
                                                     const TransferRoute& route) const {
  const int first = std::min(least_device(from.mesh), least_device(to.mesh));
  const int offset = first - first % cluster_.devices_per_host;
  return {type, from.spec, to.spec, route, moved(from.mesh, offset), moved(to.mesh, offset)};
}

PlannedTransfer TransferPrices::plan(const TensorType& type, const MeshLayout& from,
                                     const MeshLayout& to) {
  return find_or_add(planned_, question_of(type, from, to, {}),
                     [&] { return plan_transfer(type, from, to, cluster_); });
}

TransferCost TransferPrices::cost(const TensorType& type, const MeshLayout& from,
                                  const MeshLayout& to, const TransferRoute& route) {
  return find_or_add(priced_, question_of(type, from, to, route),
                     [&] { return transfer_cost(type, from, to, cluster_, route); });
}

}  // namespace alpa::cost
