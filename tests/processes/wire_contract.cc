// What every implementation of a wire promises.
#include "processes/wire_contract.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

namespace alpa::testing {
namespace {

using processes::kAnyPeer;
using processes::Wire;
using Buffer = std::vector<std::byte>;

template <class... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw std::runtime_error(fmt::format(format, std::forward<Args>(args)...));
}

/// Byte i of a message that `seed` tells from others.
std::byte byte_of(std::uint64_t seed, std::int64_t i) {
  const std::uint64_t word =
      (seed * 1'000'003 + static_cast<std::uint64_t>(i)) * 0x9E3779B97F4A7C15;
  return static_cast<std::byte>(word >> 56);
}

Buffer content(std::uint64_t seed, std::int64_t bytes) {
  Buffer buffer(static_cast<std::size_t>(bytes));
  for (std::int64_t i = 0; i < bytes; ++i) buffer[static_cast<std::size_t>(i)] = byte_of(seed, i);
  return buffer;
}

void expect_content(const Buffer& buffer, std::uint64_t seed, std::string_view what) {
  const auto bytes = static_cast<std::int64_t>(buffer.size());
  for (std::int64_t i = 0; i < bytes; ++i)
    expect(buffer[static_cast<std::size_t>(i)] == byte_of(seed, i), "{}: byte {} of {} is wrong",
           what, i, bytes);
}

/// Tells a message from every other of a check.
std::uint64_t seed_of(int from, int to, int number) {
  return (static_cast<std::uint64_t>(from) * 64 + static_cast<std::uint64_t>(to)) * 4096 +
         static_cast<std::uint64_t>(number);
}

int send(Wire& wire, int peer, int tag, const Buffer& buffer) {
  return wire.send(peer, tag, buffer.data(), static_cast<std::int64_t>(buffer.size()));
}

int receive(Wire& wire, int peer, int tag, Buffer& buffer) {
  return wire.receive(peer, tag, buffer.data(), static_cast<std::int64_t>(buffer.size()));
}

int value_of(const Buffer& buffer) {
  int value = 0;
  std::memcpy(&value, buffer.data(), sizeof value);
  return value;
}

Buffer buffer_of(int value, std::size_t bytes = sizeof(int)) {
  Buffer buffer(bytes);
  std::memcpy(buffer.data(), &value, sizeof value);
  return buffer;
}

/// Erases completed tickets from `open`, which has all that are under way, until `done`.
template <class Done>
void take_completed(Wire& wire, std::vector<int>& open, Done&& done) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  std::array<int, 16> completed{};
  while (!done()) {
    const int count = wire.completed(completed);
    for (int i = 0; i < count; ++i)
      expect(std::erase(open, completed[static_cast<std::size_t>(i)]) == 1,
             "a ticket that is not under way is completed");
    if (count > 0) continue;
    expect(std::chrono::steady_clock::now() < limit, "process {} waits for {} messages in vain",
           wire.rank(), open.size());
    std::this_thread::yield();
  }
}

/// Around Open MPI's limits of short messages: 4 KiB in shared memory, 64 KiB by TCP.
constexpr std::int64_t kSizes[] = {0, 1, 7, 4095, 4097, 65536, 1'000'003};

void everyone_to_everyone(Wire& wire) {
  std::vector<Buffer> sent, received;
  std::vector<int> tickets;
  for (int peer = 0; peer < wire.size(); ++peer)
    for (int number = 0; number < static_cast<int>(std::size(kSizes)); ++number) {
      sent.push_back(content(seed_of(wire.rank(), peer, number), kSizes[number]));
      received.emplace_back(static_cast<std::size_t>(kSizes[number]), std::byte{0xEE});
    }
  const auto at = [](int peer, int number) {
    return static_cast<std::size_t>(peer) * std::size(kSizes) + static_cast<std::size_t>(number);
  };
  for (int peer = 0; peer < wire.size(); ++peer)
    for (int number = 0; number < static_cast<int>(std::size(kSizes)); ++number) {
      tickets.push_back(send(wire, peer, number, sent[at(peer, number)]));
      tickets.push_back(receive(wire, peer, number, received[at(peer, number)]));
    }
  wait_for(wire, tickets);
  for (int peer = 0; peer < wire.size(); ++peer)
    for (int number = 0; number < static_cast<int>(std::size(kSizes)); ++number)
      expect_content(received[at(peer, number)], seed_of(peer, wire.rank(), number),
                     fmt::format("from {} to {}", peer, wire.rank()));
}

