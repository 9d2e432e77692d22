// src/nn/layer.cc — scopes of layers in the graph that is recorded
#include "alpa/nn/layer.h"

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "kernels/plan/quantized_block.h"
#include "src/ir/recorder.h"

namespace alpa::nn {

Scope::Scope(Builder& builder, const LayerId& id, std::string_view kind, std::optional<DType> dtype)
    : builder_(builder), dtype_(dtype.value_or(recorder(builder).parameter_view().compute)) {
  recorder(builder).push_layer({id.number(), kind, id.name()});
  name_ = recorder(builder).scope_path();
}

Scope::Scope(Builder& builder, std::string_view path) : builder_(builder), is_layer_(false) {
  recorder(builder).push_path(path);
  name_ = recorder(builder).scope_path();
}

Scope::~Scope() { recorder(builder_).pop_scope(); }

Value Scope::parameter(std::string_view name, const Shape& shape, Initializer init,
                       std::optional<DType> dtype) const {
  return builder_.parameter(path_of(name), {dtype.value_or(dtype_), shape}, init);
}

Value Scope::state(std::string_view name, Value of, const Shape& shape, Initializer init,
                   std::optional<DType> dtype) const {
  return builder_.state_of(of, path_of(name), {dtype.value_or(dtype_), shape}, init);
}

Value Scope::product(Value x, std::int64_t features, Initializer init) const {
  const std::int64_t inputs = x.dim(-1);
  std::optional<Quantization> type;
  if (inputs % kernels::kBlockElements == 0) type = recorder(builder_).quantization_of(name_);
  if (!type) return matmul(x, parameter("kernel", {inputs, features}, init));
  const Value kernel = parameter(
      "kernel", kernels::quantized_shape(static_cast<int>(*type), inputs, features), zeros, u8);
  recorder(builder_).freeze(kernel);
  return cast(quantized_matmul(cast(x, f32), kernel), x.dtype());
}

bool Scope::frozen(std::string_view name) const {
  return recorder(builder_).will_freeze(path_of(name));
}

std::optional<Lora> Scope::lora() const { return recorder(builder_).lora_of(name_); }

std::string Scope::path_of(std::string_view name) const {
  require(is_layer_,
          "parameter \"{}\" of scope \"{}\": two calls would share it; hold an nn::LayerId and "
          "open the scope with it",
          name, name_);
  return name_ + "." + std::string(name);
}

void suggest_name(Builder& builder, const LayerId& id, std::string_view name) {
  recorder(builder).suggest_name(id.number(), name);
}

}  // namespace alpa::nn
