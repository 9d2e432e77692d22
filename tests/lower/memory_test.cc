// Planned memory is what a step touches, to the byte; nothing that lives at once overlaps; nothing
// is allocated while running.
#include "src/lower/memory_plan.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <thread>

#include "kernels/cpu/isa.h"
#include "src/ir/recorder.h"
#include "src/runtime/arena_guard.h"
#include "src/runtime/device_state.h"
#include "src/runtime/devices.h"
#include "support/error_text.h"
#include "support/steps.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace {

/// Allocations of threads other than the one that asked to count.
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
thread_local bool asked_to_count = false;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting && !asked_to_count) ++allocations;
  // sanitizers end the process when asked for that much
  if (bytes > std::size_t{1} << 47) return nullptr;
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)),
                     std::max<std::size_t>(bytes, 1)) != 0)
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
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 16);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 16);
}
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
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace memory_test {

using namespace alpa;
using namespace alpa::testing;

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

spmd::SpmdProgram program_of(const Case& c, int devices) {
  const TestStepOptions options{.num_micro_batches = c.num_micro_batches,
                                .optimizer = alpa::testing::StepOptimizer::adam};
  const Graph graph = training_graph({c.dtype, {24, 10}}, {c.dtype, {24, 6}}, small_mlp, options);
  return lowered(graph, following_plan(graph, mesh_of({devices}), c.layouts));
}

/// The most bytes that live at once, each buffer rounded up to the alignment.
std::int64_t most_live_bytes(const lower::DeviceProgram& device, const lower::MemoryRules& rules) {
  const std::vector<lower::LiveRange> ranges = lower::live_ranges(device);
  std::int64_t most = 0;
  for (int position = -1; position <= lower::num_positions(device); ++position) {
    std::int64_t live = 0;
    for (std::size_t b = 0; b < ranges.size(); ++b) {
      if (position < ranges[b].begin || position > ranges[b].end) continue;
      const std::int64_t bytes = device.buffers[b].type.bytes() + rules.guard_bytes;
      live += device.buffers[b].slots * ((bytes + rules.alignment - 1) / rules.alignment) *
              rules.alignment;
    }
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

TEST_CASE(
    "planned bytes are the highest byte that initialisation and a step write, on every device") {
  for (const Case& c : kCases) {
    CAPTURE(c.num_micro_batches);
    CAPTURE(name_of(c.dtype));
    for (const Overlap overlap : {Overlap::never, Overlap::always}) {
      runtime::Executor executor(program_of(c, 3), {.overlap = overlap});
      const auto state = executor.make_state(1);
      const Graph& graph = executor.program().graph;
      executor.run(*state, random_batch(graph, 1), scalars_of(graph, 1));
      CHECK(executor.measured_bytes(*state) == executor.memory_bytes());
      for (int rank = 0; rank < 3; ++rank)
        CHECK(state->memory->bytes_in_use(rank) == executor.device_program(rank).arena_bytes);
    }
  }
}

TEST_CASE("measured bytes are what was written, whatever was planned") {
  runtime::Executor executor(program_of(kCases[0], 1));
  const auto state = executor.make_state(1);
  const std::int64_t planned = executor.memory_bytes();
  CHECK(executor.measured_bytes(*state) < planned);  // no step has run: temporaries are untouched
  const float negative_nan = -std::numeric_limits<float>::quiet_NaN();
  std::memcpy(state->memory->arenas[0] + planned - 4, &negative_nan, 4);
  CHECK(executor.measured_bytes(*state) == planned);
  state->memory->arenas[0][planned + 10] = std::byte{1};
  CHECK(executor.measured_bytes(*state) == planned + 11);
}

TEST_CASE("packing comes within five percent of the bytes that live at once") {
  for (const Case& c : kCases)
    for (int rank : {0, 1}) {
      const lower::DeviceProgram device = lower::lower(program_of(c, 2), rank, true);
      const lower::MemoryRules rules = lower::memory_rules("cpu");
      const std::int64_t bound = most_live_bytes(device, rules);
      CHECK(device.arena_bytes > bound - rules.alignment);
      CHECK(static_cast<double>(device.arena_bytes) <= 1.05 * static_cast<double>(bound));
    }
}

TEST_CASE("new content is made in the state's own memory") {
  const spmd::SpmdProgram program = program_of(kCases[0], 2);
  const lower::DeviceProgram device = lower::lower(program, 0, false);
  for (const Update& update : program.graph.updates)
    CHECK(lower::memory_of(device, device.buffer_of_value[update.value]) ==
          lower::memory_of(device, device.buffer_of_value[update.input]));
  for (const lower::Instruction& instruction : device.lists.back().instructions)
    CHECK_FALSE((instruction.kind == lower::Instruction::Kind::copy &&
                 program.graph.nodes[instruction.node].op == &ops::input));
}

TEST_CASE("state that swaps, repeats or is read late is updated as if all were replaced at once") {
  Recorder g;
  const TensorType type{f32, {5}};
  const auto state = [&](const char* name, double value) {
    return g.input(InputKind::state, name, type, Initializer::constant(value));
  };
  const Value a = state("a", 1), b = state("b", 2), c = state("c", 3), d = state("d", 4),
              e = state("e", 5), x = g.input(InputKind::batch, "x", type);
  const Value sum = a + x;
  g.update(a, b);  // swap
  g.update(b, a);
  g.update(c, sum);  // two states take one value
  g.update(d, sum);
  const Value early = e * 2.0;
  g.update(e, early);  // e is read after its new content was made
  g.metric("late", alpa::sum(early * 0.0 + e));
  const Graph graph = g.finish();
  for (const std::vector<int>& shape : {std::vector<int>{1}, {2}}) {
    runtime::Executor executor(lowered(graph, replicated_plan(graph, mesh_of(shape))));
    const auto memory = executor.make_state(0);
    const std::map<std::string, Array> batch{{"x", Array(std::vector<float>(5, 10), {5})}};
    CHECK(executor.run(*memory, batch, {}).at("late") == 25);
    const auto first = [&](const char* name) {
      return executor.read(*memory, name).to_doubles()[0];
    };
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
  const spmd::SpmdProgram program = program_of(kCases[0], 2);
  const lower::DeviceProgram good = lower::lower(program, 0, false);
  CHECK_NOTHROW(lower::verify_memory(good, program));
  lower::DeviceProgram bad = good;
  bad.buffers[bad.kept[1]].arena_offset = bad.buffers[bad.kept[0]].arena_offset;
  CHECK_THROWS_AS(lower::verify_memory(bad, program), Bug);
  bad = good;
  bad.arena_bytes -= 1;
  CHECK_THROWS_AS(lower::verify_memory(bad, program), Bug);
}

// Through operator new, that is: oneDNN's sgemm and Eigen take packing buffers from malloc. Where
// the processor has a matrix unit, oneDNN's products of bf16 take records of the call from operator
// new, so this runs without one.
TEST_CASE("devices allocate nothing during a step, in f32, bf16 and f64") {
  const std::string best = cpu::isa().name;
  cpu::select_isa("avx2");
  asked_to_count = true;
  for (const Case& c : kCases) {
    for (const Overlap overlap : {Overlap::never, Overlap::always}) {
      runtime::Executor executor(program_of(c, 3), {.overlap = overlap});
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
  CHECK(cpu::select_isa(best));
}

namespace {

/// One parameter, which is never changed.
spmd::SpmdProgram program_of_parameter(const Shape& shape) {
  Recorder g;
  const Value w = g.parameter("w", {f32, shape}, Initializer::zeros());
  g.update(w, w);
  const Graph graph = g.finish();
  return lowered(graph, replicated_plan(graph, mesh_of({1})));
}

}  // namespace

TEST_CASE("a state that no memory holds is refused before any is taken") {
  runtime::Executor executor(program_of_parameter({std::int64_t{1} << 25, std::int64_t{1} << 25}));
  const std::string text = testing::error_of([&] { executor.make_state(0); });
  CHECK_MESSAGE(text.starts_with(fmt::format(
                    "no memory for a new state: 1 device needs {} bytes of arenas, and ",
                    4503599627374592 + lower::memory_rules("cpu").guard_bytes)),
                text);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve terabytes
TEST_CASE("an arena that the system refuses is an error that names the device") {
  runtime::Executor executor(program_of_parameter({1 << 26}));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit{static_cast<rlim_t>(pages * sysconf(_SC_PAGE_SIZE) + (100 << 20)),
                     before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  const std::string text = testing::error_of([&] { executor.make_state(0); });
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(text == fmt::format("device 0: no memory for an arena of {} bytes; use more devices, "
                            "a memory budget or more micro-batches",
                            268435456 + lower::memory_rules("cpu").guard_bytes));
}
#endif

namespace {

/// x[b, q, k] = a[b, q, d] · a[b, k, d]: many small products, which a
/// device's threads share in chunks.
Graph batched_product() {
  Recorder g;
  const Value a = g.input(InputKind::batch, "a", {f32, {12, 8, 8}});
  const Value product = einsum("bqd,bkd->bqk", a, a);
  const Value sum = g.input(InputKind::state, "sum", product.type(), Initializer::zeros());
  g.update(sum, product);
  return g.finish();
}

/// The same, and b · c, which eight threads share in blocks of 512 columns: which of the two needs
/// scratch for every thread depends on the processor's vectors.
Graph shared_products() {
  Recorder g;
  const Value a = g.input(InputKind::batch, "a", {f32, {12, 8, 8}}),
              b = g.input(InputKind::batch, "b", {f32, {512, 256}}),
              c = g.input(InputKind::batch, "c", {f32, {256, 4096}});
  for (const Value& product : {einsum("bqd,bkd->bqk", a, a), matmul(b, c)}) {
    const std::string name = "sum" + std::to_string(product.rank());
    g.update(g.input(InputKind::state, name, product.type(), Initializer::zeros()), product);
  }
  return g.finish();
}

}  // namespace

TEST_CASE("scratch is planned for the threads that a device has") {
  const Graph graph = shared_products();
  const spmd::SpmdProgram program = lowered(graph, replicated_plan(graph, mesh_of({1})));
  const auto devices = [&](int planned, int real) {
    runtime::DevicesRequest request{
        program, {lower::lower(program, 0, false, lower::memory_rules("cpu", planned))}, real};
    return runtime::make_cpu_devices(std::move(request));
  };
  for (int threads : {1, 2, 3, 8}) CHECK_NOTHROW(devices(threads, threads));
  CHECK_THROWS_AS(devices(1, 8), Bug);
}

#if defined(__SANITIZE_ADDRESS__)
TEST_CASE("AddressSanitizer knows which memory of an arena is in use at each instruction") {
  const Graph graph = batched_product();
  const spmd::SpmdProgram program = lowered(graph, replicated_plan(graph, mesh_of({1})));
  const lower::DeviceProgram device = lower::lower(program, 0, false);
  const runtime::ArenaGuard guard(device);
  std::vector<std::byte> arena(device.arena_bytes);
  const std::vector<lower::LiveRange> ranges = lower::live_ranges(device);
  const auto check = [&](auto&& lives) {
    for (std::size_t b = 0; b < ranges.size(); ++b)
      if (!ranges[b].empty())
        CHECK(__asan_address_is_poisoned(arena.data() + device.buffers[b].arena_offset) !=
              lives(ranges[b]));
  };
  guard.begin_step(arena.data());
  check([](const lower::LiveRange& range) { return range.begin < 0; });
  for (int position = 0; position < static_cast<int>(device.lists.back().instructions.size());
       ++position) {
    guard.before(arena.data(), position);
    for (int buffer : device.lists.back().instructions[position].outputs)
      CHECK_FALSE(__asan_address_is_poisoned(
          arena.data() + device.buffers[lower::memory_of(device, buffer)].arena_offset));
    guard.after(arena.data(), position);
  }
  check([&](const lower::LiveRange& range) {
    return range.end >= static_cast<int>(device.lists.back().instructions.size());
  });
  runtime::mark_alive(arena.data(), device.arena_bytes);
}
#endif

TEST_CASE("a write past the end of a buffer is found where it happens") {
  const Graph graph = batched_product();
  const spmd::SpmdProgram program = lowered(graph, replicated_plan(graph, mesh_of({1})));
  lower::MemoryRules rules = lower::memory_rules("cpu");
  rules.guard_bytes = 64;
  const lower::DeviceProgram device = lower::lower(program, 0, false, rules);
  const runtime::ArenaGuard guard(device);
  std::vector<std::byte> arena(device.arena_bytes);
  guard.begin_step(arena.data());
  int watched = 0;
  for (int position = 0; position < static_cast<int>(device.lists.back().instructions.size());
       ++position) {
    guard.before(arena.data(), position);
    CHECK_NOTHROW(guard.after(arena.data(), position));
    for (int written : device.lists.back().instructions[position].outputs) {
      const lower::Buffer& buffer = device.buffers[lower::memory_of(device, written)];
      for (std::int64_t beyond : {0, 63}) {
        guard.before(arena.data(), position);
        std::byte& target = arena[buffer.arena_offset + buffer.type.bytes() + beyond];
        runtime::mark_alive(&target, 1);
        target = std::byte{0};
        CHECK_THROWS_AS(guard.after(arena.data(), position), Bug);
        ++watched;
      }
    }
  }
  CHECK(watched >= 4);
  runtime::mark_alive(arena.data(), device.arena_bytes);
}

}  // namespace memory_test
