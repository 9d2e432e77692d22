#pragma once
/// Several processes of one launch in memory: threads of this one.
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/exception_text.h"
#include "src/processes/world.h"
#include "support/memory_wire.h"

namespace alpa::testing {

struct ProcessesOptions {
  MemoryLaunchOptions launch = {};  ///< `size` is set by `run_processes`
  /// Long: tests of other things run on busy machines.
  processes::ProtocolOptions protocol = {.silence = std::chrono::seconds(60)};
};

/// Runs body(rank) in `size` processes; they have one world. Returns what each threw as text, ""
/// where it threw nothing.
inline std::vector<std::string> run_processes(int size, const std::function<void(int)>& body,
                                              ProcessesOptions options = {}) {
  options.launch.size = size;
  MemoryLaunch launch(options.launch);
  std::vector<std::string> errors(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        processes::World world([&] { return launch.wire(rank); }, options.protocol);
        const processes::InWorld here(world);
        try {
          body(rank);
        } catch (...) {
          world.fail(std::current_exception());
          throw;
        }
      } catch (...) {
        errors[rank] = text_of(std::current_exception());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace alpa::testing
