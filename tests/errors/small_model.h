#pragma once
/// The model whose mistakes are tested: x f32[n, 6] through one dense layer
/// of 4, against y f32[n, 4].
#include <alpa/alpa.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace alpa::testing {

inline std::vector<BatchInput> small_inputs(std::int64_t n = 12) {
  return {{"x", {f32, {n, 6}}}, {"y", {f32, {n, 4}}}};
}

inline TrainingStep small_step(std::int64_t n = 12) {
  const nn::Dense dense(4, {.bias = false});
  const auto model = [dense](const Batch& b) {
    return nn::mean_squared_error(dense(b["x"]), b["y"]);
  };
  return training_step(small_inputs(n), model, optim::Sgd{.learning_rate = 0.1});
}

inline Array zero_array(Shape shape, DType dtype = f32) {
  Array array(TensorType{dtype, std::move(shape)});
  std::memset(array.mutable_data(), 0, static_cast<std::size_t>(array.bytes()));
  return array;
}

inline std::map<std::string, Array> small_batch() {
  return {{"x", zero_array({12, 6})}, {"y", zero_array({12, 4})}};
}

/// Traces a model on the small inputs, as `parallelize` does first.
template <class Model>
void trace(Model&& model) {
  training_step(small_inputs(), std::forward<Model>(model), optim::Sgd{}).trace(1);
}

}  // namespace alpa::testing
