// Shared costs in the model: built, simplified, and written with a node per copy
#include "src/ilp/model/shared_terms.h"

#include <algorithm>
#include <unordered_map>

namespace alpa::ilp {
namespace {

SharedEnd restricted(const SharedEnd& end, const std::vector<int>& kept) {
  SharedEnd result{end.node, {}, end.group};
  for (int s : kept) result.classes.push_back(end.classes[s]);
  return result;
}

std::vector<char> present(const SharedEnd& end, int classes) {
  std::vector<char> result(static_cast<std::size_t>(classes), 0);
  for (int c : end.classes) result[c] = 1;
  return result;
}

/// An edge that pays `cost(row, column)` between the ends.
template <class Price>
void pay_between(Model& model, const SharedEnd& source, const SharedEnd& reader,
                 const Price& cost) {
  std::vector<Cost> costs;
  costs.reserve(source.classes.size() * reader.classes.size());
  for (int row : source.classes)
    for (int column : reader.classes) costs.push_back(cost(row, column));
  if (std::any_of(costs.begin(), costs.end(), [](Cost c) { return c != 0; }))
    add_edge(model, source.node, reader.node, std::move(costs));
}

void remember_ends(Model& model, int index) {
  const SharedTerm& term = model.terms[index];
  const auto remember = [&](int node) {
    std::vector<int>& terms = model.nodes[node].terms;
    if (std::find(terms.begin(), terms.end(), index) == terms.end()) terms.push_back(index);
  };
  remember(term.source.node);
  for (const SharedEnd& reader : term.readers) remember(reader.node);
  for (const SharedCopy& copy : term.copies) remember(copy.node);
}

void forget_term(Model& model, int index) {
  SharedTerm& term = model.terms[index];
  const auto forget = [&](int node) { std::erase(model.nodes[node].terms, index); };
  forget(term.source.node);
  for (const SharedEnd& reader : term.readers) forget(reader.node);
  term = {};
  term.alive = false;
}

void drop_equal_readers(SharedTerm& term) {
  std::vector<SharedEnd> different;
  std::unordered_map<int, std::vector<std::size_t>> of_node;  // a number may have 10^5 readers
  for (SharedEnd& reader : term.readers) {
    std::vector<std::size_t>& others = of_node[reader.node];
    if (std::any_of(others.begin(), others.end(), [&](std::size_t other) {
          return different[other].classes == reader.classes &&
                 different[other].group == reader.group;
        }))
      continue;
    others.push_back(different.size());
    different.push_back(std::move(reader));
  }
  if (different.size() < term.readers.size()) term.splits.clear();
  term.readers = std::move(different);
}

/// Columns that cost something in a row the source can choose.
std::vector<char> costly_columns(const SharedTerm& term) {
  std::vector<char> result(static_cast<std::size_t>(term.columns), 0);
  const std::vector<char> rows = present(term.source, term.rows);
  for (int row = 0; row < term.rows; ++row)
    for (int column = 0; rows[row] && column < term.columns; ++column)
      result[column] |= term.cost(row, column) > 0;
  return result;
}

/// How many readers can want each of the columns that cost something.
std::vector<int> readers_by_column(const SharedTerm& term) {
  const std::vector<char> costly = costly_columns(term);
  std::vector<int> count(costly.size(), 0);
  for (const SharedEnd& reader : term.readers) {
    const std::vector<char> wanted = present(reader, term.columns);
    for (std::size_t c = 0; c < count.size(); ++c) count[c] += wanted[c] && costly[c];
  }
  return count;
}

/// True if a node lost the term.
bool settle_term(Model& model, int index) {
  SharedTerm& term = model.terms[index];
  drop_equal_readers(term);
  if (!term.copies.empty()) return false;  // what is free may use something all the same
  const std::vector<int> count = readers_by_column(term);
  if (std::all_of(count.begin(), count.end(), [](int c) { return c < 2; })) {
    const SharedTerm gone = term;
    forget_term(model, index);
    for (const SharedEnd& reader : gone.readers)
      pay_between(model, gone.source, reader,
                  [&](int row, int column) { return gone.cost(row, column); });
    return true;
  }
  bool lost = false;
  for (std::size_t j = term.readers.size(); j-- > 0;) {
    const std::vector<int>& classes = term.readers[j].classes;
    if (std::any_of(classes.begin(), classes.end(), [&](int c) { return count[c] > 0; })) continue;
    const int node = term.readers[j].node;
    term.readers.erase(term.readers.begin() + static_cast<std::ptrdiff_t>(j));
    term.splits.clear();
    if (std::any_of(term.readers.begin(), term.readers.end(),
                    [&](const SharedEnd& other) { return other.node == node; }))
      continue;
    std::erase(model.nodes[node].terms, index);
    lost = true;
  }
  return lost;
}

/// A node that chooses the class of `end`, and the end there.
SharedEnd class_node(Model& model, const SharedEnd& end) {
  const std::vector<int> classes = distinct(end.classes);
  if (classes.size() == end.classes.size()) return end;
  const SharedEnd result{add_node(model, classes.size()), classes, end.group};
  pay_between(model, end, result,
              [](int own, int other) { return own == other ? Cost{0} : kNever; });
  return result;
}

/// The copy's node pays on its edge to the source; its edges to the readers
/// forbid what it does not serve.
void expand_copy(Model& model, const SharedTerm& term, const SharedCopy& copy,
                 const SharedEnd& source, const std::vector<SharedEnd>& readers) {
  SharedEnd states{copy.node, {}};
  for (int s = 0; s < static_cast<int>(copy.supplies.size()); ++s) states.classes.push_back(s);
  model.nodes[copy.node].kept = model.nodes[copy.node].copy = false;
  pay_between(model, source, states,
              [&](int row, int state) { return term.cost(row, copy, state); });
  for (const SharedEnd& reader : readers)
    pay_between(model, states, reader, [&](int state, int wanted) {
      return wanted == copy.column && !serves(copy.supplies[state], 1u << reader.group) ? kNever
                                                                                        : Cost{0};
    });
}

/// A node of two states, absent and made, for a column without a copy of its own.
void add_copy(Model& model, const SharedTerm& term, int column, const SharedEnd& source,
              const std::vector<SharedEnd>& readers) {
  const SharedEnd copy{add_node(model, 2), {0, 1}};
  pay_between(model, source, copy,
              [&](int row, int made) { return made ? term.cost(row, column) : Cost{0}; });
  for (const SharedEnd& reader : readers)
    pay_between(model, copy, reader,
                [&](int made, int wanted) { return wanted == column && !made ? kNever : Cost{0}; });
}

/// Adds the nodes and edges that replace the term.
void expand(Model& model, const SharedTerm& term) {
  const std::vector<int> count = readers_by_column(term);
  const SharedEnd source = class_node(model, term.source);
  std::vector<SharedEnd> readers;
  for (const SharedEnd& reader : term.readers) readers.push_back(class_node(model, reader));
  std::vector<char> has_node(count.size(), 0);  // which pays for the column
  for (const SharedCopy& copy : term.copies) {
    expand_copy(model, term, copy, source, readers);
    has_node[copy.column] = 1;
  }
  for (int column = 0; column < term.columns; ++column) {
    if (has_node[column] || count[column] < 2) continue;
    add_copy(model, term, column, source, readers);
    has_node[column] = 1;
  }
  for (const SharedEnd& reader : readers)
    pay_between(model, source, reader, [&](int row, int column) {
      return has_node[column] ? Cost{0} : term.cost(row, column);
    });
}

/// True if readers may find the column there without a copy being made.
bool is_home(const SharedTerm& term, int row, int column) {
  return std::any_of(term.copies.begin(), term.copies.end(), [&](const SharedCopy& copy) {
    return copy.column == column && copy.home == row &&
           std::any_of(copy.supplies.begin(), copy.supplies.end(),
                       [](const Supply& s) { return s.own; });
  });
}

/// An end in the part: ends outside become nodes without a choice.
SharedEnd end_in_part(Model& part, const SharedEnd& end, const std::vector<int>& position,
                      const std::vector<int>& choice) {
  if (position[end.node] >= 0) return {position[end.node], end.classes, end.group};
  return {add_node(part, 1), {end.classes[choice[end.node]]}, end.group};
}

/// Adds to the costs of the source what readers outside the part want, by column, in its rows.
void pay_outside_readers(const SharedTerm& term, const std::vector<char>& wanted,
                         std::vector<Cost>& costs) {
  for (std::size_t s = 0; s < costs.size(); ++s)
    for (int c = 0; c < term.columns; ++c)
      if (wanted[c]) costs[s] = plus(costs[s], term.cost(term.source.classes[s], c));
}

/// All of the term's copies are in the part, or none of its nodes.
void add_part_with_copies(Model& part, const SharedTerm& term, const std::vector<int>& position,
                          const std::vector<int>& choice) {
  if (position[term.copies[0].node] < 0) return;
  SharedTerm inside = term;
  inside.splits.clear();
  inside.source = end_in_part(part, term.source, position, choice);
  for (SharedEnd& reader : inside.readers) reader = end_in_part(part, reader, position, choice);
  for (SharedCopy& copy : inside.copies) copy.node = position[copy.node];
  drop_equal_readers(inside);
  part.terms.push_back(std::move(inside));
  remember_ends(part, static_cast<int>(part.terms.size()) - 1);
}

}  // namespace

void add_terms(const Problem& problem, const std::vector<std::vector<int>>& kept, Model& model) {
  for (const SharedCost& shared : problem.shared) {
    SharedTerm term{
        restricted(shared.source, kept[shared.source.node]), {}, shared.rows, shared.columns, {}};
    term.copies = shared.copies;  // whose nodes have all of their strategies: they have no edges
    for (const SharedCopy& copy : term.copies)
      model.nodes[copy.node].copy = model.nodes[copy.node].kept = true;
    for (std::int64_t cost : *shared.costs) term.costs.push_back(inner_cost(cost));
    for (const SharedEnd& reader : shared.readers)
      term.readers.push_back(restricted(reader, kept[reader.node]));
    for (const SharedEnd& reader : term.readers)
      pay_between(model, term.source, reader, [&](int row, int column) {
        return term.cost(row, column) >= kNever && !is_home(term, row, column) ? kNever : Cost{0};
      });
    if (!term.copies.empty())
      for (Cost cost : term.costs) term.never.push_back(cost >= kNever);
    for (Cost& cost : term.costs)
      if (cost >= kNever) cost = 0;
    model.terms.push_back(std::move(term));
    remember_ends(model, static_cast<int>(model.terms.size()) - 1);
  }
  settle_terms(model);
}

bool has_terms(const Model& model) {
  return std::any_of(model.terms.begin(), model.terms.end(),
                     [](const SharedTerm& t) { return t.alive; });
}

bool settle_terms(Model& model) {
  bool lost = false;
  for (std::size_t t = 0; t < model.terms.size(); ++t)
    if (model.terms[t].alive) lost |= settle_term(model, static_cast<int>(t));
  return lost;
}

bool can_take_ends(const Model& model, int node, int gone) {
  return std::none_of(model.nodes[gone].terms.begin(), model.nodes[gone].terms.end(), [&](int t) {
    const std::vector<int>& mine = model.nodes[node].terms;
    const int source = model.terms[t].source.node;
    return std::find(mine.begin(), mine.end(), t) != mine.end() &&
           (source == node || source == gone);
  });
}

void take_ends(Model& model, int node, int gone, const std::vector<int>& partner) {
  for (int t : model.nodes[gone].terms) {
    SharedTerm& term = model.terms[t];
    const auto moved = [&](const auto& values) {
      std::decay_t<decltype(values)> result;
      for (int p : partner) result.push_back(values[p]);
      return result;
    };
    if (term.source.node == gone) {
      term.source = {node, moved(term.source.classes), 0};
      for (SharedTerm::Split& split : term.splits) split.to_source = moved(split.to_source);
    }
    for (std::size_t j = 0; j < term.readers.size(); ++j) {
      if (term.readers[j].node != gone) continue;
      term.readers[j] = {node, moved(term.readers[j].classes), term.readers[j].group};
      if (!term.splits.empty()) term.splits[j].to_reader = moved(term.splits[j].to_reader);
    }
    drop_equal_readers(term);
    remember_ends(model, t);
  }
  model.nodes[gone].terms.clear();
}

void add_part_of_term(Model& part, const SharedTerm& term, const std::vector<int>& position,
                      const std::vector<int>& choice) {
  if (!term.copies.empty()) return add_part_with_copies(part, term, position, choice);
  SharedTerm inside{term.source, {}, term.rows, term.columns, term.costs};
  std::vector<char> paid(static_cast<std::size_t>(term.columns), 0);
  for (SharedEnd reader : term.readers) {
    const int place = position[reader.node];
    if (place < 0) {
      paid[reader.classes[choice[reader.node]]] = 1;
      continue;
    }
    reader.node = place;
    inside.readers.push_back(std::move(reader));
  }
  const bool source_outside = position[term.source.node] < 0;
  if (source_outside && inside.readers.empty()) return;
  inside.source = end_in_part(part, term.source, position, choice);
  if (!source_outside) pay_outside_readers(term, paid, part.nodes[inside.source.node].costs);
  for (int row = 0; row < term.rows; ++row)
    for (int c = 0; c < term.columns; ++c)
      if (paid[c]) inside.costs[static_cast<std::size_t>(row) * term.columns + c] = 0;
  part.terms.push_back(std::move(inside));
  const int index = static_cast<int>(part.terms.size()) - 1;
  remember_ends(part, index);
  settle_term(part, index);
}

Model with_copies(const Model& model) {
  Model result = model;
  result.terms.clear();
  for (ModelNode& node : result.nodes) node.terms.clear();
  for (const SharedTerm& term : model.terms)
    if (term.alive) expand(result, term);
  return result;
}

}  // namespace alpa::ilp
