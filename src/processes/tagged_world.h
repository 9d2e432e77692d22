#pragma once
/// Calls that all processes make together beside those of `World`: by another thread, at its own
/// time. A tagged world has a tag of its own. Thread rule: one thread of a process at a time.
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "src/processes/world.h"

namespace alpa::processes {

class TaggedWorld {
 public:
  /// Polling of the progress thread while this one waits: `hurried` polls without pause;
  /// `patient`, for threads in the background, leaves the cores to others.
  enum class Waiting { hurried, patient };

  /// Collective: takes a tag.
  TaggedWorld(World& world, Waiting waiting);
  TaggedWorld(const TaggedWorld&) = delete;
  TaggedWorld& operator=(const TaggedWorld&) = delete;

  World& world() const { return world_; }

  /// Collective: `bytes` of rank 0, in all.
  std::string from_rank_0(std::string bytes = {});
  /// Collective: those of all processes, by rank, in rank 0; nothing in the others.
  std::vector<std::string> to_rank_0(const std::string& bytes);
  /// Collective: runs body() in all processes. If it throws in some, what it threw in the lowest of
  /// these ranks is thrown in all: Bug or Error, with the rank before its text.
  void in_all(const std::function<void()>& body);

 private:
  template <class Call>
  auto together(Call&& call);
  void post(int peer, void* data, std::int64_t bytes, bool sends);
  void wait(int peer);

  World& world_;
  const Waiting waiting_;
  const int tag_;
  std::deque<Request> requests_;  ///< by peer
};

/// "rank 3 of 8 (host n2, process 4711)".
std::string name_of_rank(const World& world, int rank);

}  // namespace alpa::processes
