#pragma once
/// Weights in files: reading and writing the parameters of a state, under the names and in the
/// layouts that other programs give them.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alpa/executable.h"
#include "alpa/train/safetensors.h"
#pragma GCC visibility push(default)

namespace alpa {

/// A parameter and its tensors in a file.
struct WeightName {
  std::string parameter;             ///< in the state, "blocks.0.attention.query.kernel"
  std::vector<std::string> tensors;  ///< in the file; several are joined along `axis`
  /// The file holds the last two dimensions in the other order: [out, in], as PyTorch's Linear.
  bool transposed = false;
  /// Of the parameter: along it several tensors are joined, or several parameters in a tensor.
  std::int64_t axis = -1;
  /// The tensors lack the dimension `axis`, along which the parameter has one behind another: as
  /// experts that are a tensor each.
  bool stacked = false;
  /// Extents along `axis` of several tensors, for writing; empty: equal ones.
  std::vector<std::int64_t> extents = {};
  /// The parameter is the part of its only tensor that begins here along `axis`. Such parameters
  /// share the tensor and must fill it, as queries, keys and values fill GPT-2's c_attn.
  std::optional<std::int64_t> start = {};
  /// The file holds [out, in, rows, columns] of a kernel [rows, columns, in, out], as PyTorch's
  /// Conv2d does. Not beside `transposed`, `start` or several tensors.
  bool convolution = false;
};

/// The rule from a state to a file. Tensors and parameters that it does not name are left alone.
using WeightMap = std::vector<WeightName>;

/// Every one of `TrainState::weights` under its own name.
WeightMap own_names(const TrainState& state);

/// Writes tensors of a file into the state, converted to the parameters' floating types. Throws
/// Error naming the parameter, the tensor and both types if one is missing or does not fit; the
/// state is then unchanged.
void load_weights(TrainState& state, const TensorFile& file, const WeightMap& map);
void load_weights(TrainState& state, const std::string& path, const WeightMap& map);

/// Adds every adapter of the state (`StepOptions::lora`) to the kernel beside it, and makes its
/// "lora_b" zero: the state computes what it did, and so does one without adapters. Returns how
/// many there were.
int merge_adapters(TrainState& state, const Lora& lora);

/// What a file and a state that are read by own names do not have in common.
struct LoadedWeights {
  std::vector<std::string> missing;     ///< parameters that the file lacks
  std::vector<std::string> unexpected;  ///< tensors of the file that the model lacks
};
/// How strictly a file must match a state.
struct LoadOptions {
  /// Loads what both have: parameters that the file lacks keep their content, e.g. a layer added
  /// since. Without it, any difference is an Error that names both sides.
  bool partial = false;
};
/// Of parameters under their own names. Throws Error if the file lacks one or has others, unless
/// `options` allow it, or if nothing is common; the state is then unchanged.
LoadedWeights load_weights(TrainState& state, const std::string& path, LoadOptions options = {});

/// Throws Error as `load_weights` would into a state of this graph (`TrainingStep::trace`), before
/// anything is planned. Reads no tensor.
void check_weights(const Graph& graph, const TensorFile& file, const WeightMap& map);

/// Writes parameters of the state to a safetensors file. Throws Error if the state lacks one, or if
/// the file can't be written.
void save_weights(const TrainState& state, const std::string& path, const WeightMap& map,
                  const std::map<std::string, std::string>& metadata = {});
void save_weights(const TrainState& state, const std::string& path);

}  // namespace alpa
#pragma GCC visibility pop
