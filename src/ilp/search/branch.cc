// Passes the reduced model to CBC as an integer program
#include "src/ilp/search/branch.h"

#include <CbcEventHandler.hpp>
#include <CbcModel.hpp>
#include <CglClique.hpp>
#include <CglKnapsackCover.hpp>
#include <ClpEventHandler.hpp>
#include <CoinPackedVector.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <cmath>

#include "src/ilp/model/lines.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/reduce/presolve.h"

namespace alpa::ilp {
namespace {

/// One edge as transport problem between groups of equal rows and groups of equal columns.
struct Transport {
  LineClasses rows, columns;
  std::vector<Cost> costs;
  Cost at(int g, int h, int width) const {
    return costs[static_cast<std::size_t>(rows.first[g]) * width + columns.first[h]];
  }
};

/// Counts the work of relaxations and ends them at the deadline.
class RelaxationEnd : public ClpEventHandler {
 public:
  RelaxationEnd(const Deadline& deadline, double cells, bool& cut_off)
      : deadline_(deadline), cells_(cells), cut_off_(cut_off) {}
  ClpEventHandler* clone() const override { return new RelaxationEnd(*this); }

  int event(Event event) override {
    if (event != endOfIteration) return kGoOn;
    deadline_.spend(cells_);
    if (!deadline_.passed()) return kGoOn;
    cut_off_ = true;
    return kStop;
  }

 private:
  static constexpr int kGoOn = -1, kStop = 0;
  const Deadline& deadline_;
  double cells_;  ///< of an iteration
  bool& cut_off_;
};

/// Ends CBC between two nodes at the deadline.
class NodesEnd : public CbcEventHandler {
 public:
  explicit NodesEnd(const Deadline& deadline) : deadline_(deadline) {}
  CbcEventHandler* clone() const override { return new NodesEnd(*this); }
  CbcAction event(CbcEvent) override { return deadline_.passed() ? stop : noAction; }

 private:
  const Deadline& deadline_;
};

/// The integer program: binary x per node and strategy, continuous transport variables per edge.
class Program {
 public:
  Program(Model model, std::optional<Cost> cutoff, const Deadline& deadline)
      : model_(std::move(model)), cutoff_(cutoff), deadline_(deadline), nodes_(live_nodes(model_)) {
    solver_.messageHandler()->setLogLevel(0);
    solver_.setHintParam(OsiDoReducePrint, true, OsiHintDo);
    prepare();
    load();
    row_used_.resize(model_.slack.size());
  }

  Branched run(Statistics& statistics) {
    if (cutoff_ && offset_ >= *cutoff_) return {std::nullopt, *cutoff_, true};
    if (!solve_relaxation()) return stopped_early();
    Branched result;
    do {
      statistics.variables = solver_.getNumCols();
      statistics.constraints = solver_.getNumRows();
      result = search();
    } while (!fitting_ && !deadline_.passed());
    return result;
  }

 private:
  void prepare() {
    costs_.resize(model_.nodes.size());
    for (int e : live_edges(model_)) {  // lines that differ by a constant become equal
      project(model_, e);
      const std::vector<Cost>& costs = model_.edges[e].costs;
      const std::size_t rows = model_.nodes[model_.edges[e].a].costs.size(),
                        columns = model_.nodes[model_.edges[e].b].costs.size();
      transports_.emplace_back(
          e, Transport{classes_of_rows(costs, rows, columns),
                       classes_of_rows(transposed(costs, rows, columns), columns, rows), costs});
    }
    for (int i : nodes_) costs_[i] = model_.nodes[i].costs;
    Cost largest = 1;
    for (int i : nodes_) {
      Cost least = *std::min_element(costs_[i].begin(), costs_[i].end());
      offset_ = plus(offset_, least);
      for (Cost& c : costs_[i])
        if (c < kNever) c -= least, largest = std::max(largest, c);
    }
    for (auto& [e, t] : transports_)
      for (Cost c : t.costs)
        if (c < kNever) largest = std::max(largest, c);
    if (cutoff_) largest = std::max<Cost>(1, *cutoff_ - offset_);
    scale_ = std::max(1.0, static_cast<double>(largest) / 1e6);
  }

  /// Costs above the cutoff can never be paid: nothing else is negative.
  bool payable(Cost cost) const { return cost < kNever && (!cutoff_ || cost < *cutoff_ - offset_); }

