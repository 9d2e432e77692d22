// NVTX: ranges of the host's threads, and names
#include <nvtx3/nvToolsExtCudaRt.h>

#include "world.h"

namespace alpa::emulation {
namespace {

std::vector<std::string>& open() {
  static thread_local std::vector<std::string> ranges;
  return ranges;
}

void give_name(const char* name) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  world().given_names.insert(name);
}

}  // namespace

const std::vector<std::string>& open_ranges() { return open(); }

std::map<std::vector<std::string>, int> kernels_by_ranges() {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return world().kernels_by_ranges;
}

std::set<std::string> given_names() {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return world().given_names;
}

}  // namespace alpa::emulation

using namespace alpa::emulation;

extern "C" {

int nvtxRangePushA(const char* message) {
  open().emplace_back(message);
  return static_cast<int>(open().size()) - 1;
}

int nvtxRangePop() {
  if (open().empty()) return -1;
  open().pop_back();
  return static_cast<int>(open().size());
}

void nvtxNameOsThreadA(std::uint32_t, const char* name) { give_name(name); }
void nvtxNameCudaStreamA(cudaStream_t, const char* name) { give_name(name); }
}
