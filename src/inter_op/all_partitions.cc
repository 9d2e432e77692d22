// src/inter_op/all_partitions.cc — lists the partitions of small models on small clusters
#include "all_partitions.h"

#include "alpa/base/error.h"

namespace alpa::inter_op {
namespace {

bool can_be_placed(const Submesh& cluster, const StagePartition& partition) {
  try {
    place_in_order(cluster, submeshes_of(partition));
    return true;
  } catch (const Error&) {
    return false;
  }
}

class Listing {
 public:
  Listing(const Submesh& cluster, const std::vector<Submesh>& submeshes, int layers,
          std::size_t most)
      : cluster_(cluster), submeshes_(submeshes), layers_(layers), most_(most) {}

  /// False: there are too many.
  bool add(int first_layer, int devices_left) {
    if (first_layer == layers_) {
      if (devices_left == 0 && can_be_placed(cluster_, begun_)) all_.push_back(begun_);
      return all_.size() <= most_;
    }
    for (const Submesh& submesh : submeshes_) {
      const int left = devices_left - submesh.num_devices();
      for (int last = first_layer; left >= 0 && last < layers_; ++last) {
        if ((left == 0) != (last == layers_ - 1)) continue;
        begun_.stages.push_back({first_layer, last, submesh, -1});
        const bool few = add(last + 1, left);
        begun_.stages.pop_back();
        if (!few) return false;
      }
    }
    return true;
  }

  std::vector<StagePartition> all() && { return std::move(all_); }

 private:
  const Submesh cluster_;
  const std::vector<Submesh>& submeshes_;
  const int layers_;
  const std::size_t most_;
  StagePartition begun_;
  std::vector<StagePartition> all_;
};

}  // namespace

std::vector<StagePartition> all_partitions(const Submesh& cluster,
                                           const std::vector<Submesh>& submeshes, int layers,
                                           std::size_t most) {
  Listing listing(cluster, submeshes, layers, most);
  if (!listing.add(0, cluster.num_devices())) return {};
  return std::move(listing).all();
}

}  // namespace alpa::inter_op
