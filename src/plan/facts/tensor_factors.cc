// The dimensions that tensor parallelism splits
#include "src/plan/facts/tensor_factors.h"

#include <algorithm>
#include <numeric>

#include "src/ops/all_ops.h"

namespace alpa::intra_op {
namespace {

/// A letter is dropped if, of the products' work that it can split, it alone splits at most this
/// share.
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

enum class LetterKind : std::uint8_t { other, batch, token, feature };

struct LetterKinds {
  std::vector<std::vector<int>> of_node;  ///< per node and factor, a letter or -1
  std::vector<LetterKind> kinds;          ///< per letter

  bool is(LetterKind kind, int letter) const { return letter >= 0 && kinds[letter] == kind; }
};

void mark_tokens(const Graph& graph, Letters& letters, std::vector<LetterKind>& kinds) {
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::batch && input.kind != InputKind::boundary) continue;
    for (int d = 0; d < graph.type(input.value).rank(); ++d)
      kinds[letters.of(input.value, d)] = LetterKind::token;
  }
}

/// Per value, whether it is made of state alone.
std::vector<bool> made_of_state(const Graph& graph) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    bool all = !node.operands.empty();
    for (int value : node.operands) all = all && result[value];
    if (node.op == &ops::input) all = find_input(graph, node.results[0])->kind == InputKind::state;
    for (int value : node.results) result[value] = all;
  }
  return result;
}

/// Letters of what is made of state alone and read by anything but elementwise operators and
/// updates.
void mark_features(const Graph& graph, Letters& letters, std::vector<LetterKind>& kinds) {
  const std::vector<bool> of_state = made_of_state(graph);
  for (const Node& node : graph.nodes) {
    if (of_state[node.results[0]] || node.region == Region::apply || elementwise_code(node) >= 0)
      continue;
    for (int value : node.operands)
      for (int d = 0; of_state[value] && d < graph.type(value).rank(); ++d)
        kinds[letters.of(value, d)] = LetterKind::feature;
  }
}

/// `batch`, `experts`: per node, the factor that is the batch, or an expert; -1: none.
LetterKinds kinds_of_letters(const Graph& graph, const NodeClasses& classes,
                             const std::vector<int>& batch, const std::vector<int>& experts) {
  Letters letters(graph, classes);
  LetterKinds result{{}, std::vector<LetterKind>(letters.size(), LetterKind::other)};
  mark_tokens(graph, letters, result.kinds);
  mark_features(graph, letters, result.kinds);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    result.of_node.push_back(letters.of_factors(n));
    if (batch[n] >= 0 && result.of_node[n][batch[n]] >= 0)
      result.kinds[result.of_node[n][batch[n]]] = LetterKind::batch;
    if (!experts.empty() && experts[n] >= 0)
      result.kinds[result.of_node[n][experts[n]]] = LetterKind::other;
  }
  return result;
}

/// True if every tensor of the node that has dimensions has one whose major factor it is.
bool is_in_all(const Rule& rule, int factor) {
  const auto has = [&](const DimFactors& dims) {
    return dims.empty() || std::ranges::any_of(dims, [&](const auto& of_dim) {
             return !of_dim.empty() && of_dim.front() == factor;
           });
  };
  return std::ranges::all_of(rule.operands, has) && std::ranges::all_of(rule.results, has);
}

bool can_split(const Factor& factor, int parts) {
  return !factor.whole && factor.size >= parts && (!factor.even_only || factor.size % parts == 0);
}

/// Bytes of partial results in a step if a node is split by a factor.
double partial_bytes(const Graph& graph, const NodeClasses& classes, int n, int factor) {
  double bytes = 0;
  const NodeClass& node = classes.of(n);
  for (int i = 0; i < static_cast<int>(node.results.size()); ++i)
    if (reduction(node.rule, i, factor)) bytes += static_cast<double>(node.results[i].bytes());
  return bytes * runs_per_step(graph, graph.nodes[n]);
}

struct Product {
  double work = 0;
  std::vector<int> features;  ///< letters that it can be split by
};

Product product_of(const Graph& graph, const NodeClasses& classes, const LetterKinds& letters,
                   int parts, int n) {
  const Rule& rule = classes.of(n).rule;
  Product product{flops(rule) * runs_per_step(graph, graph.nodes[n]), {}};
  for (std::size_t f = 0; f < rule.factors.size(); ++f)
    if (const int letter = letters.of_node[n][f];
        letters.is(LetterKind::feature, letter) && can_split(rule.factors[f], parts))
      product.features.push_back(letter);
  return product;
}

