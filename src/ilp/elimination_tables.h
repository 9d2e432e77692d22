#pragma once
/// Tables of an elimination: equal ones have equal numbers, so that what repeated layers have in common is
/// planned, computed and stored once. Plain data.
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "model.h"

namespace alpa::ilp {

/// What one elimination computes, apart from the names of its nodes: the sizes of the node and of its
/// scope, and per factor its table and where its nodes stand in (node, scope...).
using Recipe = std::vector<std::vector<int>>;

struct HashOfRecipe {
  std::size_t operator()(const Recipe& recipe) const {
    std::size_t hash = recipe.size();
    for (const std::vector<int>& entry : recipe)
      for (int x : entry) hash = (hash ^ static_cast<std::size_t>(x)) * 0x9e3779b97f4a7c15 + (hash >> 29);
    return hash;
  }
};

/// Table number `contents` of `Tables::costs`, every finite cell `more` higher.
struct Result {
  int contents = -1;  ///< -1: not computed
  Cost more = 0;
  std::shared_ptr<const std::vector<int>> best;  ///< the node's strategy for every choice of the scope
};

/// A table of the model, which has no recipe, or what a recipe makes.
struct Outcome {
  Recipe recipe;
  Result result;
};

/// Tables by number: those of the model, then results of recipes. Tables of equal contents are stored once.
/// Along repeated layers the results soon differ by a constant alone (min-plus powers are periodic in the
/// end), so that results are stored without their least cell, and recipes of equal contents computed once.
struct Tables {
  std::vector<Outcome> outcomes;  ///< by number
  std::vector<std::vector<Cost>> costs;
  std::unordered_multimap<std::size_t, int> by_contents;
  std::unordered_map<Recipe, int, HashOfRecipe> results;  ///< numbers of the outcomes
  /// By recipe over contents instead of outcomes.
  std::unordered_map<Recipe, Result, HashOfRecipe> computed;

  /// Number of a table of the model.
  int intern(const std::vector<Cost>& values) {
    const int contents = stored(values);
    auto [at, fresh] = of_model.emplace(contents, static_cast<int>(outcomes.size()));
    if (fresh) outcomes.push_back({{}, {contents, 0, nullptr}});
    return at->second;
  }

  /// The table that `recipe` makes; `fresh` tells whether it was unknown.
  int result(const Recipe& recipe, bool& fresh) {
    auto [at, added] = results.emplace(recipe, static_cast<int>(outcomes.size()));
    fresh = added;
    if (added) outcomes.push_back({recipe, {}});
    return at->second;
  }

  /// Place of these contents among `costs`.
  int stored(std::vector<Cost> values) {
    std::size_t hash = values.size();
    for (Cost value : values)
      hash = (hash ^ static_cast<std::size_t>(value)) * 0x9e3779b97f4a7c15 + (hash >> 29);
    const auto [begin, end] = by_contents.equal_range(hash);
    for (auto entry = begin; entry != end; ++entry)
      if (costs[entry->second] == values) return entry->second;
    by_contents.emplace(hash, static_cast<int>(costs.size()));
    costs.push_back(std::move(values));
    return static_cast<int>(costs.size()) - 1;
  }

 private:
  std::map<int, int> of_model;  ///< numbers by place among `costs`
};

}  // namespace alpa::ilp
