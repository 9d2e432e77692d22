// Edges, messages and sweeps of the dual bound
#include "src/ilp/dual/dual.h"

#include <numeric>
#include <string_view>
#include <unordered_map>

#include "src/ilp/model/lines.h"
#include "src/ilp/model/rows.h"
#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

double real(Cost cost) { return cost >= kNever ? kInfinity : static_cast<double>(cost); }

std::vector<double> table_from(const View& table, std::size_t rows) {
  std::vector<double> result;
  result.reserve(rows * static_cast<std::size_t>(table.columns));
  for (std::size_t p = 0; p < rows; ++p)
    for (int q = 0; q < table.columns; ++q)
      result.push_back(real(table.at(static_cast<int>(p), q)));
  return result;
}

/// A table without repeated lines, both ways.
struct Compact {
  std::shared_ptr<const std::vector<double>> rows, columns;
  std::shared_ptr<const std::vector<int>> class_a, class_b;
  std::size_t lines_a = 0, lines_b = 0;
};

Compact compact(const std::vector<double>& table, std::size_t rows, std::size_t columns) {
  const LineClasses a = classes_of_rows(table, rows, columns),
                    b = classes_of_rows(transposed(table, rows, columns), columns, rows);
  std::vector<double> small;
  for (int p : a.first)
    for (int q : b.first) small.push_back(table[static_cast<std::size_t>(p) * columns + q]);
  std::vector<double> other = transposed(small, a.first.size(), b.first.size());
  return {std::make_shared<const std::vector<double>>(std::move(small)),
          std::make_shared<const std::vector<double>>(std::move(other)),
          std::make_shared<const std::vector<int>>(a.of_line),
          std::make_shared<const std::vector<int>>(b.of_line),
          a.first.size(),
          b.first.size()};
}

/// Shares equal tables: repeated layers then stay in the cache.
class Shared {
 public:
  const Compact& operator()(std::vector<double> values, std::size_t rows) {
    auto& bucket = tables_[hash(values) ^ rows];
    for (const Known& known : bucket)
      if (known.rows == rows && known.values == values) return known.table;
    Compact table = compact(values, rows, values.size() / rows);
    bucket.push_back({std::move(values), rows, std::move(table)});
    return bucket.back().table;
  }

 private:
  struct Known {
    std::vector<double> values;
    std::size_t rows;
    Compact table;
  };
  static std::size_t hash(const std::vector<double>& values) {
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
  }
  std::unordered_map<std::size_t, std::vector<Known>> tables_;
};

/// Two doubles at once: of more the compiler takes the least one by one where registers are short.
typedef double Lanes __attribute__((vector_size(16), aligned(8), may_alias));
constexpr std::size_t kLanes = 2;

/// out[q] = min(out[q], row[q] - m).
void min_with_row(const double* row, double m, double* __restrict out, std::size_t columns) {
  std::size_t q = 0;
  for (; q + kLanes <= columns; q += kLanes) {
    Lanes value = *reinterpret_cast<const Lanes*>(row + q) - m;
    Lanes& least = *reinterpret_cast<Lanes*>(out + q);
    least = value < least ? value : least;
  }
  for (; q < columns; ++q) out[q] = std::min(out[q], row[q] - m);
}

/// out[q] = min over p of table[p][q] - message[p].
void min_columns(const double* table, const double* message, std::size_t rows, double* out,
                 std::size_t columns) {
  std::fill(out, out + columns, kInfinity);
  for (std::size_t p = 0; p < rows; ++p)
    min_with_row(table + p * columns, message[p], out, columns);
}

/// out[p] = min over q of table[p][q] - message[q].
void min_rows(const double* table, const double* message, std::size_t rows, double* out,
              std::size_t columns) {
  for (std::size_t p = 0; p < rows; ++p) {
    const double* row = table + p * columns;
    Lanes pair = {kInfinity, kInfinity};
    std::size_t q = 0;
    for (; q + kLanes <= columns; q += kLanes) {
      const Lanes value =
          *reinterpret_cast<const Lanes*>(row + q) - *reinterpret_cast<const Lanes*>(message + q);
      pair = value < pair ? value : pair;
    }
    double least = std::min(pair[0], pair[1]);
    for (; q < columns; ++q) least = std::min(least, row[q] - message[q]);
    out[p] = least;
  }
}

}  // namespace

