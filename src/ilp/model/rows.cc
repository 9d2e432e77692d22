// Usage rows: normal form, strategies that cannot fit, rows that cannot bind
#include "src/ilp/model/rows.h"

#include <algorithm>

namespace alpa::ilp {
namespace {

using Counts = std::vector<Cost>;

/// Pieces as a sequence of disjoint intervals with summed amounts.
std::vector<Piece> disjoint(const std::vector<Piece>& pieces, int strategies) {
  std::vector<int> cuts;
  for (const Piece& piece : pieces) cuts.insert(cuts.end(), {piece.from, piece.to});
  cuts = distinct(std::move(cuts));
  auto index = [&](int row) {
    return std::lower_bound(cuts.begin(), cuts.end(), row) - cuts.begin();
  };
  std::vector<Counts> sums(cuts.size(), Counts(strategies, 0));
  for (const Piece& piece : pieces)
    for (int s = 0; s < strategies; ++s) {
      sums[index(piece.from)][s] += piece.amounts[s];
      sums[index(piece.to)][s] -= piece.amounts[s];
    }
  std::vector<Piece> result;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    if (c > 0)
      for (int s = 0; s < strategies; ++s) sums[c][s] += sums[c - 1][s];
    result.push_back({cuts[c], cuts[c + 1], sums[c]});
  }
  return result;
}

/// Normal form of one node; the constant parts go to `fixed`, differences by row.
void normalise_node(ModelNode& node, Counts& fixed) {
  std::vector<Piece> result;
  for (Piece& piece : disjoint(node.pieces, node.size())) {
    Cost least = *std::min_element(piece.amounts.begin(), piece.amounts.end());
    fixed[piece.from] += least;
    fixed[piece.to] -= least;
    bool varies = false;
    for (Cost& amount : piece.amounts) varies |= (amount -= least) > 0;
    if (!varies) continue;
    if (!result.empty() && result.back().to == piece.from && result.back().amounts == piece.amounts)
      result.back().to = piece.to;
    else
      result.push_back(std::move(piece));
  }
  node.pieces = std::move(result);
  node.normal = true;
}

/// Kept rows as a linked list with, at the boundary before each row, whether some
/// usage rises or falls there.
struct Boundaries {
  std::vector<char> rises, falls;
  explicit Boundaries(const Model& model) : rises(model.slack.size() + 1), falls(rises) {
    for (const ModelNode& node : model.nodes)
      for (std::size_t i = 0; i < node.pieces.size(); ++i) mark(node, i);
  }
  void mark(const ModelNode& node, std::size_t i) {
    const Piece& piece = node.pieces[i];
    bool continued = i > 0 && node.pieces[i - 1].to == piece.from;
    if (!continued) rises[piece.from] = 1;
    if (i + 1 == node.pieces.size() || node.pieces[i + 1].from != piece.to) falls[piece.to] = 1;
    if (!continued) return;
    const Piece& before = node.pieces[i - 1];
    for (std::size_t s = 0; s < piece.amounts.size(); ++s) {
      if (piece.amounts[s] > before.amounts[s]) rises[piece.from] = 1;
      if (piece.amounts[s] < before.amounts[s]) falls[piece.from] = 1;
    }
  }
};

/// Marks in `keep` the rows that no kept neighbour implies.
void drop_implied(const Model& model, std::vector<char>& keep) {
  Boundaries at(model);
  std::vector<int> kept;  // stack of rows, and flags of the boundary before each
  std::vector<std::pair<char, char>> before;
  bool rises = false, falls = false;
  for (std::size_t r = 0; r < model.slack.size(); ++r) {
    rises |= at.rises[r], falls |= at.falls[r];
    if (!keep[r]) continue;
    bool implied = false;
    while (!kept.empty()) {
      int last = kept.back();
      if (!rises && model.slack[r] >= model.slack[last]) {
        implied = true;
        break;
      }
      if (falls || model.slack[last] < model.slack[r]) break;
      keep[last] = 0;
      rises |= before.back().first, falls |= before.back().second;
      kept.pop_back(), before.pop_back();
    }
    if (implied) {
      keep[r] = 0;
      continue;
    }
    kept.push_back(static_cast<int>(r));
    before.emplace_back(rises, falls);
    rises = falls = false;
  }
}

void renumber(Model& model, const std::vector<char>& keep) {
  std::vector<int> position(keep.size() + 1, 0);
  for (std::size_t r = 0; r < keep.size(); ++r) position[r + 1] = position[r] + keep[r];
  for (ModelNode& node : model.nodes) {
    if (node.pieces.empty()) continue;
    for (Piece& piece : node.pieces)
      piece.from = position[piece.from], piece.to = position[piece.to];
    std::erase_if(node.pieces, [](const Piece& piece) { return piece.from >= piece.to; });
    node.normal = node.pieces.empty();  // neighbours may now be equal
  }
  for (std::size_t r = 0; r < keep.size(); ++r)
    if (keep[r])
      model.slack[position[r]] = model.slack[r], model.times[position[r]] = model.times[r];
  model.slack.resize(position.back());
  model.times.resize(position.back());
}

Cost least_room(const Model& model, const Piece& piece) {
  return *std::min_element(model.slack.begin() + piece.from, model.slack.begin() + piece.to);
}

}  // namespace

void normalise(Model& model) {
  Counts fixed(model.slack.size() + 1, 0);
  for (ModelNode& node : model.nodes)
    if (node.alive && !node.normal) normalise_node(node, fixed);
  Cost sum = 0;
  Contradiction worst;
  for (std::size_t r = 0; r < model.slack.size(); ++r) {
    model.slack[r] -= sum += fixed[r];
    if (-model.slack[r] > worst.missing) worst = {-model.slack[r], model.times[r]};
  }
  if (worst.missing > 0) throw worst;
}

namespace {

/// Largest usage the nodes could reach at each row.
std::vector<Cost> largest_usage(const Model& model) {
  Counts sums(model.slack.size() + 1, 0);
  for (const ModelNode& node : model.nodes)
    for (const Piece& piece : node.pieces) {
      Cost most = *std::max_element(piece.amounts.begin(), piece.amounts.end());
      sums[piece.from] += most;
      sums[piece.to] -= most;
    }
  for (std::size_t r = 1; r < sums.size(); ++r) sums[r] += sums[r - 1];
  sums.pop_back();
  return sums;
}

}  // namespace

std::vector<int> fitting_strategies(const Model& model, int index) {
  const ModelNode& node = model.nodes[index];
  std::vector<char> fits(node.size(), 1);
  for (const Piece& piece : node.pieces) {
    Cost slack = least_room(model, piece);
    for (int s = 0; s < node.size(); ++s)
      if (piece.amounts[s] > slack) fits[s] = 0;
  }
  return marked(fits);
}

bool drop_rows(Model& model) {
  std::vector<Cost> most = largest_usage(model);
  std::vector<char> keep(model.slack.size());
  for (std::size_t r = 0; r < keep.size(); ++r) keep[r] = most[r] > model.slack[r];
  drop_implied(model, keep);
  if (std::all_of(keep.begin(), keep.end(), [](char k) { return k; })) return false;
  renumber(model, keep);
  return true;
}

}  // namespace alpa::ilp
