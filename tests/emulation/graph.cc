#include "graph.h"

#include <algorithm>

#include "stream.h"

namespace alpa::emulation {
namespace {

/// One launch of a graph: nodes that are ready run one at a time, in random order, and for
/// ThreadSanitizer at the same time as all that they do not depend on.
class GraphRun {
 public:
  GraphRun(std::shared_ptr<const std::vector<Node>> nodes, std::uint64_t seed);
  /// Runs what is ready; true when all nodes are done.
  bool go_on();

 private:
  bool run(std::size_t node);
  void finish(std::size_t node);

  std::shared_ptr<const std::vector<Node>> nodes_;
  std::mt19937_64 random_;
  std::vector<int> missing_;            ///< nodes that each waits for
  std::vector<std::vector<int>> next_;  ///< nodes that wait for each
  /// chains of nodes that each come right after the one before
  std::vector<int> lane_;
  std::vector<std::unique_ptr<Strand>> lanes_;
  std::vector<std::shared_ptr<void>> states_;
  std::vector<char> order_;  ///< addresses that stand for the nodes' order
  char begin_ = 0;
  std::vector<int> ready_, blocked_;
  std::size_t left_;
};

GraphRun::GraphRun(std::shared_ptr<const std::vector<Node>> nodes, std::uint64_t seed)
    : nodes_(std::move(nodes)), random_(seed), left_(nodes_->size()) {
  missing_.resize(left_), next_.resize(left_), lane_.resize(left_), states_.resize(left_),
      order_.resize(left_);
  std::vector<bool> continued(left_);
  for (std::size_t n = 0; n < left_; ++n) {
    lane_[n] = -1;
    for (const int before : (*nodes_)[n].after) {
      ++missing_[n];
      next_[static_cast<std::size_t>(before)].push_back(static_cast<int>(n));
      if (lane_[n] >= 0 || continued[static_cast<std::size_t>(before)]) continue;
      continued[static_cast<std::size_t>(before)] = true;
      lane_[n] = lane_[static_cast<std::size_t>(before)];
    }
    if (missing_[n] == 0) ready_.push_back(static_cast<int>(n));
    if (lane_[n] >= 0) continue;
    lane_[n] = static_cast<int>(lanes_.size());
    lanes_.push_back(std::make_unique<Strand>());
  }
  release_unseen(&begin_);
}

/// In the node's lane.
bool GraphRun::run(std::size_t n) {
  const Node& node = (*nodes_)[n];
  Strand& lane = *lanes_[static_cast<std::size_t>(lane_[n])];
  bool done = true;
  cudaError_t error = cudaSuccess;
  lane.enter();
  {
    const Unseen unseen;
    acquire_unseen(&begin_);
    for (const int before : node.after) acquire_unseen(&order_[static_cast<std::size_t>(before)]);
    try {
      done = node.work == nullptr || node.work(states_[n]);
    } catch (cudaError_t thrown) {
      error = thrown;
    }
    release_unseen(&order_[n]);
  }
  lane.leave();
  if (error != cudaSuccess) throw error;
  return done;
}

void GraphRun::finish(std::size_t node) {
  --left_;
  states_[node].reset();
  for (const int next : next_[node])
    if (--missing_[static_cast<std::size_t>(next)] == 0) ready_.push_back(next);
}

bool GraphRun::go_on() {
  ready_.insert(ready_.end(), blocked_.begin(), blocked_.end());
  blocked_.clear();
  while (!ready_.empty()) {
    std::swap(ready_[random_() % ready_.size()], ready_.back());
    const int node = ready_.back();
    ready_.pop_back();
    if (run(static_cast<std::size_t>(node)))
      finish(static_cast<std::size_t>(node));
    else
      blocked_.push_back(node);
  }
  if (left_ > 0) return false;
  for (char& order : order_) acquire_unseen(&order);
  return true;
}

}  // namespace

Work graph_work(std::shared_ptr<const std::vector<Node>> nodes) {
  return [nodes, launches = std::make_shared<std::uint64_t>(0)](std::shared_ptr<void>& state) {
    if (!state) state = std::make_shared<GraphRun>(nodes, world().machine.seed + (*launches)++);
    return static_cast<GraphRun*>(state.get())->go_on();
  };
}

}  // namespace alpa::emulation