Dual::Dual(const Model& model)
    : model_(&model), at_(model.nodes.size(), -1), rounded_(model.nodes.size(), 0) {
  std::size_t largest = 0, messages = 0;
  for (int i : live_nodes(model)) {
    if (model.nodes[i].copy) continue;  // its cheapest state is in the shares
    const std::vector<Cost>& costs = model.nodes[i].costs;
    at_[i] = static_cast<int>(nodes_.size());
    nodes_.push_back({i, state_.totals.size(), costs.size(), {}, {}});
    for (Cost cost : costs) state_.totals.push_back(real(cost));
    largest = std::max(largest, costs.size());
  }
  Shared shared;
  for (int e : live_edges(model)) {
    int a = model.edges[e].a, b = model.edges[e].b;
    if (at_[a] > at_[b]) std::swap(a, b);
    std::size_t rows = model.nodes[a].costs.size(), columns = model.nodes[b].costs.size();
    const Compact& table = shared(table_from(view(model, e, a), rows), rows);
    add_edge({.index = e,
              .a = at_[a],
              .b = at_[b],
              .rows = table.rows,
              .columns = table.columns,
              .class_a = table.class_a,
              .class_b = table.class_b,
              .lines_a = table.lines_a,
              .lines_b = table.lines_b,
              .size_a = rows,
              .size_b = columns},
             messages);
  }
  for (std::size_t t = 0; t < model.terms.size(); ++t)
    if (model.terms[t].alive) add_term(static_cast<int>(t), messages);
  state_.priced = state_.totals;
  state_.messages.assign(messages, 0);
  for (const DualTerm& term : terms_) start_messages(term);
  state_.multipliers.assign(model.slack.size(), 0);
  if (!model.slack.empty()) weights_.assign(state_.totals.size(), 0);
  scratch_.resize(largest);
  collapsed_.resize(largest);
  lines_.resize(largest);
  price_supplies();
  for (const DualTerm& term : terms_) rescale(term);
}

int Dual::add_edge(DualEdge edge, std::size_t& messages) {
  edge.at_a = messages;
  edge.at_b = messages + edge.size_a;
  messages += edge.size_a + edge.size_b;
  const int number = static_cast<int>(edges_.size());
  nodes_[edge.a].after.push_back(number);
  nodes_[edge.b].before.push_back(number);
  edges_.push_back(std::move(edge));
  return number;
}

void Dual::sweep() {
  pass(true);
  pass(false);
  split_terms();
  if (copies_) copies_->complete(rounded_);
}

void Dual::extrapolate(const State& before, double times) {
  const auto beyond = [times](std::vector<double>& now, const std::vector<double>& then) {
    for (std::size_t i = 0; i < now.size(); ++i)
      if (std::abs(now[i]) < kInfinity && std::abs(then[i]) < kInfinity)
        now[i] += times * (now[i] - then[i]);
  };
  beyond(state_.messages, before.messages);
  beyond(state_.totals, before.totals);
  for (const DualTerm& term : terms_) extrapolate_shares(term, before, times);
}

double Dual::cells_of_sweep() const {
  double cells = kTuning.dual.total_cells * static_cast<double>(state_.totals.size()) +
                 kTuning.dual.weight_cells * static_cast<double>(weights_.size()) +
                 kTuning.dual.node_cells * static_cast<double>(nodes_.size()) +
                 kTuning.dual.edge_cells * static_cast<double>(edges_.size());
  for (const DualEdge& edge : edges_) {
    const auto lines = static_cast<double>(edge.lines_a * edge.lines_b),
               strategies = static_cast<double>(edge.size_a + edge.size_b);
    // shares are split, too
    cells += edge.rows ? kTuning.dual.row_line_cells * lines +
                             kTuning.dual.row_strategy_cells * strategies
                       : kTuning.dual.line_cells * lines + kTuning.dual.strategy_cells * strategies;
  }
  return cells + cells_of_copies() + cells_of_rows();
}

void Dual::pass(bool forward) {
  int n = static_cast<int>(nodes_.size());
  for (int k = 0; k < n; ++k) visit(forward ? k : n - 1 - k, forward);
}

/// Collects from the edges behind, chooses a strategy given the choices behind,
/// hands on to the edges ahead.
void Dual::visit(int i, bool forward) {
  const DualNode& node = nodes_[i];
  const std::vector<int>&behind = forward ? node.before : node.after,
        &ahead = forward ? node.after : node.before;
  double* total = state_.totals.data() + node.at;
  conditioned_.assign(total, total + node.size);
  for (int e : behind) {
    const DualEdge& edge = edges_[e];
    double* message_here = state_.messages.data() + (forward ? edge.at_b : edge.at_a);
    const int chosen = rounded_[nodes_[forward ? edge.a : edge.b].index];
    message(edge, forward, scratch_.data());
    const Line line = line_of(edge, forward, chosen);
    const int* classes = (forward ? *edge.class_b : *edge.class_a).data();
    for (std::size_t p = 0; p < node.size; ++p) {
      conditioned_[p] +=
          line.entries[static_cast<std::size_t>(classes[p]) * line.stride] - message_here[p];
      total[p] += scratch_[p] - message_here[p];
      message_here[p] = scratch_[p];
    }
  }
  rounded_[node.index] = static_cast<int>(
      std::min_element(conditioned_.begin(), conditioned_.end()) - conditioned_.begin());
  if (temperature_ > 0) weigh(node, forward);
  double share =
      1.0 / static_cast<double>(std::max<std::size_t>({node.before.size(), node.after.size(), 1}));
  for (int e : ahead) {
    double* message = state_.messages.data() + (forward ? edges_[e].at_a : edges_[e].at_b);
    for (std::size_t p = 0; p < node.size; ++p) message[p] -= share * total[p];
  }
  double rest = 1 - share * static_cast<double>(ahead.size());
  for (std::size_t p = 0; p < node.size; ++p) total[p] *= rest;
}

