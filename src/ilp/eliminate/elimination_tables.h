#pragma once
/// Tables of an elimination: equal ones have equal numbers, so that the common parts of repeated
/// layers are planned, computed and stored once. Plain data.
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// One elimination, without the names of its nodes: the sizes of the node and of its scope, and per
/// factor its table and where its nodes stand in (node, scope...).
using Recipe = std::vector<std::vector<int>>;

struct HashOfRecipe {
  std::size_t operator()(const Recipe& recipe) const;
};

/// Table number `contents` of `Tables::costs`, every finite cell `more` higher.
struct Result {
  int contents = -1;  ///< -1: not computed
  Cost more = 0;
  /// the node's strategy for every choice of the scope
  std::shared_ptr<const std::vector<int>> best;
};

/// A table of the model, which has no recipe, or what a recipe makes.
struct Outcome {
  Recipe recipe;
  Result result;
};

/// Tables by number: those of the model, then results of recipes. Tables of equal contents are
/// stored once. Along repeated layers the results soon differ by a constant alone (min-plus powers
/// are periodic in the end), so that results are stored without their least cell, and recipes of
/// equal contents computed once.
struct Tables {
  std::vector<Outcome> outcomes;  ///< by number
  std::vector<std::vector<Cost>> costs;
  std::unordered_multimap<std::size_t, int> by_contents;
  std::unordered_map<Recipe, int, HashOfRecipe> results;  ///< numbers of the outcomes
  /// By recipe over contents instead of outcomes.
  std::unordered_map<Recipe, Result, HashOfRecipe> computed;

  /// Number of a table of the model.
  int intern(const std::vector<Cost>& values);

  /// The table that `recipe` makes; `fresh` tells whether it was unknown.
  int result(const Recipe& recipe, bool& fresh);

  /// Place of these contents among `costs`.
  int stored(std::vector<Cost> values);

 private:
  std::map<int, int> of_model;  ///< numbers by place among `costs`
};

/// Limits of an elimination: steps of minimisations, and cells of the tables that they make.
struct Allowance {
  double steps, cells;
};

/// Computes a table, and before it the tables it is made of, as far as they are not known yet. Its
/// cost is taken off the allowance. False at the deadline, or when the allowance is used up.
bool compute(Tables& tables, int table, Allowance& allowance, const Deadline& deadline);

}  // namespace alpa::ilp