/// Both ends start first in turn; process 0 does with every other.
void either_side_first(Wire& wire) {
  constexpr std::int64_t kBytes = 300'000;
  for (int number = 0; number < 2; ++number)
    for (int peer = 1; peer < wire.size(); ++peer) {
      const bool sends = wire.rank() == 0, receives = wire.rank() == peer;
      const Buffer given = content(seed_of(0, peer, number), kBytes);
      Buffer taken(kBytes);
      std::vector<int> tickets;
      if (number == 0 && sends) tickets = {send(wire, peer, 5, given)};
      if (number == 1 && receives) tickets = {receive(wire, 0, 5, taken)};
      wait_for_all(wire, tickets);
      if (number == 0 && receives) tickets = {receive(wire, 0, 5, taken)};
      if (number == 1 && sends) tickets = {send(wire, peer, 5, given)};
      wait_for(wire, tickets);
      if (receives) expect_content(taken, seed_of(0, peer, number), "either side first");
    }
}

/// Short and long ones in turn, two tags at a time.
void in_order(Wire& wire) {
  constexpr int kMessages = 60, kTags[] = {3, 4};
  const auto bytes_of = [](int number) { return std::size_t{number % 3 == 0 ? 20'000U : 8U}; };
  std::vector<Buffer> sent;
  std::vector<std::vector<Buffer>> received;
  std::vector<int> tickets;
  sent.reserve(2 * kMessages * static_cast<std::size_t>(wire.size()));
  for (int peer = 0; peer < wire.size(); ++peer)
    for (int tag : kTags)
      for (int number = 0; number < kMessages; ++number) {
        sent.push_back(buffer_of(number * 10 + tag, bytes_of(number)));
        tickets.push_back(send(wire, peer, tag, sent.back()));
      }
  for (int peer = 0; peer < wire.size(); ++peer)
    for (int tag : kTags) {
      std::vector<Buffer>& all = received.emplace_back();
      for (int number = 0; number < kMessages; ++number) all.emplace_back(bytes_of(number));
      for (Buffer& buffer : all) tickets.push_back(receive(wire, peer, tag, buffer));
    }
  wait_for(wire, tickets);
  for (std::size_t flow = 0; flow < received.size(); ++flow)
    for (int number = 0; number < kMessages; ++number) {
      const int value = value_of(received[flow][static_cast<std::size_t>(number)]);
      expect(value == number * 10 + kTags[flow % 2], "message {} of a flow is {}", number, value);
    }
}

/// Everyone sends to process 0, itself too.
void whoever_is_first(Wire& wire) {
  constexpr int kMessages = 50, kTag = 9;
  std::vector<Buffer> sent, received;
  std::vector<int> tickets;
  for (int number = 0; number < kMessages; ++number)
    sent.push_back(buffer_of(wire.rank() * kMessages + number));
  for (const Buffer& buffer : sent) tickets.push_back(send(wire, 0, kTag, buffer));
  if (wire.rank() == 0) {
    received.assign(static_cast<std::size_t>(kMessages * wire.size()), Buffer(sizeof(int)));
    for (Buffer& buffer : received) tickets.push_back(receive(wire, kAnyPeer, kTag, buffer));
  }
  wait_for(wire, tickets);
  std::vector<int> next(static_cast<std::size_t>(wire.size()));
  for (const Buffer& buffer : received) {
    const int from = value_of(buffer) / kMessages, number = value_of(buffer) % kMessages;
    expect(from >= 0 && from < wire.size(), "a message of process {}", from);
    expect(next[static_cast<std::size_t>(from)]++ == number,
           "message {} of process {} is out of order", number, from);
  }
  // Later messages with this tag must not be taken by receives from any peer.
  std::vector<int> none;
  wait_for_all(wire, none);
}

/// Receives of everything, then sends of it in another order.
void many_under_way(Wire& wire) {
  constexpr int kMessages = 400;
  std::vector<Buffer> sent, received;
  std::vector<int> tickets;
  for (int peer = 0; peer < wire.size(); ++peer)
    for (int number = 0; number < kMessages; ++number) {
      sent.push_back(content(seed_of(wire.rank(), peer, number), 1 + number % 90));
      received.emplace_back(sent.back().size());
    }
  for (std::size_t i = 0; i < received.size(); ++i)
    tickets.push_back(receive(wire, static_cast<int>(i) / kMessages,
                              static_cast<int>(i) % kMessages, received[i]));
  std::vector<std::size_t> order(sent.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(17));
  for (const std::size_t i : order)
    tickets.push_back(
        send(wire, static_cast<int>(i) / kMessages, static_cast<int>(i) % kMessages, sent[i]));
  wait_for(wire, tickets);
  for (std::size_t i = 0; i < received.size(); ++i)
    expect_content(
        received[i],
        seed_of(static_cast<int>(i) / kMessages, wire.rank(), static_cast<int>(i) % kMessages),
        "one of many");
}

/// Messages to itself, whose tickets are taken by three.
void few_tickets_at_a_time(Wire& wire) {
  constexpr int kMessages = 20;
  std::vector<Buffer> sent(kMessages, Buffer(4)), received(kMessages, Buffer(4));
  std::set<int> open;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < kMessages; ++i) {
      expect(open.insert(send(wire, wire.rank(), 1, sent[i])).second, "a ticket is given twice");
      expect(open.insert(receive(wire, wire.rank(), 1, received[i])).second,
             "a ticket is given twice");
    }
    expect(*open.begin() >= 0, "ticket {}", *open.begin());
    while (!open.empty()) {
      std::array<int, 4> tickets = {-7, -7, -7, -7};
      const int count = wire.completed(std::span(tickets).first(3));
      expect(count >= 0 && count <= 3 && tickets[3] == -7, "{} tickets of at most 3", count);
      for (int i = 0; i < count; ++i)
        expect(open.erase(tickets[static_cast<std::size_t>(i)]) == 1,
               "a ticket that is not under way is completed");
    }
  }
  std::array<int, 1> none{};
  expect(wire.completed(none) == 0, "a ticket is completed twice");
}