/// Adds half the weights of one direction.
void Dual::weigh(const DualNode& node, bool forward) {
  const double* total = state_.totals.data() + node.at;
  double* weights = weights_.data() + node.at;
  const double least = *std::min_element(total, total + node.size);
  double sum = 0;
  for (std::size_t s = 0; s < node.size; ++s)
    sum += scratch_[s] = std::exp((least - total[s]) / temperature_);
  for (std::size_t s = 0; s < node.size; ++s)
    weights[s] = (forward ? 0 : weights[s]) + scratch_[s] / (2 * sum);
}

std::vector<double> Dual::mean_excess() const {
  std::vector<double> result(model_->slack.size() + 1, 0);
  const auto add = [&](const Piece& piece, double usage) {
    result[piece.from] += usage, result[piece.to] -= usage;
  };
  for (const DualNode& node : nodes_)
    for (const Piece& piece : model_->nodes[node.index].pieces)
      add(piece, std::inner_product(piece.amounts.begin(), piece.amounts.end(),
                                    weights_.begin() + static_cast<std::ptrdiff_t>(node.at), 0.0));
  for (std::size_t i = 0; i < model_->nodes.size(); ++i)
    if (const ModelNode& node = model_->nodes[i]; node.alive && node.copy)
      for (const Piece& piece : node.pieces)
        add(piece, static_cast<double>(piece.amounts[rounded_[i]]));
  std::partial_sum(result.begin(), result.end(), result.begin());
  result.pop_back();
  for (std::size_t r = 0; r < result.size(); ++r)
    result[r] -= static_cast<double>(model_->slack[r]);
  return result;
}

void Dual::collapse(const double* message, const std::vector<int>& classes, double* out,
                    std::size_t lines) {
  std::fill(out, out + lines, -kInfinity);
  for (std::size_t s = 0; s < classes.size(); ++s)
    out[classes[s]] = std::max(out[classes[s]], message[s]);
}

const double* Dual::lines_message(const DualEdge& edge, bool to_b) const {
  const double* theirs = state_.messages.data() + (to_b ? edge.at_a : edge.at_b);
  const std::size_t from = to_b ? edge.lines_a : edge.lines_b,
                    to = to_b ? edge.lines_b : edge.lines_a;
  collapse(theirs, to_b ? *edge.class_a : *edge.class_b, collapsed_.data(), from);
  if (edge.rows)
    min_columns((to_b ? edge.rows : edge.columns)->data(), collapsed_.data(), from, lines_.data(),
                to);
  else if (to_b)
    min_columns(state_.shares.data() + edge.at_shares, collapsed_.data(), from, lines_.data(), to);
  else
    min_rows(state_.shares.data() + edge.at_shares, collapsed_.data(), to, lines_.data(), from);
  return lines_.data();
}

void Dual::message(const DualEdge& edge, bool to_b, double* out) const {
  const double* lines = lines_message(edge, to_b);
  const std::vector<int>& classes = to_b ? *edge.class_b : *edge.class_a;
  for (std::size_t s = 0; s < classes.size(); ++s) out[s] = lines[classes[s]];
}

/// The entries of one strategy of a (or of b), by class of the other end.
Dual::Line Dual::line_of(const DualEdge& edge, bool of_a, int strategy) const {
  const auto line = static_cast<std::size_t>((of_a ? *edge.class_a : *edge.class_b)[strategy]);
  if (edge.rows && of_a) return {edge.rows->data() + line * edge.lines_b, 1};
  if (edge.rows) return {edge.columns->data() + line * edge.lines_a, 1};
  const double* shares = state_.shares.data() + edge.at_shares;
  return of_a ? Line{shares + line * edge.lines_b, 1} : Line{shares + line, edge.lines_b};
}

double Dual::bound() const {
  double sum = 0;
  for (const DualNode& node : nodes_)
    sum += *std::min_element(state_.totals.begin() + node.at,
                             state_.totals.begin() + node.at + node.size);
  for (std::size_t r = 0; r < model_->slack.size(); ++r)
    sum -= state_.multipliers[r] * static_cast<double>(model_->slack[r]);
  return sum;
}

void Dual::set_multipliers(std::vector<double> multipliers) {
  const RowPrices prices(*model_, multipliers);
  for (const DualNode& node : nodes_) {
    const ModelNode& source = model_->nodes[node.index];
    if (source.pieces.empty()) continue;
    for (std::size_t s = 0; s < node.size; ++s) {
      double priced = real(source.costs[s]);
      for (const Piece& piece : source.pieces)
        priced += static_cast<double>(piece.amounts[s]) * prices.of(piece);
      state_.totals[node.at + s] += priced - state_.priced[node.at + s];
      state_.priced[node.at + s] = priced;
    }
  }
  state_.multipliers = std::move(multipliers);
  for (const DualTerm* term : price_supplies()) rescale(*term);
}

}  // namespace alpa::ilp
