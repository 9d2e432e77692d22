// src/mesh/sharding_spec.cc — layouts of a tensor on a mesh: text form and local parts
#include "alpa/mesh/sharding_spec.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/mesh/device_mesh.h"
#include "src/base/leading_number.h"
#include "src/base/name_table.h"

namespace alpa {
namespace {

using Kind = AxisPlacement::Kind;
constexpr int kMaxDims = 256;  // AxisPlacement::dim is one byte

void check_axis(int axis) {
  invariant(axis >= 0 && axis < kMaxMeshAxes, "sharding spec: mesh axis {}", axis);
}

int splits_of(const ShardingSpec& spec, int dim) {
  return static_cast<int>(
      std::count_if(spec.axes.begin(), spec.axes.end(),
                    [&](const AxisPlacement& a) { return a.kind == Kind::split && a.dim == dim; }));
}

/// The mesh axis that splits `dim` as number `order` of those that do; -1: there are fewer.
int axis_of(const ShardingSpec& spec, int dim, int order) {
  for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
    const AxisPlacement& a = spec.axes[axis];
    if (a.kind == Kind::split && a.dim == dim && a.order == order) return axis;
  }
  return -1;
}

AxisPlacement& replicated_axis(ShardingSpec& spec, int axis) {
  check_axis(axis);
  if (spec.axes[axis].kind != Kind::replicated)
    bug("sharding spec {}: mesh axis {} is in use", to_string(spec), axis);
  return spec.axes[axis];
}

std::string_view combiner_text(Combiner combiner) {
  constexpr std::string_view kNames[] = {"+", "max", "lse"};
  return name_in(kNames, combiner, "combiner");
}

[[noreturn]] void bad_spec(std::string_view text, std::string_view what) {
  fail(
      "sharding spec \"{}\": {}; write \"R\", or words like \"S0@1\" (tensor dimension 0 split "
      "over mesh axis 1, major axis first), \"P+@0\", \"Pmax@0\" or \"Plse@0\" (partial over mesh "
      "axis 0)",
      excerpt(text), excerpt(what, 200));
}

/// Reads a number below `limit` at the front of `word` and removes it.
int take_number(std::string_view text, std::string_view& word, int limit, std::string_view what) {
  const std::string before(word);
  const std::optional<int> number = take_leading_number(word);
  if (!number) bad_spec(text, fmt::format("expected a {} at \"{}\"", what, before));
  if (*number >= limit) bad_spec(text, fmt::format("{} {} is not below {}", what, *number, limit));
  return *number;
}

int take_axis(std::string_view text, std::string_view& word, const ShardingSpec& spec) {
  if (word.empty() || word.front() != '@')
    bad_spec(text, fmt::format("expected \"@\" and a mesh axis at \"{}\"", word));
  word.remove_prefix(1);
  const int axis = take_number(text, word, kMaxMeshAxes, "mesh axis");
  if (!word.empty())
    bad_spec(text, fmt::format("unexpected \"{}\" after mesh axis {}", word, axis));
  if (spec.axes[axis].kind != Kind::replicated)
    bad_spec(text, fmt::format("mesh axis {} is used twice", axis));
  return axis;
}

Combiner take_combiner(std::string_view text, std::string_view& word) {
  for (Combiner combiner : kCombiners) {
    const std::string_view name = combiner_text(combiner);
    if (word.substr(0, name.size()) != name) continue;
    word.remove_prefix(name.size());
    return combiner;
  }
  bad_spec(text, fmt::format("expected \"+\", \"max\" or \"lse\" after \"P\" at \"{}\"", word));
}

void check_one_combiner(std::string_view text, const ShardingSpec& spec, Combiner combiner) {
  for (const AxisPlacement& a : spec.axes) {
    if (a.kind == Kind::partial && a.combiner != combiner)
      bad_spec(text, "partial results of several kinds cannot be mixed");
  }
}

ShardingSpec with_word(std::string_view text, std::string_view word, const ShardingSpec& spec) {
  std::string_view rest = word.substr(1);
  if (word.front() == 'S') {
    const int dim = take_number(text, rest, kMaxDims, "tensor dimension");
    return spec.split(take_axis(text, rest, spec), dim);
  }
  if (word.front() == 'P') {
    const Combiner combiner = take_combiner(text, rest);
    check_one_combiner(text, spec, combiner);
    return spec.partial(take_axis(text, rest, spec), combiner);
  }
  bad_spec(text, fmt::format("unknown word \"{}\"", word));
}

}  // namespace

ShardingSpec ShardingSpec::split(int axis, int dim) const {
  invariant(dim >= 0 && dim < kMaxDims, "sharding spec: tensor dimension {}", dim);
  ShardingSpec result = *this;
  replicated_axis(result, axis) = {.kind = Kind::split,
                                   .dim = static_cast<std::uint8_t>(dim),
                                   .order = static_cast<std::uint8_t>(splits_of(*this, dim))};
  return result;
}

