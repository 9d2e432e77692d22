#include "block.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "device_code.h"
#include "fiber.h"
#include "sanitizers.h"
#include "shared_memory.h"

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace alpa::emulation {
namespace {

constexpr unsigned kWarp = 32, kMaxThreads = 1024;
#if defined(ALPA_EMULATION_TSAN)
constexpr std::size_t kApart = 32;  ///< strands, one of which is drawn for a thread
#else
constexpr std::size_t kApart = 1;
#endif

/// Waiting threads go on when `generation` has passed the one they arrived in.
struct Barrier {
  unsigned arrived = 0, generation = 0;
  char* order = nullptr;  ///< two addresses that stand for the even and odd generations' order
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
  void trap();

 private:
  void begin_grid(const Grid& grid);
  void begin_block();
  Fiber* idle_fiber();
  bool run_block();
  void run_fiber();
  void resume(Fiber* fiber);
  void place(unsigned thread) { threadIdx = indices_[current_ = thread]; }
  void set_shape(const dim3& threads);
  void draw_blocks();
  void draw_turns();

  const Grid* grid_ = nullptr;
  unsigned size_ = 0, started_ = 0, ended_ = 0, current_ = 0;
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::vector<unsigned> blocks_, warp_turns_, turns_;  ///< numbers in the order that was drawn
  unsigned strand_ = 0;                                ///< of the fibers, for this block
  struct LaunchOrder {
    char begin, end;  ///< addresses that stand for it
  };
  std::unique_ptr<LaunchOrder> order_;  ///< new for every launch, as ThreadSanitizer forgets then
  std::unique_ptr<char[]> barrier_orders_;  ///< new for every block
  SharedMemory shared_;
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
  warps_.resize((size_ + kWarp - 1) / kWarp);
  warp_turns_.resize(warps_.size());
  std::iota(warp_turns_.begin(), warp_turns_.end(), 0u);
}

void Block::draw_blocks() {
  if (seed_ != grid_->seed) random_.seed(seed_ = grid_->seed);
  blocks_.resize(std::size_t{gridDim.x} * gridDim.y * gridDim.z);
  std::iota(blocks_.begin(), blocks_.end(), 0u);
  std::shuffle(blocks_.begin(), blocks_.end(), random_);
}

/// Warps in any order, the lanes of each forwards or backwards.
void Block::draw_turns() {
  const Unseen unseen;
  std::shuffle(warp_turns_.begin(), warp_turns_.end(), random_);
  const std::uint64_t backwards = random_();
  turns_.clear();
  for (const unsigned warp : warp_turns_) {
    const unsigned first = warp * kWarp, lanes = std::min(kWarp, size_ - first);
    for (unsigned i = 0; i < lanes; ++i)
      turns_.push_back(first + ((backwards >> warp & 1) != 0 ? lanes - 1 - i : i));
  }
}

/// Takes threads that have not begun until one of them waits; the fiber is then that thread's. For
/// ThreadSanitizer it takes one alone, since what a fiber does one after the other is ordered.
void Block::run_fiber() {
  for (;;) {
    do {
      place(turns_[started_++]);
      acquire(&order_->begin);
      grid_->body();
      release(&order_->end);
      if (++ended_ < size_ && barrier_.arrived > 0)
        fault_ = "a thread ended while others of its block wait at a barrier";
    } while (kApart == 1 && started_ < size_);
    idle_.push_back(running_);
    running_->pause();
  }
}

void Block::resume(Fiber* fiber) {
  running_ = fiber;
  fiber->resume(strand_);
}

void Block::begin_block() {
  const Unseen unseen;
  started_ = ended_ = 0;
  threads_.assign(size_, {});
  barrier_orders_ = std::make_unique<char[]>(2 + 2 * warps_.size());
  char* order = barrier_orders_.get();
  barrier_.arrived = 0, barrier_.order = order;
  for (Warp& warp : warps_) warp.barrier.arrived = 0, warp.barrier.order = order += 2;
  strand_ = static_cast<unsigned>(random_() % Fiber::kStrands);
}

Fiber* Block::idle_fiber() {
  const Unseen unseen;
  while (idle_.size() < kApart) {
    fibers_.push_back(
        std::make_unique<Fiber>([](void* self) { static_cast<Block*>(self)->run_fiber(); }, this));
    idle_.push_back(fibers_.back().get());
  }
  if (kApart > 1) std::swap(idle_[random_() % idle_.size()], idle_.back());
  Fiber* const fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

bool Block::run_block() {
  begin_block();
  draw_turns();
  while (started_ < size_ && fault_ == nullptr) resume(idle_fiber());
  while (ended_ < size_ && fault_ == nullptr) {
    draw_turns();
    bool stuck = true;
    for (unsigned i = 0; i < size_ && fault_ == nullptr; ++i) {
      Thread& thread = threads_[turns_[i]];
      if (thread.at == nullptr || thread.at->generation == thread.generation) continue;
      stuck = false;
      thread.at = nullptr;
      place(turns_[i]);
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

void Block::trap() {
  fault_ = "a thread trapped (__trap)";
  running_->pause();
}

void Block::begin_grid(const Grid& grid) {
  const Unseen unseen;
  grid_ = &grid;
  set_shape(grid.threads);
  gridDim = {grid.blocks.x, grid.blocks.y, grid.blocks.z};
  fault_ = nullptr;
  order_ = std::make_unique<LaunchOrder>();
  draw_blocks();
}

const char* Block::run_grid(const Grid& grid) {
  begin_grid(grid);
  release(&order_->begin);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const unsigned number = blocks_[i], row = number / gridDim.x;
    blockIdx = {number % gridDim.x, row % gridDim.y, row / gridDim.y};
    {
      const Unseen unseen;
      shared_.renew(i, grid.shared_fill, grid.shared_bytes);
    }
    if (!run_block()) return fault_;
  }
  acquire(&order_->end);
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

void __trap() { alpa::emulation::block->trap(); }

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
