#pragma once
/// A function without calls and loops: operations in order, each value defined once. Calls are
/// inlined, loops with a known number of rounds are unrolled, and tensors of one number that do not
/// depend on an argument are computed, so that positions in loops are known.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alpa/ir/graph.h"
#include "src/import/module.h"

namespace alpa::stablehlo {

/// Positions in dimensions, where they are known, are below it.
inline constexpr double kMostPosition = 1 << 30;

struct FlatValue {
  Type type;
  TextPlace place;
  int producer = -1;              ///< of `FlatFunction::operations`; -1: an argument, or known
  std::optional<double> known{};  ///< every element
};

/// An operation; a pattern that was recognised has a kind of its own ("alpa.attention").
struct FlatOperation {
  std::string kind;
  const Operation* source = nullptr;  ///< its attributes and place
  std::vector<int> operands, results;
  int layer = -1;  ///< of the loop's rounds, counted through the function; -1: outside of loops
  std::optional<Region> region = {};        ///< of a whole step; none: that of the graph
  std::vector<double> numbers = {};         ///< of a pattern: what `patterns.cc` says of it
  std::vector<std::vector<int>> dims = {};  ///< as `numbers`
};

struct FlatFunction {
  std::vector<FlatValue> values;
  std::vector<int> arguments, results;
  std::vector<std::string> names;         ///< of arguments
  std::vector<std::string> result_names;  ///< what jax says of results
  std::vector<FlatOperation> operations;
  std::shared_ptr<const Module> module;  ///< owns the sources
};

/// Function `main` of a module. Throws Error with the place of what can't be made flat.
FlatFunction flatten(std::shared_ptr<const Module> module);

/// Leaves out operations whose results nothing reads.
void prune(FlatFunction& flat);

/// Tells the regions of a whole step apart, whose first `state` arguments become its first `state`
/// results. Forward is what the numbers behind them need, but for those that need more products,
/// such as a norm of gradients. Apply is what follows from state that forward does not read; the
/// rest is backward.
void divide_step(FlatFunction& flat, std::size_t state);

/// Value of every element of the operation's result, if those of its operands are known; nullopt:
/// unknown.
std::optional<double> fold(const Operation& operation, const std::vector<FlatValue>& operands,
                           const Type& result);

}  // namespace alpa::stablehlo
