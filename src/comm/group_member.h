#pragma once
/// A member of a group in this process, and the call that it makes.
#include <exception>
#include <vector>

#include "combine.h"
#include "exchange.h"
#include "pieces.h"
#include "rendezvous.h"
#include "src/comm/group.h"

namespace alpa::comm {

struct alignas(64) Member {
  Member(int number, processes::Courier* courier) : number(number), exchange(courier) {}
  int number = 0;  ///< in the group
  Call shown;      ///< to the others, while it is under way
  Arrival arrival;
  bool worked = false;         ///< it is leaving
  std::exception_ptr failure;  ///< of its work
  Counts counts{};
  std::vector<Subtotal> parts;      ///< of one combination; sized once
  std::vector<std::byte*> targets;  ///< likewise
  Exchange exchange;
  // State of the call under way:
  std::vector<std::byte*> received;    ///< per other process: its partial results
  std::vector<int> incoming;           ///< per other process: the message that brings them
  std::vector<std::byte*> landed;      ///< per member: its shard or slice
  std::vector<int> arriving, leaving;  ///< per member: messages from and for it
};

}  // namespace alpa::comm