  int add_column(Cost cost, bool integer) {
    objective_.push_back(payable(cost) ? static_cast<double>(cost) / scale_ : 0);
    upper_.push_back(payable(cost) ? 1 : 0);
    if (integer) integers_.push_back(static_cast<int>(objective_.size()) - 1);
    return static_cast<int>(objective_.size()) - 1;
  }

  int add_row(double right) {
    right_.push_back(right);
    return static_cast<int>(right_.size()) - 1;
  }

  void set(int row, int column, double value) {
    at_row_.push_back(row), at_column_.push_back(column), values_.push_back(value);
  }

  void load() {
    first_.resize(model_.nodes.size(), -1);
    for (int i : nodes_) {
      int row = add_row(1);
      for (int s = 0; s < model_.nodes[i].size(); ++s) {
        int column = add_column(costs_[i][s], true);
        if (s == 0) first_[i] = column;
        set(row, column, 1);
      }
    }
    for (auto& [e, t] : transports_) load_edge(model_.edges[e], t);
    CoinPackedMatrix matrix(true, at_row_.data(), at_column_.data(), values_.data(),
                            static_cast<CoinBigIndex>(values_.size()));
    matrix.setDimensions(static_cast<int>(right_.size()), static_cast<int>(objective_.size()));
    std::vector<double> lower(objective_.size(), 0);
    solver_.loadProblem(matrix, lower.data(), upper_.data(), objective_.data(), right_.data(),
                        right_.data());
    solver_.setInteger(integers_.data(), static_cast<int>(integers_.size()));
    const RelaxationEnd end(
        deadline_, kTuning.branch.iteration_cells * static_cast<double>(values_.size()), cut_off_);
    solver_.getModelPtr()->passInEventHandler(&end);
  }

  /// Sum of the transport from a group = sum of its strategies, on both sides.
  void load_edge(const ModelEdge& edge, Transport& t) {
    std::vector<int> row_of, column_of;
    for (std::size_t g = 0; g < t.rows.first.size(); ++g) row_of.push_back(add_row(0));
    for (std::size_t h = 0; h < t.columns.first.size(); ++h) column_of.push_back(add_row(0));
    for (std::size_t p = 0; p < t.rows.of_line.size(); ++p)
      set(row_of[t.rows.of_line[p]], first_[edge.a] + static_cast<int>(p), -1);
    for (std::size_t q = 0; q < t.columns.of_line.size(); ++q)
      set(column_of[t.columns.of_line[q]], first_[edge.b] + static_cast<int>(q), -1);
    int width = static_cast<int>(t.columns.of_line.size());
    for (std::size_t g = 0; g < row_of.size(); ++g)
      for (std::size_t h = 0; h < column_of.size(); ++h) {
        Cost cost = t.at(static_cast<int>(g), static_cast<int>(h), width);
        if (!payable(cost)) continue;
        int column = add_column(cost, false);
        set(row_of[g], column, 1);
        set(column_of[h], column, 1);
      }
  }

  /// Solves the relaxation, adding violated usage rows. False if time ran out.
  bool solve_relaxation() {
    solver_.initialSolve();
    for (int round = 0; round < kTuning.branch.row_rounds; ++round) {
      if (cut_off_ || deadline_.passed() || solver_.isAbandoned()) return false;
      if (solver_.isProvenPrimalInfeasible()) return true;
      if (!solver_.isProvenOptimal()) return false;
      bound_ = std::max(bound_, unscaled(solver_.getObjValue()));
      if (!add_violated_rows(solver_.getColSolution())) return true;
      solver_.resolve();
    }
    return true;
  }

  /// A valid whole-number bound from a value of the scaled objective.
  Cost unscaled(double value) const {
    double cost = value * scale_;
    return offset_ + static_cast<Cost>(std::ceil(cost - 1e-6 * std::max(1.0, std::abs(cost))));
  }

  /// Adds the rows where `values` exceed the slack most, one per stretch of exceeded
  /// rows. Returns true if any.
  bool add_violated_rows(const double* values) {
    std::vector<double> over(model_.slack.size() + 1, 0);
    for (int i : nodes_)
      for (const Piece& piece : model_.nodes[i].pieces) {
        double sum = 0;
        for (std::size_t s = 0; s < piece.amounts.size(); ++s)
          sum += static_cast<double>(piece.amounts[s]) * values[first_[i] + static_cast<int>(s)];
        over[piece.from] += sum;
        over[piece.to] -= sum;
      }
    bool added = false;
    double used = 0, worst = 0;
    int at = -1;
    for (std::size_t r = 0; r <= model_.slack.size(); ++r) {
      double excess = 0;
      if (r < model_.slack.size()) {
        double slack = std::max(1.0, static_cast<double>(model_.slack[r]));
        excess = ((used += over[r]) - static_cast<double>(model_.slack[r])) / slack;
        if (excess > std::max(worst, 1e-9) && !row_used_[r])
          worst = excess, at = static_cast<int>(r);
      }
      if (excess <= 1e-9 && at >= 0) add_usage_row(at), added = true, worst = 0, at = -1;
    }
    return added;
  }

