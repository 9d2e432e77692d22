#pragma once
/// Memory in lower bounds of ranges of layers: every byte that a device holds costs the same price,
/// and the whole memory is refunded. A bound for each price (Lagrange), which adds up over layers.
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace alpa {

/// Bytes of a range of layers beside state, while so many micro-batches are in flight.
struct BytesInFlight {
  int count = 1;                ///< of micro-batches
  double kept = 0;              ///< bytes of a micro-batch on each device
  double recomputable = 0;      ///< bytes that are kept, too, or computed again
  double seconds_per_byte = 0;  ///< to compute these again, at least
};

/// Bounds of a model's layers on one mesh, by the price of a byte. Prices have numbers: a device
/// full of bytes costs 2^number seconds of a micro-batch. Plain data.
class BytePrices {
 public:
  static constexpr int kFree = std::numeric_limits<int>::min();  ///< no price

  /// Seconds of a device full of bytes.
  static double seconds_of(int price);

  /// Sets a lower bound on a layer's seconds of a micro-batch and the price of its state.
  void set(int price, int layer, double seconds);

  /// Takes over bounds of micro-batches that are `times` as large, a power of two.
  void take(const BytePrices& of_larger, int times);

  /// Prepares `least`. Per layer: a lower bound on its seconds, and the share of a device that its
  /// state fills at least.
  void sum(const std::vector<double>& seconds, const std::vector<double>& filled);

  /// Lower bound on the seconds of a micro-batch of these layers on devices with `budget` bytes,
  /// from all known prices; 0 if there are none.
  double least(int first, int last, const BytesInFlight& bytes, double budget) const;

  /// A price whose bounds of these layers may give a better one than those known. None: the best
  /// is known, or memory is in no bound above `seconds`, which they take at least.
  std::optional<int> next(int first, int last, const BytesInFlight& bytes, double budget,
                          double seconds) const;

 private:
  struct Priced {
    std::vector<double> of_layers;   ///< negative: unknown
    std::vector<double> taken = {};  ///< likewise, from larger micro-batches; own ones are better
    std::vector<double> sums;        ///< of the layers before each layer
  };
  double least(int price, const Priced& priced, int first, int last, const BytesInFlight& bytes,
               double budget) const;

  std::map<int, Priced> by_price_;
};

}  // namespace alpa
