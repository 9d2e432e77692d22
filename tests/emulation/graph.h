#pragma once
/// Capture of streams into graphs, and graphs. The rules of world.h hold.
#include <thread>

#include "world.h"

namespace alpa::emulation {

/// A piece of captured work and the nodes it comes after.
struct Node {
  Work work;
  std::vector<int> after;
  NodeKind kind;
  int priority;  ///< of its stream
};

/// One capture sequence, from cudaStreamBeginCapture to cudaStreamEndCapture.
struct Capture {
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool invalid = false;
  std::vector<Node> nodes;
  std::vector<cudaStream_t> streams;  ///< that take part
};
using CapturePtr = std::shared_ptr<Capture>;

/// Whether a call that might wait, allocate or touch the default stream is forbidden now by a
/// capture; the captures that forbid it are then invalid.
bool is_forbidden();

/// Work that runs the nodes in some order that `after` allows, another one at every launch.
Work graph_work(std::shared_ptr<const std::vector<Node>> nodes);

}  // namespace alpa::emulation
