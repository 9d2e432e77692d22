#pragma once
/// Compares the calls of the library that the processes of a launch make. Rank 0 does so, from what
/// all tell it. Thread rule: of one thread.
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/processes/failure.h"

namespace alpa::processes {

class Calls {
 public:
  using Clock = std::chrono::steady_clock;

  /// Compares the calls of `size` processes.
  explicit Calls(int size) : size_(size) {}

  /// Rank `rank` makes call number `number`. `hash` covers everything that must be equal on all
  /// ranks, `text` included.
  void add(int rank, std::int64_t number, std::uint64_t hash, std::string_view text);

  /// Failure that describes the first call that is not the same on all ranks: most ranks against
  /// the others. Ranks that have not made that call are waited for, but not for long: they may
  /// never make it.
  std::optional<Failure> difference(Clock::time_point now);
  /// True if every call that a rank has made was made by all ranks.
  bool all_made_by_all() const { return calls_.empty(); }

 private:
  /// Ranks that make the same call.
  struct Kind {
    std::uint64_t hash = 0;
    std::string text;
    std::vector<int> ranks;
  };
  using Call = std::vector<Kind>;

  Failure describe(std::int64_t number, const Call& call) const;

  const int size_;
  std::map<std::int64_t, Call> calls_;  ///< those not yet made by all
  std::int64_t differs_ = 0;            ///< number of the first call that differs; 0: none
  Clock::time_point seen_{};            ///< when that was seen
};

/// "rank 3", "ranks 0 to 2", "ranks 0 to 2, 5 and 7"; in order, at least one.
std::string ranks_text(const std::vector<int>& ranks);

/// Processes went different ways: `what` says how, `rank` is one of the fewer.
Failure different_ways(const std::string& what, int rank);
/// Texts of `most` ranks and of some `others` differ: `what` says of what. Names the first line
/// that differs, in both, shortened around the difference.
Failure different_texts(std::string_view what, std::string_view text, const std::vector<int>& most,
                        std::string_view other, const std::vector<int>& others);

}  // namespace alpa::processes
