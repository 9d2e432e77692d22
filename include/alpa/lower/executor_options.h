#pragma once
/// Options of running a compiled program on the devices of a backend.
#include <cstdint>
#include <optional>
#pragma GCC visibility push(default)

namespace alpa {

/// Whether collectives run on a thread or stream of their own, overlapped with later work.
/// Results are bitwise the same.
enum class Overlap : std::uint8_t {
  /// CUDA: always; CPU: if there are more cores than devices (threads on one core gain nothing)
  automatic,
  always,  ///< on every backend
  never,   ///< each collective is awaited at once
};

/// CUDA: whether what a step runs on a card is captured as one graph, which is one launch.
/// Results are bitwise the same.
enum class Capture : std::uint8_t {
  automatic,  ///< unless there are several processes
  always,     ///< on every backend
  never,      ///< instructions are queued one by one, asynchronously
};

/// How an executable runs its steps.
struct ExecutorOptions {
  int threads_per_device = 0;            ///< 0: cores of its host / its devices, at least 1
  Overlap overlap = Overlap::automatic;  ///< of collectives with other work
  /// A non-finite metric is an Error naming it and the step. On CUDA, relu then also
  /// propagates NaN. Without it, cuBLASLt's product with relu, which is sometimes
  /// faster, may turn a NaN into 0.
  bool check_finite = false;
  /// CPU, f32: the same bits for the same seed, batch and number of micro-batches under every
  /// method, plan, number of devices and number of threads, on one kind of processor. Plans are
  /// searched for among those that keep the one order of sums (docs/runtime.md), which costs time.
  bool reproducible = false;
  /// Notes when each instruction of a step runs, for `Executable::trace`. CPU: about 50 ns each.
  /// CUDA: two events each; steps are queued, whatever `capture` says, and awaited one by one.
  bool record_times = false;
  /// If no instruction finishes for so long, the step is an Error that names the devices, what they
  /// do and who waits for whom. 0: devices may take any time. On CUDA a small kernel per
  /// instruction tells the host how far a device is.
  double stall_seconds = 0;
  /// Most bytes of collectives of a device that are merged into one. None: 1 MiB; CUDA: 25 MiB.
  std::optional<std::int64_t> bucket_bytes = {};
  Capture capture = Capture::automatic;  ///< of steps as CUDA graphs
  /// CUDA, steps of one micro-batch: updates a layer's parameters on a low-priority stream as
  /// soon as their gradients are ready, overlapped with the backward pass of earlier layers. Off:
  /// one kernel updates all parameters at the end. Results are bitwise the same; which is faster
  /// has not been measured yet.
  bool overlap_updates = false;
  /// CUDA: runs every step instruction by instruction, so that a failing instruction is named;
  /// slow. The first step always runs so.
  bool check_instructions = false;
  /// CUDA: measures algorithms of matrix products and convolutions, and whether to fuse epilogues,
  /// when a program is loaded, and remembers the results on disk. Off: takes the library's first
  /// proposal, epilogue fused, which is the same every time.
  bool tune = true;
  /// CUDA: products and convolutions of f32 may round operands to TF32 (10 bits of mantissa)
  bool tf32 = false;
};

}  // namespace alpa
#pragma GCC visibility pop
