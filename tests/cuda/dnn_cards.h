#pragma once
/// Cards that need not be there, for which cuDNN can be asked what it proposes.
#include <fmt/core.h>

#include <optional>
#include <string>

#include "alpa/base/error.h"
#include "src/cuda/dnn_graph.h"

namespace alpa::testing {

/// A card as cuDNN describes it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, cuDNN 9.8 and later).
struct Card {
  const char* name;
  int version, multiprocessors;
  std::int64_t shared_bytes, l2_bytes, memory_bytes;
};
inline constexpr Card kCards[] = {
    {"NVIDIA A100", 800, 108, 166912, 41943040, 85000000000},
    {"NVIDIA H200", 900, 132, 232448, 62914560, 150000000000},
};

inline std::string json_of(const Card& card) {
  return fmt::format(
      R"({{"deviceName":"{}","deviceVer":{},"multiProcessorCount":{},"maxSharedMemoryPerBlockOptin":)"
      R"({},"l2CacheSize":{},"totalGlobalMem":{},"driverVer":13000,"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,"regsPerBlock":65536,)"
      R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"cudaDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"smClockRateKHz":1755000,"memClockRateKHz":2619000,)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64]}})",
      card.name, card.version, card.multiprocessors, card.shared_bytes, card.l2_bytes,
      card.memory_bytes);
}

/// cuDNN's own number of an engine.
inline std::int64_t number_of(const cuda::DnnEngine& engine) {
  const cuda::DnnDescriptor of_engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = of_engine.get();
  engine.configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
  std::int64_t number = -1;
  of_engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
  return number;
}

/// Nothing, and one line that says why, where cuDNN is absent or knows no such descriptor.
inline std::optional<cuda::DnnDescriptor> properties_of(const Card& card) {
  constexpr auto kProperties = static_cast<cudnnBackendDescriptorType_t>(38);
  constexpr auto kJson = static_cast<cudnnBackendAttributeName_t>(2702);
  constexpr auto kCharacters = static_cast<cudnnBackendAttributeType_t>(24);
  const std::string json = json_of(card);
  try {
    cuda::DnnDescriptor properties(kProperties);
    properties.set(kJson, kCharacters, static_cast<std::int64_t>(json.size()) + 1, json.c_str());
    return std::move(properties.finalize());
  } catch (const Error& error) {
    fmt::print("skipped: no cuDNN that plans for absent cards: {}\n", error.what());
    return std::nullopt;
  }
}

}  // namespace alpa::testing
