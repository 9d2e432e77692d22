#include "block.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "device_code.h"
#include "fiber.h"
#include "sanitizers.h"

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace alpa::cuda {
/// kernels/cuda/device.h declares it without a size.
thread_local uint4 alpa_dynamic_shared[emulation::kSharedBytes / sizeof(uint4)];
}  // namespace alpa::cuda

namespace alpa::emulation {
namespace {

constexpr unsigned kWarp = 32, kMaxThreads = 1024;

/// Waiting threads go on when `generation` has passed the one they arrived in.
struct Barrier {
  unsigned arrived = 0, generation = 0;
  char order[2] = {};  ///< addresses that stand for the even and odd generations' order
};

struct Warp {
  Barrier barrier;
  std::uint64_t values[2][kWarp];  ///< of the even and odd generations
};

struct Thread {
  Fiber* fiber = nullptr;
  const Barrier* at = nullptr;  ///< where it waits
  unsigned generation = 0;
};

class Block {
 public:
  /// Nothing is allocated by the threads of a block, of which ThreadSanitizer would see it.
  Block() { idle_.reserve(kMaxThreads), indices_.reserve(kMaxThreads); }

  const char* run_grid(const Grid& grid);
  void wait(Barrier& barrier, unsigned members);
  void wait_block() { wait(barrier_, size_); }
  void shuffle(unsigned mask, void* value, unsigned bytes, unsigned from);

 private:
  bool run_block();
  void run_fiber();
  void resume(Fiber* fiber);
  void place(unsigned thread) { threadIdx = indices_[current_ = thread]; }
  void set_shape(const dim3& threads);
  unsigned in_order(unsigned i) const { return backwards_ ? size_ - 1 - i : i; }

  const Grid* grid_ = nullptr;
  unsigned size_ = 0, started_ = 0, ended_ = 0, current_ = 0;
  bool backwards_ = false;
  char order_ = 0;  ///< stands for the order of blocks
  const char* fault_ = nullptr;
  Barrier barrier_;
  std::vector<uint3> indices_;  ///< of each thread
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* running_ = nullptr;
};

thread_local std::unique_ptr<Block> block;

void Block::set_shape(const dim3& threads) {
  size_ = threads.x * threads.y * threads.z;
  blockDim = {threads.x, threads.y, threads.z};
  indices_.clear();
  for (unsigned z = 0; z < threads.z; ++z)
    for (unsigned y = 0; y < threads.y; ++y)
      for (unsigned x = 0; x < threads.x; ++x) indices_.push_back({x, y, z});
}

/// Takes threads that have not begun until one of them waits; the fiber is then that thread's.
void Block::run_fiber() {
  for (;;) {
    while (started_ < size_) {
      place(in_order(started_++));
      acquire(&order_);
      grid_->body();
      release(&order_);
      if (++ended_ < size_ && barrier_.arrived > 0)
        fault_ = "a thread ended while others of its block wait at a barrier";
    }
    idle_.push_back(running_);
    running_->pause();
  }
}

void Block::resume(Fiber* fiber) {
  running_ = fiber;
  fiber->resume();
}

bool Block::run_block() {
  started_ = ended_ = 0;
  threads_.assign(size_, {});
  barrier_.arrived = 0;
  warps_.resize((size_ + kWarp - 1) / kWarp);
  for (Warp& warp : warps_) warp.barrier.arrived = 0;
  while (started_ < size_) {
    if (idle_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(
          [](void* self) { static_cast<Block*>(self)->run_fiber(); }, this));
      idle_.push_back(fibers_.back().get());
    }
    Fiber* const fiber = idle_.back();
    idle_.pop_back();
    resume(fiber);
  }
  while (ended_ < size_ && fault_ == nullptr) {
    backwards_ = !backwards_;
    bool stuck = true;
    for (unsigned i = 0; i < size_ && fault_ == nullptr; ++i) {
      Thread& thread = threads_[in_order(i)];
      if (thread.at == nullptr || thread.at->generation == thread.generation) continue;
      stuck = false;
      thread.at = nullptr;
      place(in_order(i));
      resume(thread.fiber);
    }
    if (stuck) fault_ = "threads of a block wait at different barriers";
  }
  return fault_ == nullptr;
}

void Block::wait(Barrier& barrier, unsigned members) {
  Thread& thread = threads_[current_];
  const unsigned generation = barrier.generation;
  release(&barrier.order[generation % 2]);
  if (ended_ > 0 && &barrier == &barrier_)
    fault_ = "a thread waits at a barrier after others of its block ended";
  if (++barrier.arrived == members) {
    barrier.arrived = 0;
    ++barrier.generation;
  } else {
    thread = {running_, &barrier, generation};
    running_->pause();
  }
  acquire(&barrier.order[generation % 2]);
}

void Block::shuffle(unsigned mask, void* value, unsigned bytes, unsigned from) {
  const unsigned lane = current_ % kWarp, first = current_ - lane;
  const unsigned lanes = size_ - first < kWarp ? size_ - first : kWarp;
  Warp& warp = warps_[first / kWarp];
  std::uint64_t* const values = warp.values[warp.barrier.generation % 2];
  std::memcpy(&values[lane], value, bytes);
  wait(warp.barrier, static_cast<unsigned>(
                         __builtin_popcount(lanes == kWarp ? mask : mask & ((1u << lanes) - 1))));
  std::memcpy(value, &values[from], bytes);
}

const char* Block::run_grid(const Grid& grid) {
  grid_ = &grid;
  set_shape(grid.threads);
  gridDim = {grid.blocks.x, grid.blocks.y, grid.blocks.z};
  fault_ = nullptr;
  for (unsigned z = 0; z < grid.blocks.z; ++z)
    for (unsigned y = 0; y < grid.blocks.y; ++y)
      for (unsigned x = 0; x < grid.blocks.x; ++x) {
        blockIdx = {x, y, z};
        std::memset(cuda::alpa_dynamic_shared, 0xa5, grid.shared_bytes);
        release(&order_);
        if (!run_block()) return fault_;
        acquire(&order_);
      }
  return nullptr;
}

}  // namespace

const char* run_grid(const Grid& grid) {
  if (!block) block = std::make_unique<Block>();
  const char* const fault = block->run_grid(grid);
  if (fault != nullptr) block.release();  // its fibers hang at the barriers
  return fault;
}

}  // namespace alpa::emulation

extern "C" {
void __syncthreads() { alpa::emulation::block->wait_block(); }
void __syncwarp(unsigned int mask) {
  char nothing = 0;
  alpa_emulation_shuffle(mask, &nothing, 1, threadIdx.x % 32);
}
void alpa_emulation_shuffle(unsigned int mask, void* value, unsigned int bytes, unsigned int from) {
  alpa::emulation::block->shuffle(mask, value, bytes, from);
}

double __dadd_rn(double a, double b) { return a + b; }
double __dsub_rn(double a, double b) { return a - b; }
double __dmul_rn(double a, double b) { return a * b; }
double __ddiv_rn(double a, double b) { return a / b; }
double __dsqrt_rn(double a) { return std::sqrt(a); }
float __int_as_float(int bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
}
