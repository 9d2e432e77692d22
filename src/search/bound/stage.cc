// src/search/bound/stage.cc — stages as text, compared and placed
#include "src/search/bound/stage.h"

#include <algorithm>

namespace alpa::inter_op {

std::string to_string(const StagePartition& partition) {
  std::string text;
  for (const Stage& stage : partition.stages) {
    text += fmt::format("{}[layers {}-{} on {}", text.empty() ? "" : " ", stage.first_layer,
                        stage.last_layer, stage.submesh);
    if (stage.configuration >= 0) text += fmt::format(", configuration {}", stage.configuration);
    text += "]";
  }
  return text;
}

std::vector<Submesh> submeshes_of(const StagePartition& partition) {
  std::vector<Submesh> submeshes;
  for (const Stage& stage : partition.stages) submeshes.push_back(stage.submesh);
  return submeshes;
}

bool have_equal_cuts(const StagePartition& a, const StagePartition& b) {
  return std::ranges::equal(a.stages, b.stages, [](const Stage& x, const Stage& y) {
    return x.first_layer == y.first_layer && x.last_layer == y.last_layer && x.submesh == y.submesh;
  });
}

std::vector<int> hosts_of(const Submesh& cluster, const StagePartition& partition) {
  std::vector<int> hosts;
  for (const std::vector<int>& devices : place_in_order(cluster, submeshes_of(partition))) {
    const int host = devices.front() / cluster.devices;
    hosts.push_back(host == devices.back() / cluster.devices ? host : -1);
  }
  return hosts;
}

}  // namespace alpa::inter_op