/// A receive is not completed by messages with another tag or of another sender.
void only_what_fits(Wire& wire) {
  const int next = (wire.rank() + 1) % wire.size();
  const int before = (wire.rank() + wire.size() - 1) % wire.size();
  const Buffer first = buffer_of(1), second = buffer_of(2);
  Buffer taken_first = buffer_of(0), taken_second = buffer_of(0);
  const int waiting = receive(wire, before, wire.max_tag(), taken_second);
  std::vector<int> tickets = {waiting, send(wire, next, 0, first)};
  for (int round = 0; round < 3; ++round) {
    // Nobody starts the second message before all are past this.
    expect(!tickets.empty() && tickets.front() == waiting,
           "a message with another tag completes a receive");
    wait_for_all(wire, tickets);
  }
  tickets.push_back(receive(wire, before, 0, taken_first));
  tickets.push_back(send(wire, next, wire.max_tag(), second));
  wait_for(wire, tickets);
  expect(value_of(taken_first) == 1 && value_of(taken_second) == 2, "tags are mixed up");
}

void hosts_are_numbered(Wire& wire) {
  std::vector<Buffer> received(static_cast<std::size_t>(wire.size()), Buffer(sizeof(int)));
  const Buffer own = buffer_of(wire.host());
  std::vector<int> tickets;
  for (int peer = 0; peer < wire.size(); ++peer) {
    tickets.push_back(send(wire, peer, 2, own));
    tickets.push_back(receive(wire, peer, 2, received[static_cast<std::size_t>(peer)]));
  }
  wait_for(wire, tickets);
  int known = 0;
  for (const Buffer& host : received) {
    expect(value_of(host) >= 0 && value_of(host) <= known, "host {} comes before {}",
           value_of(host), known);
    known = std::max(known, value_of(host) + 1);
  }
}

void long_messages(Wire& wire) { pass_around(wire, 40'000'001); }

}  // namespace

void wait_for(Wire& wire, std::vector<int> tickets) {
  const std::size_t given = tickets.size();
  expect(std::set<int>(tickets.begin(), tickets.end()).size() == given, "a ticket is given twice");
  take_completed(wire, tickets, [&] { return tickets.empty(); });
}

void wait_for_all(Wire& wire, std::vector<int>& under_way) {
  constexpr int kTag = 32'000;
  std::set<int> own;
  for (int peer = 0; peer < wire.size(); ++peer) {
    own.insert(wire.receive(peer, kTag, nullptr, 0));
    own.insert(wire.send(peer, kTag, nullptr, 0));
  }
  std::vector<int> all = under_way;
  all.insert(all.end(), own.begin(), own.end());
  take_completed(wire, all, [&] {
    return std::none_of(all.begin(), all.end(), [&](int ticket) { return own.contains(ticket); });
  });
  under_way = all;
}

void leave(Wire& wire) {
  while (!wire.leave()) std::this_thread::yield();
}

void pass_around(Wire& wire, std::int64_t bytes) {
  const int next = (wire.rank() + 1) % wire.size();
  const int before = (wire.rank() + wire.size() - 1) % wire.size();
  const Buffer given = content(seed_of(wire.rank(), next, 0), bytes);
  Buffer taken(given.size());
  wait_for(wire, {receive(wire, before, 1, taken), send(wire, next, 1, given)});
  expect_content(taken, seed_of(before, wire.rank(), 0), fmt::format("{} bytes", bytes));
}

const std::vector<WireCheck>& wire_checks() {
  static const std::vector<WireCheck> checks = {
      {"messages of all sizes arrive, to oneself too", everyone_to_everyone},
      {"either side may start first", either_side_first},
      {"messages of one flow arrive in order", in_order},
      {"a receive from any peer takes whoever is first", whoever_is_first},
      {"many messages may be under way", many_under_way},
      {"tickets are reported once, as many as there is room for", few_tickets_at_a_time},
      {"a receive takes only messages with its tag", only_what_fits},
      {"hosts are numbered by their lowest rank", hosts_are_numbered},
      {"long messages arrive whole", long_messages},
  };
  return checks;
}

}  // namespace alpa::testing
