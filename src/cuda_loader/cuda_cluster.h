#pragma once
/// The CUDA devices of this machine as a cluster.
#include "alpa/mesh/cluster.h"
#include "src/cuda_loader/cuda_library.h"

namespace alpa {

/// `n` devices on `cards` of this kind: one each if there are enough, else all of them logical
/// devices of one card, which share its memory and rates. Their memory is what is free but max(1
/// GiB, 2 %), at most a half, which is left to CUDA. `peers`: the cards reach each other's
/// memory directly. Rates are shares of what the card's clocks and units would give;
/// docs/cost-model.md says which.
Cluster cuda_cluster(int n, int cards, const CudaDevice& card, bool peers);

/// Description of this library and its cards, as `cuda_devices` returns it.
CudaDevices cuda_devices_of(const CudaSupport& cuda);

}  // namespace alpa