  void add_usage_row(int row) {
    row_used_[row] = 1;
    double unit = std::max(1.0, static_cast<double>(model_.slack[row])) / 1e3;
    CoinPackedVector entries;
    for (int i : nodes_)
      if (const Piece* piece = model_.nodes[i].piece_at(row))
        for (std::size_t s = 0; s < piece->amounts.size(); ++s)
          if (piece->amounts[s] > 0)
            entries.insert(first_[i] + static_cast<int>(s),
                           static_cast<double>(piece->amounts[s]) / unit);
    solver_.addRow(entries, -COIN_DBL_MAX, static_cast<double>(model_.slack[row]) / unit);
  }

  Branched stopped_early() const {
    Branched result;
    result.bound = bound_;
    return result;
  }

  /// One run of CBC with the rows added so far. `fitting_` tells whether its answer keeps all rows.
  Branched search() {
    CbcModel cbc(solver_);
    cbc.setLogLevel(0);
    cbc.messageHandler()->setLogLevel(0);
    cbc.setUseElapsedTime(true);
    const Deadline nodes_end = deadline_.within(kTuning.branch.share * deadline_.left());
    NodesEnd handler(nodes_end);
    cbc.passInEventHandler(&handler);
    cbc.setMaximumSeconds(std::max(kTuning.branch.least_seconds, nodes_end.wall_left()));
    cbc.setAllowableGap(0);
    cbc.setAllowableFractionGap(0);
    cbc.setNumberThreads(0);
    cbc.setNumberBeforeTrust(kTuning.branch.before_trust);
    CglClique clique;
    clique.setStarCliqueReport(false);
    clique.setRowCliqueReport(false);
    CglKnapsackCover cover;
    cbc.addCutGenerator(&clique, -99, "clique");
    if (!model_.slack.empty()) cbc.addCutGenerator(&cover, -99, "cover");
    if (cutoff_) cbc.setCutoff((static_cast<double>(*cutoff_ - offset_) - 0.5) / scale_);
    cbc.branchAndBound();
    return read(cbc);
  }

  Branched read(CbcModel& cbc) {
    Branched result;
    fitting_ = true;
    bool finished = !cut_off_ && cbc.status() == 0 && cbc.secondaryStatus() <= 1;
    const double* values = cbc.bestSolution();
    if (values) {
      std::vector<int> choice(model_.nodes.size(), 0);
      for (int i : nodes_)
        for (int s = 0; s < model_.nodes[i].size(); ++s)
          if (values[first_[i] + s] > values[first_[i] + choice[i]]) choice[i] = s;
      if (fits(model_, choice)) {
        if (price(model_, choice) < cutoff_.value_or(kNever)) result.choice = std::move(choice);
      } else {
        fitting_ = !add_violated_rows(values);
        finished &= !fitting_;
      }
    }
    result.closed = finished && fitting_;
    if (!finished && !cut_off_) bound_ = std::max(bound_, unscaled(cbc.getBestPossibleObjValue()));
    result.bound = bound_;
    return result;
  }

  Model model_;
  std::optional<Cost> cutoff_;
  const Deadline& deadline_;
  std::vector<int> nodes_;
  OsiClpSolverInterface solver_;
  std::vector<std::vector<Cost>> costs_;
  std::vector<std::pair<int, Transport>> transports_;
  std::vector<int> first_;  // column of each node's first strategy
  std::vector<double> objective_, upper_, right_, values_;
  std::vector<int> integers_, at_row_, at_column_;
  std::vector<char> row_used_;
  Cost offset_ = 0, bound_ = -kNever;
  double scale_ = 1;
  bool fitting_ = true;
  bool cut_off_ = false;  ///< a relaxation was ended by the deadline
};

}  // namespace

Branched branch(Model model, std::optional<Cost> cutoff, const Deadline& deadline,
                Statistics& statistics) {
  for (int e : live_edges(model))
    deadline.spend(kTuning.branch.setup_cells * static_cast<double>(model.edges[e].costs.size()));
  return Program(std::move(model), cutoff, deadline).run(statistics);
}

}  // namespace alpa::ilp