/// Features, those with the most bytes of partial results first.
std::vector<int> costliest_features(const Graph& graph, const NodeClasses& classes,
                                    const LetterKinds& letters) {
  std::vector<double> bytes(letters.kinds.size(), 0);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    for (int f = 0; f < static_cast<int>(letters.of_node[n].size()); ++f)
      if (const int letter = letters.of_node[n][f]; letters.is(LetterKind::feature, letter))
        bytes[letter] += partial_bytes(graph, classes, n, f);
  std::vector<int> order;
  for (int letter = 0; letter < static_cast<int>(letters.kinds.size()); ++letter)
    if (letters.is(LetterKind::feature, letter)) order.push_back(letter);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return bytes[a] > bytes[b]; });
  return order;
}

/// Marks rows of tables that examples are looked up in as features: no product may read them, but
/// they hold much state. Returns them, per letter.
std::vector<bool> mark_rows_of_tables(const Graph& graph, const NodeClasses& classes,
                                      const std::vector<int>& batch, LetterKinds& letters) {
  std::vector<bool> rows(letters.kinds.size(), false);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    const Rule& rule = classes.of(n).rule;
    if (batch[n] < 0 || (node.op != &ops::embedding && node.op != &ops::embedding_grad)) continue;
    const DimFactors& table = node.op == &ops::embedding ? rule.operands[0] : rule.results[0];
    const int letter = letters.of_node[n][table[0].front()];
    if (letter < 0) continue;
    rows[letter] = true;
    letters.kinds[letter] = LetterKind::feature;
  }
  return rows;
}

/// Starts with the letters of all parameters that products read. Drops those with the most bytes of
/// partial results whose products other letters split, except those to keep.
void drop_costly_features(const Graph& graph, const NodeClasses& classes, int parts,
                          const std::vector<bool>& keep, LetterKinds& letters) {
  std::vector<Product> products;
  std::vector<std::vector<int>> of_letter(letters.kinds.size());
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    if (graph.nodes[n].op->work != Work::heavy) continue;
    const int p = static_cast<int>(products.size());
    products.push_back(product_of(graph, classes, letters, parts, n));
    for (int letter : products[p].features) of_letter[letter].push_back(p);
  }
  const auto split_by_another = [&](const Product& product, int letter) {
    return std::any_of(product.features.begin(), product.features.end(), [&](int other) {
      return other != letter && letters.is(LetterKind::feature, other);
    });
  };
  for (int letter : costliest_features(graph, classes, letters)) {
    double all = 0, alone = 0;
    for (int p : of_letter[letter]) {
      all += products[p].work;
      alone += split_by_another(products[p], letter) ? 0 : products[p].work;
    }
    if (!keep[letter] && alone <= kNegligible * all) letters.kinds[letter] = LetterKind::other;
  }
}

TensorFactors factors_of(const Rule& rule, const LetterKinds& letters, int parts, int n) {
  TensorFactors result;
  for (const LetterKind kind : {LetterKind::feature, LetterKind::token}) {
    for (int f = 0; f < std::min(64, static_cast<int>(rule.factors.size())); ++f)
      if (letters.is(kind, letters.of_node[n][f]) && can_split(rule.factors[f], parts))
        result.factors |= std::uint64_t{1} << f;
    if (result.factors == 0) continue;
    result.must_split = kind == LetterKind::feature;
    break;
  }
  return result;
}

}  // namespace

std::vector<int> expert_factors(const Graph& graph, const NodeClasses& classes) {
  Letters letters(graph, classes);
  const std::vector<bool> of_state = made_of_state(graph);
  std::vector<bool> is_expert(letters.size(), false);
  const auto nodes = static_cast<int>(graph.nodes.size());
  const auto visit = [&](int n, const auto& visitor) {
    const std::vector<int> of_factors = letters.of_factors(n);
    for (int f = 0; f < std::ssize(of_factors); ++f)
      if (of_factors[f] >= 0 && is_in_all(classes.of(n).rule, f)) visitor(f, of_factors[f]);
  };
  for (int n = 0; n < nodes; ++n) {
    const Node& node = graph.nodes[n];
    const auto states = std::ranges::count_if(node.operands, [&](int v) { return of_state[v]; });
    if (node.op->work == Work::heavy && states == 1 && node.operands.size() == 2)
      visit(n, [&](int, int letter) { is_expert[letter] = true; });
  }
  std::vector<int> factors(nodes, -1);
  for (int n = 0; n < nodes; ++n)
    visit(n, [&](int factor, int letter) {
      if (is_expert[letter]) factors[n] = factor;
    });
  return factors;
}

std::vector<TensorFactors> tensor_factors(const Graph& graph, const NodeClasses& classes, int parts,
                                          const std::vector<int>& batch,
                                          const std::vector<int>& experts) {
  LetterKinds letters = kinds_of_letters(graph, classes, batch, experts);
  drop_costly_features(graph, classes, parts, mark_rows_of_tables(graph, classes, batch, letters),
                       letters);
  std::vector<TensorFactors> result;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    result.push_back(factors_of(classes.of(n).rule, letters, parts, n));
  return result;
}

}  // namespace alpa::intra_op
