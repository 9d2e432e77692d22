// Planned memory is what a step touches, to the byte; nothing that lives at once overlaps; nothing is
// allocated while running.
#include "alpa/runtime/memory_plan.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "alpa/runtime/device_state.h"
#include "support/steps.h"

namespace {

/// Allocations of threads other than the one that asked to count.
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
thread_local bool asked_to_count = false;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting && !asked_to_count) ++allocations;
  if (bytes > std::size_t{1} << 47) return nullptr;  // sanitizers end the process when asked for that much
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), std::max<std::size_t>(bytes, 1)) != 0)
    return nullptr;
  return memory;
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, 16); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 16); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 16); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }

using namespace alpa;
using namespace alpa::test;

namespace {

struct Case {
  int num_micro_batches;
  DType dtype;
  Layouts layouts;
};

const std::vector<Case> kCases{{1, f32, {{"x", "S0@0"}, {"y", "S0@0"}}},
                               {4, f32, {{"x", "S0@0"}, {"y", "S0@0"}}},
                               {2, f32, {{"a", "S1@0"}, {"b", "S0@0"}, {"c", "S0@0"}}},
                               {2, bf16, {{"x", "S0@0"}, {"a", "S0@0"}}},
                               {1, f64, {{"x", "S0@0"}, {"y", "S1@0"}}}};

SpmdProgram program_of(const Case& c, int devices) {
  const StepOptions options{.num_micro_batches = c.num_micro_batches,
                            .optimizer = alpa::test::Optimizer::adam};
  const Graph graph = training_graph({c.dtype, {24, 10}}, {c.dtype, {24, 6}}, small_mlp, options);
  return lowered(graph, following_plan(graph, mesh_of({devices}), c.layouts));
}

std::vector<bool> kept_bytes(const DeviceProgram& device) {
  std::vector<bool> kept(device.arena_bytes, false);
  for (int b : device.kept) {
    const Buffer& buffer = device.buffers[b];
    std::fill_n(kept.begin() + buffer.arena_offset, buffer.type.bytes(), true);
  }
  return kept;
}

/// One past the last byte of a device's arena that a step writes, found with arenas that are larger than
/// planned and full of a pattern where no state lies.
std::int64_t highest_touched(Executor& executor, int rank, std::byte pattern) {
  constexpr std::int64_t kBeyond = 4096;
  const auto state = executor.make_state(1);
  std::vector<std::byte*> larger;
  for (std::size_t r = 0; r < state->memory->arenas.size(); ++r) {
    const DeviceProgram& device = executor.device_program(static_cast<int>(r));
    larger.push_back(
        static_cast<std::byte*>(::operator new (device.arena_bytes + kBeyond, std::align_val_t{64})));
    std::memset(larger[r], static_cast<int>(pattern), device.arena_bytes + kBeyond);
    const std::vector<bool> kept = kept_bytes(device);
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i]) larger[r][i] = state->memory->arenas[r][i];
  }
  const std::vector<std::byte*> planned = state->memory->arenas;
  state->memory->arenas = larger;
  const DeviceProgram& device = executor.device_program(rank);
  const std::vector<std::byte> before(larger[rank], larger[rank] + device.arena_bytes + kBeyond);
  const Graph& graph = executor.program().graph;
  executor.run(*state, random_batch(graph, 1), scalars_of(graph, 1));
  std::int64_t highest = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(before.size()); ++i)
    if (larger[rank][i] != before[i]) highest = i + 1;
  state->memory->arenas = planned;
  for (std::byte* arena : larger) ::operator delete (arena, std::align_val_t{64});
  return highest;
}

}  // namespace

TEST_CASE("planned bytes are the bytes allocated and the highest byte a step writes") {
  for (const Case& c : kCases) {
    CAPTURE(c.num_micro_batches);
    CAPTURE(name_of(c.dtype));
    for (const Overlap overlap : {Overlap::never, Overlap::always}) {
      Executor executor(program_of(c, 3), {.overlap = overlap});
      CHECK(executor.measured_bytes(*executor.make_state(0)) == executor.planned_bytes());
      for (int rank = 0; rank < 3; ++rank) {
        // A byte that happens to be written with the pattern shows under the other one.
        const std::int64_t touched = std::max(highest_touched(executor, rank, std::byte{0x5a}),
                                              highest_touched(executor, rank, std::byte{0xa5}));
        CHECK(touched == executor.device_program(rank).arena_bytes);
      }
    }
  }
}

