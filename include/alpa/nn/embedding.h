#pragma once
/// The embedding layer: a learnt vector per token.
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
    require(rows >= 1 && width >= 1, "nn::Embedding: {} rows of width {}; give at least 1 of each",
            rows, width);
  }

  Value operator()(Value ids) const {
    const Scope in(ids, id_, "embedding");
    return embedding(table(in), ids);
  }

  /// The table in `builder`'s graph, for tied weights: [rows, width].
  Value table(Builder& builder) const { return table(Scope(builder, id_, "embedding")); }

  /// This layer with a frozen table: training does not change it.
  Embedding frozen() const {
    Embedding layer = *this;
    layer.id_.freeze();
    return layer;
  }

 private:
  Value table(const Scope& in) const {
    return in.parameter("table", {rows_, width_}, options_.table, options_.dtype);
  }

  LayerId id_;
  std::int64_t rows_, width_;
  EmbeddingOptions options_;
};

}  // namespace alpa::nn
