// src/optim/adamw.cc — AdamW's update: one node, or several if moments are kept in fewer bits
#include <optional>
#include <vector>

#include "alpa/optim/adam.h"

namespace alpa::optim {
namespace {

constexpr std::int64_t kBlock = 256, kFewElements = 4096;
constexpr double kLeastScale = 1e-30;  // of a block of zeros

/// The shape with the elements of the last dimensions in blocks: [.., blocks, 256], of as few
/// dimensions as 256 allows, so that the others can be split. None if there are no such blocks.
std::optional<Shape> in_blocks(const Shape& shape) {
  if (num_elements(shape) < kFewElements) return std::nullopt;
  std::int64_t elements = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    elements *= shape[d];
    if (elements % kBlock != 0) continue;
    Shape blocks(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(d));
    blocks.insert(blocks.end(), {elements / kBlock, kBlock});
    return blocks;
  }
  return std::nullopt;
}

/// The shape in which moments are kept in fewer bits; none if they are kept in full.
std::optional<Shape> kept_shape(const Shape& shape, Moments moments) {
  if (moments == Moments::full) return std::nullopt;
  return moments == Moments::bf16 ? shape : in_blocks(shape);
}

/// A moment of w that is kept in fewer bits, as state "<w>.<name>".
struct KeptMoment {
  Value kept, scale;
  bool is_signed;

  KeptMoment(Value w, const std::string& name, const Shape& shape, Moments moments, bool is_signed)
      : is_signed(is_signed) {
    const bool coded = moments == Moments::eight_bit;
    kept = w.builder->optimizer_state(w, name, TensorType{coded ? u8 : bf16, shape});
    if (!coded) return;
    Shape one_per_block = shape;
    one_per_block.back() = 1;
    scale = w.builder->optimizer_state(w, name + "_scale", TensorType{f32, one_per_block});
  }

  Value read(DType dtype) const {
    return cast(scale ? dynamic_value(kept, is_signed) * scale : kept, dtype);
  }

  void write(Value x) const {
    Builder& builder = x;
    if (!scale) return builder.update(kept, stochastic_bf16(x));
    const Value largest = maximum(max(abs(x), {-1}, true), kLeastScale);
    builder.update(kept, dynamic_code(x / largest, is_signed));
    builder.update(scale, cast(largest, f32));
  }
};

/// The new content of w, from its f32 value.
Value narrowed(Value next, Value w, Moments moments) {
  return w.dtype() == bf16 && moments == Moments::bf16 ? stochastic_bf16(next)
                                                       : cast(next, w.dtype());
}

}  // namespace

void AdamW::update(Builder& builder, Value w, Value gradient, Value rate, Value step) const {
  const std::optional<Shape> shape = kept_shape(w.shape(), moments);
  if (!shape) {
    const Value m = builder.optimizer_state(w, "adam_m"), v = builder.optimizer_state(w, "adam_v");
    const Values next =
        adam_update(w, m, v, gradient, rate, step, {beta1, beta2, epsilon, weight_decay});
    builder.update(w, next[0]);
    builder.update(m, next[1]);
    builder.update(v, next[2]);
    return;
  }
  const DType dtype = update_dtype(w);
  const auto prepared = [&](Value x) { return reshape(cast(x, dtype), *shape); };
  const KeptMoment m(w, "adam_m", *shape, moments, true), v(w, "adam_v", *shape, moments, false);
  const Value old = prepared(w), g = prepared(gradient);
  const Value new_m = averaged(m.read(dtype), g, beta1),
              new_v = averaged(v.read(dtype), square(g), beta2);
  const Value direction =
      adam_direction(new_m, new_v, cast(step, dtype), beta1, beta2, epsilon) + old * weight_decay;
  const Value next = reshape(old - direction * cast(rate, dtype), w.shape());
  builder.update(w, narrowed(next, w, moments));
  m.write(new_m);
  v.write(new_v);
}

}  // namespace alpa::optim
