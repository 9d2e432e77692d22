// src/intra_op/tensor_factors.cc — the dimensions that tensor parallelism splits
#include "tensor_factors.h"

#include <algorithm>
#include <numeric>

#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// A letter is dropped if, of the products' work that it can split, it alone
/// splits at most this share.
constexpr double kNegligible = 0.1;

/// Index letters of the whole graph: classes of dimensions that the factors of the rules make
/// equal.
class Letters {
 public:
  Letters(const Graph& graph, const NodeClasses& classes) : graph_(graph), classes_(classes) {
    for (const ValueInfo& info : graph.values) {
      first_.push_back(static_cast<int>(parent_.size()));
      parent_.resize(parent_.size() + info.type.shape.size());
    }
    std::iota(parent_.begin(), parent_.end(), 0);
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) join(n);
  }

  int size() const { return static_cast<int>(parent_.size()); }
  int of(int value, int dim) { return find(first_[value] + dim); }

  /// Per factor, the letter of the dimensions whose major factor it is; -1: there are none.
  std::vector<int> of_factors(int n) {
    std::vector<int> letters(classes_.of(n).rule.factors.size(), -1);
    visit(n, [&](int factor, int dim) { letters[factor] = find(dim); });
    return letters;
  }

 private:
  template <class Visitor>
  void visit(int n, Visitor visitor) {
    const auto visit_all = [&](const std::vector<int>& values,
                               const std::vector<DimFactors>& tensors) {
      for (std::size_t t = 0; t < values.size(); ++t)
        for (std::size_t d = 0; d < tensors[t].size(); ++d)
          if (!tensors[t][d].empty())
            visitor(tensors[t][d].front(), first_[values[t]] + static_cast<int>(d));
    };
    visit_all(graph_.nodes[n].operands, classes_.of(n).rule.operands);
    visit_all(graph_.nodes[n].results, classes_.of(n).rule.results);
  }

  void join(int n) {
    std::vector<int> of_factor(classes_.of(n).rule.factors.size(), -1);
    visit(n, [&](int factor, int dim) {
      if (of_factor[factor] < 0) of_factor[factor] = dim;
      parent_[find(dim)] = find(of_factor[factor]);
    });
  }

  int find(int dim) {
    while (parent_[dim] != dim) dim = parent_[dim] = parent_[parent_[dim]];
    return dim;
  }

  const Graph& graph_;
  const NodeClasses& classes_;
  std::vector<int> first_;   ///< per value, the number of its dimension 0
  std::vector<int> parent_;  ///< union-find over the dimensions of all values
};

/// Starts with the letters of all parameters that products read. Drops those with the most bytes of
/// partial results whose products other letters split.
class Choice {
 public:
  Choice(const Graph& graph, const NodeClasses& classes, int parts, const std::vector<int>& batch)
      : graph_(graph),
        classes_(classes),
        parts_(parts),
        batch_(batch),
        letters_(graph, classes),
        kind_(letters_.size(), Kind::other),
        price_(letters_.size(), 0) {
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
      letters_of_node_.push_back(letters_.of_factors(n));
  }