using namespace alpa::emulation;

struct CUgraph_st {
  std::shared_ptr<const std::vector<Node>> nodes;
};
struct CUgraphExec_st {
  std::size_t nodes;
  Work work;
  TicketPtr last;  ///< launches come one after the other
};

namespace {

constexpr unsigned long long kKnownFlags = cudaGraphInstantiateFlagUseNodePriority;

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

std::vector<CapturePtr>& captures() {
  static auto* const captures = new std::vector<CapturePtr>;
  return *captures;
}

void end(const CapturePtr& capture) {
  for (const cudaStream_t stream : capture->streams) stream->capture.reset(), stream->tail.clear();
  std::erase(captures(), capture);
}

/// Whether every node has another that comes after it, or is one of the origin's last.
bool is_joined(const Capture& capture) {
  std::vector<bool> followed(capture.nodes.size());
  for (const Node& node : capture.nodes)
    for (const int before : node.after) followed[static_cast<std::size_t>(before)] = true;
  for (const int last : capture.origin->tail) followed[static_cast<std::size_t>(last)] = true;
  return std::find(followed.begin(), followed.end(), false) == followed.end();
}

GraphNodes count(const std::vector<Node>& nodes, bool use_priority) {
  GraphNodes counts;
  for (const Node& node : nodes) {
    switch (node.kind) {
      case NodeKind::kernel: ++counts.kernels; break;
      case NodeKind::copy: ++counts.copies; break;
      case NodeKind::clear: ++counts.clears; break;
      case NodeKind::other: ++counts.others; break;
    }
    if (use_priority) ++counts.by_priority[node.priority];
  }
  return counts;
}

cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const CapturePtr capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  const bool joined = is_joined(*capture);
  end(capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{std::make_shared<const std::vector<Node>>(std::move(capture->nodes))};
  return cudaSuccess;
}

}  // namespace

bool alpa::emulation::is_forbidden() {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return false;
  bool forbidden = false;
  for (const CapturePtr& capture : captures()) {
    const bool own = capture->thread == std::this_thread::get_id();
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (!own && (capture->mode != cudaStreamCaptureModeGlobal ||
                 mode_of_thread != cudaStreamCaptureModeGlobal))
      continue;
    forbidden = capture->invalid = true;
  }
  return forbidden;
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&](Lock&) {
    if (stream == nullptr || stream == cudaStreamLegacy) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture) return cudaErrorIllegalState;
    stream->capture = std::make_shared<Capture>(
        Capture{stream, mode, std::this_thread::get_id(), false, {}, {stream}});
    captures().push_back(stream->capture);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return give_back([&](Lock&) { return end_capture(resolve(stream), graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call([&](Lock&) {
    const cudaStream_t stream = resolve(handle);
    *status = !stream->capture           ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&](Lock&) {
    if (nodes != nullptr) return cudaErrorNotSupported;
    *count = graph->nodes->size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return call([&](Lock&) {
    if (graph == nullptr || (flags & ~kKnownFlags) != 0) return cudaErrorInvalidValue;
    if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
    const GraphNodes nodes = count(*graph->nodes, flags != 0);
    GraphNodes& all = world().totals.captured;
    all.kernels += nodes.kernels, all.copies += nodes.copies;
    all.clears += nodes.clears, all.others += nodes.others;
    world().last_graph = nodes, ++world().totals.graphs;
    *executable = new CUgraphExec_st{graph->nodes->size(), graph_work(graph->nodes), nullptr};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t) {
  return call([&](Lock&) { return executable == nullptr ? cudaErrorInvalidValue : cudaSuccess; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&](Lock&) {
    if (executable == nullptr) return cudaErrorInvalidValue;
    ++world().totals.graph_launches;
    return enqueue(resolve(stream), executable->work, NodeKind::other, {executable->last},
                   &executable->last);
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call([&](Lock&) {
    delete executable;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&](Lock&) {
    delete graph;
    return cudaSuccess;
  });
}
}
