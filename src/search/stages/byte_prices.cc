// src/search/stages/byte_prices.cc — lower bounds of ranges whose bytes have a price
#include "src/search/stages/byte_prices.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/search/tuning.h"

namespace alpa {
double BytePrices::seconds_of(int price) { return std::ldexp(1.0, price); }

void BytePrices::set(int price, int layer, double seconds) {
  std::vector<double>& of_layers = by_price_[price].of_layers;
  if (std::ssize(of_layers) <= layer) of_layers.resize(layer + 1, -1);
  of_layers[layer] = seconds;
}

void BytePrices::take(const BytePrices& of_larger, int times) {
  const int halvings = std::countr_zero(static_cast<unsigned>(times));
  if (1 << halvings != times) return;
  for (const auto& [price, larger] : of_larger.by_price_) {
    std::vector<double>& taken = by_price_[price - halvings].taken;
    taken.resize(larger.of_layers.size(), -1);
    for (std::size_t layer = 0; layer < taken.size(); ++layer) {
      taken[layer] = std::max(taken[layer], larger.of_layers[layer] / times);
      if (layer < larger.taken.size())
        taken[layer] = std::max(taken[layer], larger.taken[layer] / times);
    }
  }
}

/// Where a layer's bound is not known, it takes no less than without a price or with a lower one,
/// and its share of a device for the rest of the price.
void BytePrices::sum(const std::vector<double>& seconds, const std::vector<double>& filled) {
  std::vector<double> least = seconds;
  double before = 0;
  for (auto& [price, priced] : by_price_) {
    priced.of_layers.resize(seconds.size(), -1);
    priced.taken.resize(seconds.size(), -1);
    priced.sums.assign(1, 0);
    for (std::size_t layer = 0; layer < seconds.size(); ++layer) {
      least[layer] += (seconds_of(price) - before) * filled[layer];
      least[layer] = std::max({least[layer], priced.of_layers[layer], priced.taken[layer]});
      priced.sums.push_back(priced.sums.back() + least[layer]);
    }
    before = seconds_of(price);
  }
}

double BytePrices::least(int price, const Priced& priced, int first, int last,
                         const BytesInFlight& bytes, double budget) const {
  const double of_byte = seconds_of(price) / budget;
  return priced.sums[last + 1] - priced.sums[first] +
         bytes.recomputable * std::min(bytes.seconds_per_byte, bytes.count * of_byte) +
         bytes.count * bytes.kept * of_byte - seconds_of(price);
}

double BytePrices::least(int first, int last, const BytesInFlight& bytes, double budget) const {
  double most = 0;
  for (const auto& [price, priced] : by_price_)
    most = std::max(most, least(price, priced, first, last, bytes, budget));
  return most;
}

/// The bound is concave in the price, so the best price has worse neighbours. Where one is little
/// worse, the other one is not much better: by twice the difference at the double price.
std::optional<int> BytePrices::next(int first, int last, const BytesInFlight& bytes, double budget,
                                    double seconds) const {
  const search::Tuning::BytePrices& tuning = search::kTuning.byte_prices;
  std::optional<int> best;
  double most = 0;
  std::map<int, double> bounds;
  const auto are_known = [&](const std::vector<double>& of) {
    return std::ssize(of) > last && std::ranges::all_of(of.begin() + first, of.begin() + last + 1,
                                                        [](double known) { return known >= 0; });
  };
  for (const auto& [price, priced] : by_price_) {
    if (!are_known(priced.of_layers) && !are_known(priced.taken)) continue;
    const double bound = bounds[price] = least(price, priced, first, last, bytes, budget);
    if (!best || bound > most) best = price, most = bound;
  }
  if (!best && seconds <= 0) return std::nullopt;
  if (!best) return static_cast<int>(std::lround(std::log2(tuning.first * seconds)));
  if (most < seconds && seconds_of(*best) < tuning.least * seconds) return std::nullopt;
  if (!are_known(by_price_.at(*best).of_layers)) return best;
  const auto below = bounds.find(*best - 1), above = bounds.find(*best + 1);
  const double enough = most - tuning.least_gain * std::max(most, seconds);
  if (below == bounds.end())
    return above != bounds.end() && above->second > enough ? std::nullopt
                                                           : std::optional(*best - 1);
  if (above == bounds.end() && below->second <= enough) return *best + 1;
  return std::nullopt;
}

}  // namespace alpa
