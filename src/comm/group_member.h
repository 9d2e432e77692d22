#pragma once
/// A member of a group in this process, and the call that it makes.
#include <vector>

#include "combine.h"
#include "exchange.h"
#include "pieces.h"
#include "src/comm/group.h"

namespace alpa::comm {

/// Data that a member publishes to the others during a call.
struct Published {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Tensors in, out;
};

struct alignas(64) Member {
  Member(int number, processes::Courier* courier) : number(number), exchange(courier) {}
  int number = 0;  ///< in the group
  Published shown;
  Counts counts{};
  std::vector<Part> parts;          ///< of one combination; sized once
  std::vector<std::byte*> targets;  ///< likewise
  Exchange exchange;
  // Of the call under way:
  std::vector<std::byte*> received;    ///< per other process: its partial results
  std::vector<int> incoming;           ///< per other process: the message that brings them
  std::vector<std::byte*> landed;      ///< per member: its shard or slice
  std::vector<int> arriving, leaving;  ///< per member: messages from and for it
};

}  // namespace alpa::comm
