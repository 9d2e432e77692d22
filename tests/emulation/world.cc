#include "world.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace alpa::emulation {
namespace {

template <class T>
void read_setting(const char* name, T& value) {
  if (const char* const text = std::getenv(name))
    value = static_cast<T>(std::strtoull(text, nullptr, 10));
}

int part_of(const std::string& text) { return text == "*" ? -1 : std::stoi(text); }

void read_setting(const char* name, std::vector<ProductsOf>& value) {
  const char* const text = std::getenv(name);
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) {
    std::istringstream parts(word);
    std::string type, epilogue, algorithm;
    std::getline(parts, type, '/'), std::getline(parts, epilogue, '/'),
        std::getline(parts, algorithm);
    value.push_back({part_of(type), part_of(epilogue), part_of(algorithm)});
  }
}

}  // namespace

std::uint64_t seed_of_environment() {
  std::uint64_t seed = 1;
  read_setting("ALPA_EMULATED_SEED", seed);
  return seed;
}

World::World() {
  read_setting("ALPA_EMULATED_DEVICES", machine.devices);
  read_setting("ALPA_EMULATED_MEMORY", machine.memory_bytes);
  read_setting("ALPA_EMULATED_FAULT", machine.fail_kernel);
  read_setting("ALPA_EMULATED_DNN", machine.dnn_version);
  read_setting("ALPA_EMULATED_REFUSED", machine.refused);
  read_setting("ALPA_EMULATED_FAILING", machine.failing);
  read_setting("ALPA_EMULATED_SLOW", machine.slow);
  devices.resize(static_cast<std::size_t>(std::max(1, machine.devices)));
  // Held across a fork: otherwise a child could inherit it locked by a stream's
  // thread, and wait for ever.
  pthread_atfork([] { world().mutex.lock(); }, [] { world().mutex.unlock(); },
                 [] { world().mutex.unlock(); });
}

World& world() {
  static World* const world = new World;
  return *world;
}

void notify() {
  for (Waiter* const waiter : world().waiters)
    if (waiter->holds(waiter->condition)) waiter->wake.notify_one();
}

void go_on_with_works() {
  ++world().changes;
  notify();
}

void wait(Lock& lock, Waiter& waiter) {
  if (waiter.holds(waiter.condition)) return;
  world().waiters.push_back(&waiter);
  do waiter.wake.wait(lock);
  while (!waiter.holds(waiter.condition));
  std::erase(world().waiters, &waiter);
}

void restart(const Machine& machine) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  world().machine = machine;
  world().kernels = 0, world().last_engine = -1;
  world().kernels_by_ranges.clear(), world().given_names.clear();
  world().captured_kernels.clear();
  for (Device& device : world().devices) {
    device.fault = cudaSuccess, device.held = false;
    device.most_communicators = device.communicators;
  }
  if (world().devices.size() < static_cast<std::size_t>(machine.devices))
    world().devices.resize(static_cast<std::size_t>(machine.devices));
}

void fail_kernel(std::int64_t n) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  world().machine.fail_kernel = world().kernels + n;
}

void hold(int device, bool held) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  world().devices[static_cast<std::size_t>(device)].held = held;
  notify();
}

int most_communicators(int device) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return world().devices[static_cast<std::size_t>(device)].most_communicators;
}

std::size_t allocations(int device) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return world().devices[static_cast<std::size_t>(device)].allocations;
}

int last_engine() {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return world().last_engine;
}

GraphNodes last_graph() {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return world().last_graph;
}

Totals totals() {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return world().totals;
}

cudaError_t& last_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

const Allocation* allocation_of(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  auto after = world().memory.upper_bound(begin);
  if (after == world().memory.begin()) return nullptr;
  const auto& [first, allocation] = *--after;
  return begin + bytes <= first + allocation.bytes ? &allocation : nullptr;
}

}  // namespace alpa::emulation
