#pragma once
/// Messages of one member's collective with other processes: requests and scratch, both made when
/// the call is loaded, so that steps allocate nothing. A call describes its messages in the same
/// way when it is planned (nothing moves then) and when it runs. Thread rule: of one thread.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "src/processes/courier.h"

namespace alpa::comm {

class Exchange {
 public:
  explicit Exchange(processes::Courier* courier) : courier_(courier) {}

  /// Begins to describe a call: `planned`, or to run.
  void begin(bool planned);
  /// Allocates room for the whole call, after it was planned.
  void reserve();
  bool planned() const { return planned_; }

  /// Scratch of the call; null while it is planned.
  std::byte* take(std::int64_t bytes);
  /// Starts a message. Its number, for `wait`; -1 if it has no bytes.
  int send(int peer, int tag, const std::byte* data, std::int64_t bytes);
  int receive(int peer, int tag, std::byte* data, std::int64_t bytes);
  /// Until the message is done. Throws processes::Aborted.
  void wait(int number);
  void wait_all();

  /// Scratch, of the largest call so far.
  std::int64_t bytes() const { return bytes_; }

 private:
  int post(int peer, int tag, std::byte* data, std::int64_t bytes, bool sends);

  struct Free {
    void operator()(std::byte* memory) const;
  };
  processes::Courier* courier_;
  std::unique_ptr<std::byte, Free> scratch_;
  std::deque<processes::Request> requests_;  // end before their memory
  std::int64_t bytes_ = 0, taken_ = 0;
  int used_ = 0;
  bool planned_ = false;
};

}  // namespace alpa::comm