TEST_CASE("packing comes within five percent of the bytes that live at once") {
  for (const Case& c : kCases)
    for (int rank : {0, 1}) {
      const DeviceProgram device = lower(program_of(c, 2), rank, true);
      const std::int64_t bound = live_bytes_bound(device);
      CHECK(device.arena_bytes > bound - memory_rules("cpu").alignment);
      CHECK(static_cast<double>(device.arena_bytes) <= 1.05 * static_cast<double>(bound));
    }
}

TEST_CASE("new content is made in the state's own memory") {
  const SpmdProgram program = program_of(kCases[0], 2);
  const DeviceProgram device = lower(program, 0, false);
  for (const Update& update : program.graph.updates)
    CHECK(memory_of(device, device.buffer_of_value[update.value]) ==
          memory_of(device, device.buffer_of_value[update.input]));
  for (const Instruction& instruction : device.apply)
    CHECK_FALSE((instruction.kind == Instruction::Kind::copy &&
                 program.graph.nodes[instruction.node].op == &ops::input));
}

TEST_CASE("state that swaps, repeats or is read late is updated as if all were replaced at once") {
  Builder g;
  const TensorType type{f32, {5}};
  const auto state = [&](const char* name, double value) {
    return g.input(InputKind::state, name, type, Initializer::constant(value));
  };
  const Value a = state("a", 1), b = state("b", 2), c = state("c", 3), d = state("d", 4), e = state("e", 5),
              x = g.input(InputKind::batch, "x", type);
  const Value sum = a + x;
  g.update(a, b);  // swap
  g.update(b, a);
  g.update(c, sum);  // two states take one value
  g.update(d, sum);
  const Value early = e * 2.0;
  g.update(e, early);  // e is read after its new content was made
  g.metric("late", reduce_sum(early * 0.0 + e));
  const Graph graph = g.finish();
  for (const std::vector<int>& shape : {std::vector<int>{1}, {2}}) {
    Executor executor(lowered(graph, replicated_plan(graph, mesh_of(shape))));
    const auto memory = executor.make_state(0);
    const std::map<std::string, Array> batch{{"x", Array(std::vector<float>(5, 10), {5})}};
    CHECK(executor.run(*memory, batch, {}).at("late") == 25);
    const auto first = [&](const char* name) { return executor.read(*memory, name).to_doubles()[0]; };
    CHECK(first("a") == 2);
    CHECK(first("b") == 1);
    CHECK(first("c") == 11);
    CHECK(first("d") == 11);
    CHECK(first("e") == 10);
    CHECK(executor.run(*memory, batch, {}).at("late") == 50);
    CHECK(first("a") == 1);
    CHECK(first("c") == 12);
  }
}

TEST_CASE("the memory verifier finds an overlap and a buffer outside the arena") {
  const SpmdProgram program = program_of(kCases[0], 2);
  const DeviceProgram good = lower(program, 0, false);
  CHECK_NOTHROW(verify_memory(good, program));
  DeviceProgram bad = good;
  bad.buffers[bad.kept[1]].arena_offset = bad.buffers[bad.kept[0]].arena_offset;
  CHECK_THROWS_AS(verify_memory(bad, program), Bug);
  bad = good;
  bad.arena_bytes -= 1;
  CHECK_THROWS_AS(verify_memory(bad, program), Bug);
}

// Through operator new, that is: oneDNN's sgemm and Eigen take packing buffers from malloc.
TEST_CASE("devices allocate nothing during a step, in f32, bf16 and f64") {
  asked_to_count = true;
  for (const Case& c : kCases) {
    for (const Overlap overlap : {Overlap::never, Overlap::always}) {
      Executor executor(program_of(c, 3), {.overlap = overlap});
      const Graph& graph = executor.program().graph;
      const auto state = executor.make_state(1);
      const auto batch = random_batch(graph, 1);
      executor.run(*state, batch, scalars_of(graph, 1));  // oneDNN generates code once
      allocations = 0;
      counting = true;
      executor.run(*state, batch, scalars_of(graph, 2));
      counting = false;
      CAPTURE(c.num_micro_batches);
      CAPTURE(name_of(c.dtype));
      CHECK(allocations == 0);
    }
  }
  asked_to_count = false;
}

TEST_CASE("an arena that cannot be had is an error that names the device") {
  Builder g;
  const Value w =
      g.parameter("w", {f32, {std::int64_t{1} << 25, std::int64_t{1} << 25}}, Initializer::zeros());
  g.update(w, w);
  const Graph graph = g.finish();
  Executor executor(lowered(graph, replicated_plan(graph, mesh_of({1}))));
  CHECK_THROWS_WITH_AS(executor.make_state(0),
                       "device 0: no memory for an arena of 4503599627370496 bytes; use more devices, a "
                       "memory budget or more micro-batches",
                       Error);
}
