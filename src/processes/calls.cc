// src/processes/calls.cc — finds the call in which processes of a launch differ
#include "src/processes/calls.h"

#include <fmt/core.h>

#include <algorithm>

#include "alpa/base/text.h"

namespace alpa::processes {
namespace {

/// Time to wait for calls of ranks that are on their way.
constexpr std::chrono::milliseconds kPatience{500};

/// Bytes of a line that differs: before the difference, and in all.
constexpr std::size_t kShownBefore = 60, kShown = 120;

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    while (end < ranks.size() && ranks[end] == ranks[begin] + static_cast<int>(end - begin)) ++end;
    if (end - begin > 2) {
      runs.push_back(fmt::format("{} to {}", ranks[begin], ranks[end - 1]));
    } else {
      for (std::size_t i = begin; i < end; ++i) runs.push_back(std::to_string(ranks[i]));
    }
  }
  std::string text = ranks.size() > 1 ? "ranks " : "rank ";
  for (std::size_t i = 0; i < runs.size(); ++i)
    text += (i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ") + runs[i];
  return text;
}

void Calls::add(int rank, std::int64_t number, std::uint64_t hash, std::string_view text) {
  Call& call = calls_[number];
  auto kind =
      std::find_if(call.begin(), call.end(), [&](const Kind& known) { return known.hash == hash; });
  if (kind == call.end()) kind = call.insert(call.end(), {hash, std::string(text), {}});
  std::vector<int>& ranks = kind->ranks;
  const auto place = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (place == ranks.end() || *place != rank) ranks.insert(place, rank);
  if (call.size() == 1) {
    if (std::ssize(ranks) == size_) calls_.erase(number);
  } else if (differs_ == 0 || number < differs_) {
    differs_ = number;
    seen_ = Clock::now();
  }
}

std::optional<Failure> Calls::difference(Clock::time_point now) {
  if (differs_ == 0) return std::nullopt;
  const Call& call = calls_.at(differs_);
  std::int64_t made = 0;
  for (const Kind& kind : call) made += std::ssize(kind.ranks);
  if (made < size_ && now - seen_ < kPatience) return std::nullopt;
  return describe(differs_, call);
}

Failure Calls::describe(std::int64_t number, const Call& call) const {
  std::vector<const Kind*> kinds;
  for (const Kind& kind : call) kinds.push_back(&kind);
  std::sort(kinds.begin(), kinds.end(), [](const Kind* a, const Kind* b) {
    return a->ranks.size() != b->ranks.size() ? a->ranks.size() > b->ranks.size()
                                              : a->ranks.front() < b->ranks.front();
  });
  const Kind &most = *kinds[0], &other = *kinds[1];
  const std::string these = ranks_text(most.ranks), those = ranks_text(other.ranks);
  const std::string what = most.text == other.text
                               ? fmt::format("call {}, {}, has other data in {} than in {}", number,
                                             most.text, those, these)
                               : fmt::format("call {} of {} is {}, that of {} is {}", number, these,
                                             most.text, those, other.text);
  return different_ways(what, other.ranks.front());
}

Failure different_ways(const std::string& what, int rank) {
  return {fmt::format("the processes went different ways: {}; every process must run the same "
                      "program with the same flags and data, and make the same calls in the same "
                      "order",
                      what),
          2, rank, true};
}

Failure different_texts(std::string_view what, std::string_view text, const std::vector<int>& most,
                        std::string_view other, const std::vector<int>& others) {
  const auto at = static_cast<std::size_t>(
      std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first - text.begin());
  const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  const auto shown = [&](std::string_view of) {
    const std::size_t begin = at - line > kShownBefore ? at - kShownBefore : line;
    const std::string_view rest = of.substr(begin, of.find('\n', begin) - begin);
    if (rest.empty()) return std::string("nothing");
    return (begin > line ? "`…" : "`") + excerpt(rest, kShown) + "`";
  };
  return different_ways(fmt::format("{} has {} in {}, {} in {}", what, shown(text),
                                    ranks_text(most), shown(other), ranks_text(others)),
                        others.front());
}

}  // namespace alpa::processes
