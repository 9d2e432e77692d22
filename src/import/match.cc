// src/import/match.cc — who makes and reads values of a flat function
#include "src/import/match.h"

#include <unordered_map>

#include "src/import/emit.h"

namespace alpa::stablehlo {
namespace {

bool is_floating_type(const Type& type) { return type.element[0] == 'f' || type.element == "bf16"; }

const FlatOperation* producer(const Matching& m, int v) {
  const int made = m.value(v).producer;
  return made < 0 ? nullptr : &m.flat.operations[static_cast<std::size_t>(made)];
}

/// Dimensions of `to` in which those of `from` are, where only extents of 1 come and go. `fits` is
/// false for another reshape.
std::vector<int> unit_reshape(const Shape& from, const Shape& to, bool& fits) {
  std::vector<int> dims(from.size(), -1);
  std::size_t at = 0;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1) continue;
    while (at < to.size() && to[at] == 1) ++at;
    if (at == to.size() || to[at] != from[d]) {
      fits = false;
      return {};
    }
    dims[d] = static_cast<int>(at++);
  }
  while (at < to.size() && to[at] == 1) ++at;
  fits = at == to.size();
  return dims;
}

}  // namespace

int Matching::unconverted(int v) const {
  for (const FlatOperation* made = producer(*this, v);
       made && made->kind == "stablehlo.convert" && is_floating_type(value(v).type) &&
       is_floating_type(value(made->operands[0]).type);
       made = producer(*this, v))
    v = made->operands[0];
  return v;
}

const FlatOperation* Matching::made_by(int v, std::string_view kind) const {
  const FlatOperation* const made = v < 0 ? nullptr : producer(*this, unconverted(v));
  return made && made->kind == kind ? made : nullptr;
}

Spread Matching::spread(int v) const {
  Spread found{.base = v, .dims = {}};
  for (int d = 0; d < rank(v); ++d)
    found.dims.push_back(shape(v)[static_cast<std::size_t>(d)] == 1 ? -1 : d);
  for (;;) {
    const FlatOperation* const made = producer(*this, found.base);
    if (!made || made->operands.empty()) return found;
    const int from = made->operands[0];
    std::vector<int> dims;
    bool fits = true;
    if (made->kind == "stablehlo.broadcast_in_dim")
      for (std::int64_t d : made->source->integers("broadcast_dimensions"))
        dims.push_back(static_cast<int>(d));
    else if (made->kind == "stablehlo.reshape")
      dims = unit_reshape(shape(from), shape(found.base), fits);
    else if (unconverted(found.base) == from)
      for (int d = 0; d < rank(from); ++d) dims.push_back(d);
    else
      return found;
    if (!fits || static_cast<int>(dims.size()) != rank(from)) return found;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] >= static_cast<int>(found.dims.size())) return found;
      dims[d] =
          dims[d] < 0 || shape(from)[d] == 1 ? -1 : found.dims[static_cast<std::size_t>(dims[d])];
    }
    found = {from, dims};
  }
}

int Matching::rows(int v, int like) const {
  const Spread from = spread(v);
  int next = 0;
  for (std::size_t d = 0; d < from.dims.size(); ++d) {
    if (from.dims[d] < 0) continue;
    while (next < from.dims[d] && shape(like)[static_cast<std::size_t>(next)] == 1) ++next;
    if (from.dims[d] != next++) return -1;
  }
  while (next < rank(like) - 1 && shape(like)[static_cast<std::size_t>(next)] == 1) ++next;
  return next == rank(like) - 1 ? from.base : -1;
}

int Matching::column(int v, int like) const {
  const Spread from = spread(v);
  int last = 0;
  for (int dim : from.dims)
    if (dim >= 0) last += dim == rank(like) - 1 ? 1 : 2;
  return last == 1 ? from.base : -1;
}

bool Matching::counts_along(int v, int dim, const std::vector<int>* dims) const {
  if (const FlatOperation* const sum = made_by(v, "stablehlo.add"))
    return either_way(
        sum, [&](int x, int zero) { return known(zero) == 0.0 && counts_along(x, dim, dims); });
  const Spread from = spread(v);
  const FlatOperation* const count = made_by(from.base, "stablehlo.iota");
  if (!count) return false;
  const auto along = static_cast<std::size_t>(count->source->integer("iota_dimension"));
  const int here = along < from.dims.size() ? from.dims[along] : -1;
  return here >= 0 && (dims ? (*dims)[static_cast<std::size_t>(here)] : here) == dim;
}

int Matching::reduced(int v, std::string_view by) const {
  const FlatOperation* const made = made_by(v, "stablehlo.reduce");
  if (!made || made->operands.size() != 2 || combiner(*made->source) != by) return -1;
  const std::vector<std::int64_t> dims = made->source->integers("dimensions");
  const int x = made->operands[0];
  return dims.size() == 1 && dims[0] == rank(x) - 1 ? x : -1;
}

bool replace(Matching& m, FlatOperation& operation, const FlatOperation& by, int inner) {
  return replace(m, {{&operation, by}}, inner);
}

bool replace(Matching& m, const std::vector<Change>& changes, int inner) {
  std::unordered_map<int, int> fewer;
  std::vector<int> open;
  const auto unread = [&](int v) {
    if (++fewer[v] == m.uses[static_cast<std::size_t>(v)] && m.value(v).producer >= 0)
      open.push_back(v);
  };
  for (const Change& change : changes)
    for (int v : change.by.operands) --fewer[v];
  for (const Change& change : changes)
    for (int v : change.operation->operands) unread(v);
  while (!open.empty()) {
    const FlatOperation& dead = *producer(m, open.back());
    open.pop_back();
    bool all = true;
    for (int result : dead.results)
      all &= fewer[result] >= m.uses[static_cast<std::size_t>(result)];
    if (all)
      for (int v : dead.operands) unread(v);
  }
  if (fewer[inner] < m.uses[static_cast<std::size_t>(inner)]) return false;
  for (const auto& [v, n] : fewer) m.uses[static_cast<std::size_t>(v)] -= n;
  for (const auto& [operation, by] : changes) {
    if (by.kind.empty())
      operation->results = {};
    else
      m.found.push_back(by.kind.substr(by.kind.find('.') + 1));
    operation->kind = by.kind;
    operation->operands = by.operands;
    operation->numbers = by.numbers;
    operation->dims = by.dims;
  }
  return true;
}

bool either_way(const FlatOperation* operation, const std::function<bool(int, int)>& f) {
  if (!operation || operation->operands.size() != 2) return false;
  const int x = operation->operands[0], y = operation->operands[1];
  return f(x, y) || f(y, x);
}

int scaled(const Matching& m, int v, double& number) {
  int found = -1;
  if (const FlatOperation* const ratio = m.made_by(v, "stablehlo.divide"))
    if (const auto by = m.known(m.spread(ratio->operands[1]).base); by && *by != 0) {
      number = 1 / *by;
      return ratio->operands[0];
    }
  either_way(m.made_by(v, "stablehlo.multiply"), [&](int x, int y) {
    const auto by = m.known(m.spread(y).base);
    if (!by) return false;
    number = *by, found = x;
    return true;
  });
  return found;
}

}  // namespace alpa::stablehlo