ShardingSpec ShardingSpec::partial(int axis, Combiner combiner) const {
  ShardingSpec result = *this;
  replicated_axis(result, axis) = {.kind = Kind::partial, .combiner = combiner};
  return result;
}

ShardingSpec ShardingSpec::without(int axis) const {
  check_axis(axis);
  const AxisPlacement& a = axes[axis];
  if (a.kind == Kind::split && !is_minor_most(axis))
    bug("sharding spec {}: mesh axis {} is not the minor-most of dimension {}", to_string(*this),
        axis, a.dim);
  ShardingSpec result = *this;
  result.axes[axis] = {};
  return result;
}

bool ShardingSpec::is_minor_most(int axis) const {
  const AxisPlacement& a = axes[axis];
  return a.kind == Kind::split && a.order + 1 == splits_of(*this, a.dim);
}

bool ShardingSpec::is_partial() const {
  return std::any_of(axes.begin(), axes.end(),
                     [](const AxisPlacement& a) { return a.kind == Kind::partial; });
}

std::vector<int> ShardingSpec::axes_of(int dim) const {
  std::vector<int> result(splits_of(*this, dim));
  for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
    if (axes[axis].kind == Kind::split && axes[axis].dim == dim) result[axes[axis].order] = axis;
  }
  return result;
}

std::string to_string(const ShardingSpec& spec) {
  std::vector<int> splits, partials;
  for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
    if (spec.axes[axis].kind == Kind::split) splits.push_back(axis);
    if (spec.axes[axis].kind == Kind::partial) partials.push_back(axis);
  }
  std::sort(splits.begin(), splits.end(), [&](int a, int b) {
    const AxisPlacement &x = spec.axes[a], &y = spec.axes[b];
    return x.dim != y.dim ? x.dim < y.dim : x.order < y.order;
  });
  std::string text;
  for (int axis : splits)
    text += fmt::format("{}S{}@{}", text.empty() ? "" : " ", spec.axes[axis].dim, axis);
  for (int axis : partials) {
    text += fmt::format("{}P{}@{}", text.empty() ? "" : " ",
                        combiner_text(spec.axes[axis].combiner), axis);
  }
  return text.empty() ? "R" : text;
}

ShardingSpec parse_spec(std::string_view text) {
  if (text == "R") return {};
  ShardingSpec spec;
  std::string_view rest = text;
  do {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (end == 0)
      bad_spec(text, text.empty() ? "empty" : "words must be separated by single spaces");
    spec = with_word(text, rest.substr(0, end), spec);
    if (end == rest.size()) return spec;
    rest.remove_prefix(end + 1);
  } while (true);
}

Extent shard_extent(std::int64_t size, const ShardingSpec& spec, int dim, const DeviceMesh& mesh,
                    const std::vector<int>& at) {
  std::int64_t begin = 0, end = size, chunk = size;
  for (int order = 0, axis = 0; (axis = axis_of(spec, dim, order)) >= 0; ++order) {
    if (axis >= mesh.num_axes())
      bug("sharding spec {} on a mesh of {} axes", to_string(spec), mesh.num_axes());
    chunk = (chunk + mesh.size(axis) - 1) / mesh.size(axis);
    begin = std::min(begin + at[axis] * chunk, end);
    end = std::min(begin + chunk, end);
  }
  return {begin, end - begin};
}

Shape local_shape(const Shape& shape, const ShardingSpec& spec, const DeviceMesh& mesh,
                  const std::vector<int>& at) {
  Shape local(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    local[d] = shard_extent(shape[d], spec, d, mesh, at).extent;
  return local;
}

Shape local_offset(const Shape& shape, const ShardingSpec& spec, const DeviceMesh& mesh,
                   const std::vector<int>& at) {
  Shape offset(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    offset[d] = shard_extent(shape[d], spec, d, mesh, at).begin;
  return offset;
}

std::int64_t shard_bytes(const TensorType& type, const ShardingSpec& spec, const DeviceMesh& mesh) {
  const std::vector<int> origin(mesh.num_axes(), 0);
  return TensorType{type.dtype, local_shape(type.shape, spec, mesh, origin)}.bytes();
}

}  // namespace alpa

std::size_t std::hash<alpa::ShardingSpec>::operator()(
    const alpa::ShardingSpec& spec) const noexcept {
  std::uint64_t packed = 0;
  for (const alpa::AxisPlacement& a : spec.axes) {
    const unsigned order_and_kind =
        a.order << 4 | static_cast<unsigned>(a.kind) << 2 | static_cast<unsigned>(a.combiner);
    packed = packed << 16 | static_cast<unsigned>(a.dim) << 8 | order_and_kind;
  }
  packed = (packed ^ packed >> 31) *
           0x9e3779b97f4a7c15;  // Fibonacci hashing spreads the packed fields over all bits
  return packed ^ packed >> 32;
}
