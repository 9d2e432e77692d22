#pragma once
/// The models: a record each. `alpa train`, `alpa plan` and the programs alpa-gpt, alpa-mlp and
/// others read them.
#include <string>
#include <vector>

#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

/// A model by name. The record of `alpa-NAME` is in models/NAME.cc.
struct Model {
  std::string name, purpose;            ///< purpose: the first line of its `--help`
  std::vector<std::string> sizes = {};  ///< empty: it is trained, but not planned
  Flags initial = {};                   ///< values of flags that are not given
  std::vector<cli::Flag> (*rows)(Flags& flags) = nullptr;
  /// Gives extents that are not given the values that the size `flags.model` was published with.
  void (*publish)(Flags& flags) = nullptr;
  /// The model and its data; without examples if it is only planned.
  Task (*task)(const Flags& flags) = nullptr;
  void (*train)(Flags& flags) = nullptr;  ///< nullptr: `run_task` of `task`
};

extern const Model gpt, llama, moe, bert, vit, wide_resnet, mlp, pipeline_mlp;

/// The names of those that can be planned.
std::vector<std::string> planned_models();

/// The model that can be planned. Throws Error that lists them if there is none of this name.
const Model& planned_model(const std::string& name);

/// Flags that plan a published size: the batch, rematerialisation and extents are those of `flags`.
/// Throws Error that lists the sizes if there is none of this name, and for an extent that was
/// given although the model does not have it. `model.task` makes the task of them, without data.
Flags planned_flags(const Model& model, const std::string& size, const Flags& flags);

/// The same for a decoder that `origin` describes, of the model `gpt`. Throws Error for more tokens
/// in an example than it has positions.
Flags planned_flags(const alpa::models::DecoderOptions& decoder, const std::string& origin,
                    const Flags& flags);
/// The same for BERT, of the model `bert`. Throws Error, too, if it predicts no hidden tokens.
Flags planned_flags(const alpa::models::BertOptions& bert, const std::string& origin,
                    const Flags& flags);

/// The names of published sizes.
std::vector<std::string> names_of(const auto& sizes) {
  std::vector<std::string> names;
  for (const auto& size : sizes) names.emplace_back(size.name);
  return names;
}

}  // namespace programs
