#pragma once
/// The layout of a tensor on a device mesh: every mesh axis splits one tensor dimension, holds
/// partial results, or holds copies (replicated). A dimension of extent D split over an axis of
/// size n gives chunks of ceil(D/n): device j holds [j·c, min((j+1)·c, D)), which may be short
/// or empty. Several axes on one dimension split it major first, each splitting the nominal
/// chunk of the axis before.
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/base/combiner.h"
#include "alpa/base/shape.h"
#include "alpa/base/text.h"
#pragma GCC visibility push(default)

namespace alpa {

class DeviceMesh;

inline constexpr int kMaxMeshAxes = 4;  ///< of a logical mesh

/// The role of one mesh axis for a tensor.
struct AxisPlacement {
  /// How the axis holds the tensor.
  enum class Kind : std::uint8_t { replicated, split, partial } kind = Kind::replicated;
  std::uint8_t dim = 0;    ///< split: the tensor dimension
  std::uint8_t order = 0;  ///< split: 0 for the major axis of that dimension, 1 for the next, …
  Combiner combiner = Combiner::sum;  ///< partial

  bool operator==(const AxisPlacement&) const = default;
};

/// Plain data in canonical form (unused fields are zero), so that == and hash are exact.
struct ShardingSpec {
  std::array<AxisPlacement, kMaxMeshAxes> axes{};  ///< by mesh axis

  bool operator==(const ShardingSpec&) const = default;

  static ShardingSpec replicated() { return {}; }  ///< whole on every device
  /// This spec with mesh axis `axis` (replicated before) splitting `dim`, as the
  /// minor-most of that dimension.
  ShardingSpec split(int axis, int dim) const;
  /// This spec with mesh axis `axis` (replicated before) holding partial results.
  ShardingSpec partial(int axis, Combiner combiner = Combiner::sum) const;
  /// This spec with mesh axis `axis` replicated; must be the minor-most of its dimension if it
  /// splits one. Throws Bug otherwise.
  ShardingSpec without(int axis) const;

  /// no axis splits it or holds partial results
  bool is_replicated() const { return *this == ShardingSpec{}; }
  bool is_partial() const;  ///< some axis holds partial results
  /// True if `axis` splits a dimension, and as the minor-most of its axes.
  bool is_minor_most(int axis) const;
  /// Mesh axes that split `dim`, major first.
  std::vector<int> axes_of(int dim) const;
};

/// "R" if fully replicated, else one word per axis that is not replicated, by dimension and major
/// first: "S0@1 S0@0 P+@2" (tensor dim 0 split over mesh axis 1, then over axis 0; partial sums
/// over axis 2; "Pmax@a" for maxima, "Plse@a" for logarithms of sums of exponentials). `parse_spec`
/// reads it back.
std::string to_string(const ShardingSpec& spec);
/// Inverse of `to_string`. Throws Error on any other text.
ShardingSpec parse_spec(std::string_view text);

/// A device's part of one dimension: [begin, begin + extent).
struct Extent {
  std::int64_t begin = 0, extent = 0;  ///< elements
  bool operator==(const Extent&) const = default;
};

/// A dimension cut into shards of nominal extent `chunk`: shard j starts at j·chunk; the last
/// ones may be short or empty.
struct ShardedDim {
  int dim = -1;            ///< of the tensor
  std::int64_t chunk = 0;  ///< nominal extent of a shard
  bool operator==(const ShardedDim&) const = default;
};

/// Part of dimension `dim` (of extent `size`) that the device at mesh coordinates `at` holds.
Extent shard_extent(std::int64_t size, const ShardingSpec& spec, int dim, const DeviceMesh& mesh,
                    const std::vector<int>& at);

/// Local shape and offset of the device at `at`.
Shape local_shape(const Shape& shape, const ShardingSpec& spec, const DeviceMesh& mesh,
                  const std::vector<int>& at);
/// Offset of that part in the whole tensor.
Shape local_offset(const Shape& shape, const ShardingSpec& spec, const DeviceMesh& mesh,
                   const std::vector<int>& at);

/// Bytes of the largest shard (that of coordinate 0).
std::int64_t shard_bytes(const TensorType& type, const ShardingSpec& spec, const DeviceMesh& mesh);

}  // namespace alpa

template <>
struct std::hash<alpa::ShardingSpec> {
  std::size_t operator()(const alpa::ShardingSpec& spec) const noexcept;
};

template <>
struct fmt::formatter<alpa::ShardingSpec> : alpa::TextFormatter<alpa::ShardingSpec> {};
#pragma GCC visibility pop
