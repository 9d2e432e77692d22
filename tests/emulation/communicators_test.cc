// How many communicators of NCCL a program makes, and what the driver and NCCL are told.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "emulation.h"
#include "src/cuda_loader/cuda_library.h"
#include "support/staged_mlp.h"

namespace communicators_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// The most communicators of one card.
int communicators_of(Method method, int cards) {
  emulation::restart({.devices = 8});
  std::visit([](auto& chosen) { chosen.executor.tune = false; }, method);
  const Executable executable =
      parallelize(staged_mlp_step(64, 16), method, Cluster::local(cards, "cuda"));
  int most = 0;
  for (int card = 0; card < cards; ++card)
    most = std::max(most, emulation::most_communicators(card));
  return most;
}

}  // namespace

TEST_CASE("no method makes more communicators on a card than its memory is reserved for") {
  constexpr std::int64_t kOfOne = std::int64_t{128} << 20;
  emulation::restart({.devices = 8});
  const auto memory_of = [](int devices) {
    return Cluster::local(devices, "cuda").device.memory_bytes;
  };
  const std::int64_t reserved = (memory_of(1) - memory_of(8)) / kOfOne;
  CHECK(memory_of(1) - memory_of(2) == reserved * kOfOne);
  int most = 0;
  for (const int cards : {2, 8})
    for (const Method& method :
         {Method(DataParallel{}), Method(Zero2Parallel{}), Method(Zero3Parallel{}),
          Method(ShardParallel{}), Method(PipeshardParallel{.num_micro_batches = 4}),
          Method(PipeshardParallel{.stages = UniformStages{std::min(cards, 4)}})})
      most = std::max(most, communicators_of(method, cards));
  most = std::max(most, communicators_of(parallel_3d(2, 2, 2, 4), 8));
  CHECK(most <= reserved);
  CHECK(most > 4);
  emulation::restart({});
}

TEST_CASE("driver and NCCL are told of many streams, and to keep the order of the host") {
  REQUIRE(cuda_support().usable());
  CHECK(std::string(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")) == "32");
  CHECK(std::string(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT")) == "1");
}

}  // namespace communicators_test