  std::vector<TensorFactors> run() && {
    mark_tokens();
    mark_features();
    mark_batch();
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) add_product(n);
    drop_costly_features();
    std::vector<TensorFactors> result;
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) result.push_back(factors_of(n));
    return result;
  }

 private:
  enum class Kind : std::uint8_t { other, batch, token, feature };
  struct Product {
    double work = 0;
    std::vector<int> features;  ///< letters that it can be split by
  };

  void mark_tokens() {
    for (const Input& input : graph_.inputs) {
      if (input.kind != InputKind::batch && input.kind != InputKind::boundary) continue;
      for (int d = 0; d < graph_.type(input.value).rank(); ++d)
        kind_[letters_.of(input.value, d)] = Kind::token;
    }
  }

  /// Letters of what is made of state alone and read by anything but
  /// elementwise operators and updates.
  void mark_features() {
    std::vector<bool> of_state(graph_.values.size(), false);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const Node& node = graph_.nodes[n];
      const bool input = node.op == &ops::input;
      bool all = !node.operands.empty();
      for (int value : node.operands) all = all && of_state[value];
      if (input) all = find_input(graph_, node.results[0])->kind == InputKind::state;
      for (int value : node.results) of_state[value] = all;
      if (all || node.region == Region::apply || elementwise_code(node) >= 0) continue;
      for (int value : node.operands)
        for (int d = 0; of_state[value] && d < graph_.type(value).rank(); ++d)
          kind_[letters_.of(value, d)] = Kind::feature;
    }
  }

  void mark_batch() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      if (batch_[n] >= 0 && letters_of_node_[n][batch_[n]] >= 0)
        kind_[letters_of_node_[n][batch_[n]]] = Kind::batch;
  }

  bool is(Kind kind, int letter) const { return letter >= 0 && kind_[letter] == kind; }

  void add_product(int n) {
    const Rule& rule = classes_.of(n).rule;
    Product product{flops(rule) * runs_per_step(graph_, graph_.nodes[n]), {}};
    for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
      const int letter = letters_of_node_[n][f];
      if (!is(Kind::feature, letter)) continue;
      price_[letter] += reduced_bytes(n, f);
      if (can_split(rule.factors[f])) product.features.push_back(letter);
    }
    if (graph_.nodes[n].op->work == Work::heavy) products_.push_back(std::move(product));
  }

  double reduced_bytes(int n, int factor) const {
    double bytes = 0;
    const NodeClass& node = classes_.of(n);
    for (int i = 0; i < static_cast<int>(node.results.size()); ++i)
      if (reduction(node.rule, i, factor)) bytes += static_cast<double>(node.results[i].bytes());
    return bytes * runs_per_step(graph_, graph_.nodes[n]);
  }

  bool can_split(const Factor& factor) const {
    return !factor.whole && factor.size >= parts_ &&
           (!factor.even_only || factor.size % parts_ == 0);
  }

  void drop_costly_features() {
    std::vector<std::vector<int>> products(letters_.size());
    for (int p = 0; p < static_cast<int>(products_.size()); ++p)
      for (int letter : products_[p].features) products[letter].push_back(p);
    std::vector<int> order;
    for (int letter = 0; letter < letters_.size(); ++letter)
      if (is(Kind::feature, letter)) order.push_back(letter);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return price_[a] > price_[b]; });
    for (int letter : order) {
      double all = 0, alone = 0;
      for (int p : products[letter]) {
        all += products_[p].work;
        alone += is_split_by_another(products_[p], letter) ? 0 : products_[p].work;
      }
      if (alone <= kNegligible * all) kind_[letter] = Kind::other;
    }
  }

  bool is_split_by_another(const Product& product, int letter) const {
    return std::any_of(product.features.begin(), product.features.end(),
                       [&](int other) { return other != letter && is(Kind::feature, other); });
  }

  TensorFactors factors_of(int n) const {
    const Rule& rule = classes_.of(n).rule;
    TensorFactors result;
    for (const Kind kind : {Kind::feature, Kind::token}) {
      for (int f = 0; f < std::min(64, static_cast<int>(rule.factors.size())); ++f)
        if (is(kind, letters_of_node_[n][f]) && can_split(rule.factors[f]))
          result.factors |= std::uint64_t{1} << f;
      if (result.factors == 0) continue;
      result.must_split = kind == Kind::feature;
      break;
    }
    return result;
  }

  const Graph& graph_;
  const NodeClasses& classes_;
  const int parts_;
  const std::vector<int>& batch_;
  Letters letters_;
  std::vector<std::vector<int>> letters_of_node_;  ///< per factor
  std::vector<Kind> kind_;                         ///< per letter
  /// per letter, bytes of partial results if it is split
  std::vector<double> price_;
  std::vector<Product> products_;
};

}  // namespace

std::vector<TensorFactors> tensor_factors(const Graph& graph, const NodeClasses& classes, int parts,
                                          const std::vector<int>& batch) {
  return Choice(graph, classes, parts, batch).run();
}

}  // namespace alpa
