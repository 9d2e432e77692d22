#pragma once
/// Functions that patterns are written with: the maker of a value, through broadcasts; its readers;
/// and the change of a function by one operation of a pattern. Operations are visited from the last
/// to the first.
#include <functional>
#include <string_view>
#include <vector>

#include "src/import/flat.h"

namespace alpa::stablehlo {

/// A value before it was broadcast and reshaped by dimensions of extent 1.
struct Spread {
  int base = -1;
  std::vector<int> dims;  ///< of the broadcast value, for each dimension of the base; -1: extent 1
};

/// A function in which patterns are looked for.
struct Matching {
  FlatFunction flat;
  std::vector<int> uses;           ///< of each value, by operations that are alive and as results
  std::vector<std::string> found;  ///< names of patterns

  const FlatValue& value(int v) const { return flat.values[static_cast<std::size_t>(v)]; }
  const Shape& shape(int v) const { return value(v).type.shape; }
  int rank(int v) const { return static_cast<int>(shape(v).size()); }
  std::optional<double> known(int v) const { return value(v).known; }
  /// The operation of this kind that computes v, behind conversions between floating types;
  /// nullptr: another one does, or v is -1.
  const FlatOperation* made_by(int v, std::string_view kind) const;
  /// v behind conversions between floating types.
  int unconverted(int v) const;
  Spread spread(int v) const;
  /// The base of v, if it has one number for each index of `like` without its last dimension; -1.
  int rows(int v, int like) const;
  /// The base of v, if it has one number for each index of the last dimension of `like`; -1: not.
  int column(int v, int like) const;
  /// True if v counts 0, 1, 2, … along dimension `dim`: of v, or, if v was broadcast, of the
  /// result, whose dimensions are `dims`.
  bool counts_along(int v, int dim, const std::vector<int>* dims = nullptr) const;
  /// The operand of a reduction by `combiner` over the last dimension alone; -1: another one.
  int reduced(int v, std::string_view combiner) const;
};

/// Makes `operation` compute a pattern `kind` of these operands, if then nothing reads `inner` any
/// more; else changes nothing.
bool replace(Matching& m, FlatOperation& operation, const FlatOperation& by, int inner);

/// An operation and what it becomes; nothing: it vanishes.
struct Change {
  FlatOperation* operation = nullptr;
  FlatOperation by;
};

/// The same for several operations together.
bool replace(Matching& m, const std::vector<Change>& changes, int inner);

/// The other operand of a product with a known number, which `number` gets; -1: none.
int scaled(const Matching& m, int v, double& number);

/// Calls `f(x, y)` and `f(y, x)` for the two operands of `operation`, until one is true.
bool either_way(const FlatOperation* operation, const std::function<bool(int, int)>& f);

// ---- the patterns; each tells whether the operation was one
bool match_activation(Matching& m, FlatOperation& operation);
bool match_norm(Matching& m, FlatOperation& operation);
bool match_cross_entropy(Matching& m, FlatOperation& operation);
bool match_dropout(Matching& m, FlatOperation& operation);
bool match_attention(Matching& m, FlatOperation& operation);

}  // namespace alpa::stablehlo
