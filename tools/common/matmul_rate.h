#pragma once
/// How fast this machine multiplies matrices: what a program's speed is a share of.
#include "alpa/mesh/cluster.h"

namespace cli {

/// FLOP/s of alpa's own matrix product of this element type on all usable cores: the fastest of
/// products over so many seconds, as others may use the cores; of small ones below 0.1 s.
double cpu_matmul_rate(alpa::DType dtype, double seconds);

/// The same of all devices of `cluster` together, whose cores or cards are this machine's: of the
/// cores, or cuBLAS's on each card. f32 on a card is without TF32. 0 for element types that cards
/// are not measured with.
double matmul_rate(const alpa::Cluster& cluster, alpa::DType dtype, double seconds);

}  // namespace cli
