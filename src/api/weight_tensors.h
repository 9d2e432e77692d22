#pragma once
/// Parameters of a state as the tensors of a file, for formats that are written elsewhere.
#include "alpa/weights.h"

namespace alpa {

/// The tensors of the map, by name. Throws Error as `save_weights` does.
std::map<std::string, Array> weight_tensors(const TrainState& state, const WeightMap& map);

}  // namespace alpa
