#include "dual.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace alpa::ilp {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double real(Cost cost) { return cost >= kNever ? kInf : static_cast<double>(cost); }

std::vector<double> table_from(const View& table, std::size_t rows) {
  std::vector<double> result;
  result.reserve(rows * static_cast<std::size_t>(table.columns));
  for (std::size_t p = 0; p < rows; ++p)
    for (int q = 0; q < table.columns; ++q) result.push_back(real(table.at(static_cast<int>(p), q)));
  return result;
}

/// Shares equal tables: repeated layers then stay in the cache.
class Shared {
 public:
  std::shared_ptr<const std::vector<double>> operator()(std::vector<double> values) {
    auto& bucket = tables_[hash(values)];
    for (const auto& known : bucket)
      if (*known == values) return known;
    bucket.push_back(std::make_shared<const std::vector<double>>(std::move(values)));
    return bucket.back();
  }

 private:
  static std::size_t hash(const std::vector<double>& values) {
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
  }
  std::unordered_map<std::size_t, std::vector<std::shared_ptr<const std::vector<double>>>> tables_;
};

/// Four doubles at once; the compiler maps them to what the machine has.
typedef double Lanes __attribute__((vector_size(32), aligned(8), may_alias));
constexpr std::size_t kLanes = 4;

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
void min_columns(const std::vector<double>& table, const double* message, std::size_t rows, double* out,
                 std::size_t columns) {
  std::fill(out, out + columns, kInf);
  for (std::size_t p = 0; p < rows; ++p) min_with_row(table.data() + p * columns, message[p], out, columns);
}

}  // namespace

Dual::Dual(const Model& model)
    : model_(&model), at_(model.nodes.size(), -1), rounded_(model.nodes.size(), 0) {
  std::size_t largest = 0, messages = 0;
  for (int i : live_nodes(model)) {
    const std::vector<Cost>& costs = model.nodes[i].costs;
    at_[i] = static_cast<int>(nodes_.size());
    nodes_.push_back({i, state_.totals.size(), costs.size(), {}, {}});
    for (Cost cost : costs) state_.totals.push_back(real(cost));
    largest = std::max(largest, costs.size());
  }
  Shared shared;
  for (int e : live_edges(model)) {
    int a = model.edges[e].a, b = model.edges[e].b, edge = static_cast<int>(edges_.size());
    if (at_[a] > at_[b]) std::swap(a, b);
    std::size_t rows = model.nodes[a].costs.size(), columns = model.nodes[b].costs.size();
    edges_.push_back({e, at_[a], at_[b], shared(table_from(view(model, e, a), rows)),
                      shared(table_from(view(model, e, b), columns)), messages, messages + rows, rows,
                      columns});
    messages += rows + columns;
    nodes_[at_[a]].after.push_back(edge);
    nodes_[at_[b]].before.push_back(edge);
  }
  state_.priced = state_.totals;
  state_.messages.assign(messages, 0);
  state_.multipliers.assign(model.room.size(), 0);
  scratch_.resize(largest);
}

void Dual::sweep() {
  pass(true);
  pass(false);
}

double Dual::cells_of_sweep() const {
  double cells = static_cast<double>(4 * state_.totals.size() + 100 * nodes_.size() + 50 * edges_.size());
  for (const DualEdge& edge : edges_) cells += 3 * static_cast<double>(edge.size_a * edge.size_b);
  return cells;
}

void Dual::pass(bool forward) {
  int n = static_cast<int>(nodes_.size());
  for (int k = 0; k < n; ++k) visit(forward ? k : n - 1 - k, forward);
}

/// Collects from the edges behind, chooses a strategy given the choices behind, hands on to the edges
/// ahead.
void Dual::visit(int i, bool forward) {
  const DualNode& node = nodes_[i];
  const std::vector<int>&behind = forward ? node.before : node.after,
        &ahead = forward ? node.after : node.before;
  double* total = state_.totals.data() + node.at;
  conditioned_.assign(total, total + node.size);
  for (int e : behind) {
    const DualEdge& edge = edges_[e];
    const std::vector<double>& table = forward ? *edge.rows : *edge.columns;
    double* message = state_.messages.data() + (forward ? edge.at_b : edge.at_a);
    const double* theirs = state_.messages.data() + (forward ? edge.at_a : edge.at_b);
    int chosen = rounded_[nodes_[forward ? edge.a : edge.b].index];
    const double* row = table.data() + static_cast<std::size_t>(chosen) * node.size;
    min_columns(table, theirs, forward ? edge.size_a : edge.size_b, scratch_.data(), node.size);
    for (std::size_t p = 0; p < node.size; ++p) {
      conditioned_[p] += row[p] - message[p];
      total[p] += scratch_[p] - message[p];
      message[p] = scratch_[p];
    }
  }
  rounded_[node.index] =
      static_cast<int>(std::min_element(conditioned_.begin(), conditioned_.end()) - conditioned_.begin());
  double share =
      1.0 / static_cast<double>(std::max<std::size_t>({node.before.size(), node.after.size(), 1}));
  for (int e : ahead) {
    double* message = state_.messages.data() + (forward ? edges_[e].at_a : edges_[e].at_b);
    for (std::size_t p = 0; p < node.size; ++p) message[p] -= share * total[p];
  }
  double rest = 1 - share * static_cast<double>(ahead.size());
  for (std::size_t p = 0; p < node.size; ++p) total[p] *= rest;
}

double Dual::bound() const {
  double sum = 0;
  for (const DualNode& node : nodes_)
    sum += *std::min_element(state_.totals.begin() + node.at, state_.totals.begin() + node.at + node.size);
  std::vector<double> scratch(scratch_.size());
  for (const DualEdge& edge : edges_) {
    min_columns(*edge.rows, state_.messages.data() + edge.at_a, edge.size_a, scratch.data(), edge.size_b);
    double smallest = kInf;
    for (std::size_t q = 0; q < edge.size_b; ++q)
      smallest = std::min(smallest, scratch[q] - state_.messages[edge.at_b + q]);
    sum += smallest;
  }
  for (std::size_t r = 0; r < model_->room.size(); ++r)
    sum -= state_.multipliers[r] * static_cast<double>(model_->room[r]);
  return sum;
}

void Dual::set_multipliers(std::vector<double> multipliers) {
  std::vector<double> upto(multipliers.size() + 1, 0);
  for (std::size_t r = 0; r < multipliers.size(); ++r) upto[r + 1] = upto[r] + multipliers[r];
  for (const DualNode& node : nodes_) {
    const ModelNode& source = model_->nodes[node.index];
    if (source.pieces.empty()) continue;
    for (std::size_t s = 0; s < node.size; ++s) {
      double priced = real(source.costs[s]);
      for (const Piece& piece : source.pieces)
        priced += static_cast<double>(piece.amounts[s]) * (upto[piece.to] - upto[piece.from]);
      state_.totals[node.at + s] += priced - state_.priced[node.at + s];
      state_.priced[node.at + s] = priced;
    }
  }
  state_.multipliers = std::move(multipliers);
}

}  // namespace alpa::ilp
