// What a step allocates does not grow with its instructions: devices allocate nothing.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

}  // namespace

// The sanitizers have operators of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
constexpr bool kCounted = true;
#else
constexpr bool kCounted = false;
#endif

namespace allocation_test {

using namespace alpa;

namespace {

/// Allocations of a step of so many layers and micro-batches of four rows.
int allocations_of(Method method, int layers, int micro_batches) {
  const TrainingStep step = training_step(
      {{"x", {f32, {4 * micro_batches, 12}}}},
      [layers](const Batch& b) {
        Value h = tanh(nn::Dense(12)(b["x"]));
        for (int l = 1; l < layers; ++l) h = tanh(nn::Dense(12)(mark_pipeline_boundary(h)));
        return mean(square(h));
      },
      optim::Adam{});
  std::visit([&](auto& options) { options.num_micro_batches = micro_batches; }, method);
  const Executable train = parallelize(step, method, Cluster::local(4));
  TrainState state = train.init(1);
  const std::map<std::string, Array> batch{
      {"x", Array(std::vector<float>(48 * micro_batches, 0.5F), {4 * micro_batches, 12})}};
  for (int n = 0; n < 2; ++n) train.run(state, batch).loss();
  allocations = 0;
  counting = true;
  train.run(state, batch).loss();
  counting = false;
  return allocations;
}

}  // namespace

TEST_CASE("a step allocates as much with many micro-batches and layers as with few") {
  if (!kCounted) {
    MESSAGE("skipped: the sanitizers count with operators of their own");
    return;
  }
  PipeshardParallel two, four;
  four.stages = UniformStages{4};
  four.schedule = ScheduleKind::zero_bubble;
  for (const Method& method : {Method(two), Method(four), Method(ShardParallel{})}) {
    const int few = allocations_of(method, 4, 2);
    CHECK(few > 0);
    CHECK(few < 40);
    CHECK(allocations_of(method, 4, 12) == few);
    CHECK(allocations_of(method, 8, 2) == few);
  }
}

}  // namespace allocation_test
