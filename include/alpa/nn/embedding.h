#pragma once
/// Learnt vectors of tokens.
#include <cstdint>

#include "alpa/base/error.h"
#include "alpa/nn/layer.h"
#include "alpa/ops/ops.h"

namespace alpa::nn {

struct EmbeddingOptions {
  Initializer table = Initializer::normal(0, 0.02);  ///< GPT-2's (Radford et al. 2019)
  DType dtype = f32;
};

/// ids i32 [...] → [..., width]: rows of the parameter "embeddingN.table" [rows, width].
class Embedding {
 public:
  /// Throws Error if rows or width is below 1.
  Embedding(std::int64_t rows, std::int64_t width, EmbeddingOptions options = {})
      : rows_(rows), width_(width), options_(options) {
    require(rows >= 1 && width >= 1, "nn::Embedding: {} rows of width {}; give at least 1 of each", rows,
            width);
  }

  Value operator()(Value ids) const {
    Builder& builder = *ids.builder;
    const Scope scope(builder, id_.name(builder, "embedding"));
    return embedding(table(builder), ids);
  }

  /// The table in `builder`'s graph, for use elsewhere too (tied weights): [rows, width].
  Value table(Builder& builder) const {
    return builder.parameter(id_.name(builder, "embedding") + ".table", {options_.dtype, {rows_, width_}},
                             options_.table);
  }

 private:
  LayerId id_;
  std::int64_t rows_, width_;
  EmbeddingOptions options_;
};

}  // namespace alpa::nn
