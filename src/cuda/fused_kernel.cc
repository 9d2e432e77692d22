#include "fused_kernel.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "alpa/base/error.h"
#include "status.h"

namespace alpa::cuda {
namespace {

/// What the headers ask of the standard library, which the run-time compiler has not.
constexpr RunTimeHeader kStandardHeaders[] = {
    {"cmath", R"(#pragma once
namespace std {
using ::abs;
using ::exp;
using ::log;
using ::pow;
using ::sqrt;
using ::tanh;
}
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
)"},
    {"cstdint", R"(#pragma once
namespace std {
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef decltype(sizeof(0)) size_t;
}
)"},
    {"cstring", "#pragma once\nnamespace std { using ::memcpy; }\n"}};

std::string log_of(nvrtcProgram program) {
  std::size_t size = 0;
  check(nvrtcGetProgramLogSize(program, &size), "nvrtcGetProgramLogSize");
  std::string log(size, '\0');
  check(nvrtcGetProgramLog(program, log.data()), "nvrtcGetProgramLog");
  return log;
}

struct Program {
  nvrtcProgram handle = nullptr;
  ~Program() { nvrtcDestroyProgram(&handle); }
};

std::vector<char> compile(const std::string& source, int architecture) {
  std::vector<const char*> names, texts;
  const auto add = [&](const RunTimeHeader& header) {
    names.push_back(header.name);
    texts.push_back(header.text);
  };
  std::for_each(kRunTimeHeaders, kRunTimeHeaders + kNumRunTimeHeaders, add);
  std::for_each(std::begin(kStandardHeaders), std::end(kStandardHeaders), add);
  Program program;
  check(nvrtcCreateProgram(&program.handle, source.c_str(), "fused.cu", static_cast<int>(names.size()),
                           texts.data(), names.data()),
        "nvrtcCreateProgram");
  const std::string target = fmt::format("--gpu-architecture=sm_{}", architecture);
  const char* const options[] = {target.c_str(), "--std=c++17"};
  const nvrtcResult result = nvrtcCompileProgram(program.handle, 2, options);
  invariant(result == NVRTC_SUCCESS, "fused kernel: {}\n{}{}", nvrtcGetErrorString(result),
            log_of(program.handle), source);
  std::size_t size = 0;
  check(nvrtcGetCUBINSize(program.handle, &size), "nvrtcGetCUBINSize");
  std::vector<char> code(size);
  check(nvrtcGetCUBIN(program.handle, code.data()), "nvrtcGetCUBIN");
  return code;
}

}  // namespace

std::vector<char> compile_kernel(const std::string& source, int architecture) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, std::vector<char>> compiled;
  const std::lock_guard lock(mutex);
  std::vector<char>& code = compiled[{source, architecture}];
  if (code.empty()) code = compile(source, architecture);
  return code;
}

FusedKernel::FusedKernel(const cpu::ElementwisePlan& plan, const KernelCall& call, int architecture)
    : outputs_(call.outputs.size()), packs_((plan.elements + pack_of(plan.wide) - 1) / pack_of(plan.wide)) {
  for (const cpu::ElementwiseInput& input : plan.inputs)
    packed_.push_back(input.kind != cpu::InputKind::scalar);
  arguments_.resize(packed_.size() + outputs_ + 1);
  if (packs_ == 0) return;
  const std::vector<char> code = compile_kernel(elementwise_source(plan, call), architecture);
  cudaLibrary_t library = nullptr;
  check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cudaLibraryLoadData");
  library_.reset(library);
  check(cudaLibraryGetKernel(&kernel_, library, "fused"), "cudaLibraryGetKernel");
}

void FusedKernel::Unload::operator()(CUlib_st* library) const { cudaLibraryUnload(library); }

Status FusedKernel::run(const void* const* inputs, void* const* outputs, Stream stream) const {
  constexpr std::int64_t kMaxBlocks = 4096;
  if (packs_ == 0) return cudaSuccess;
  const auto is_aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  bool aligned = std::all_of(outputs, outputs + outputs_, is_aligned);
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    aligned = aligned && (!packed_[i] || is_aligned(inputs[i]));
    arguments_[i] = const_cast<const void**>(&inputs[i]);
  }
  for (std::size_t o = 0; o < outputs_; ++o)
    arguments_[packed_.size() + o] = const_cast<void**>(&outputs[o]);
  arguments_.back() = &aligned;
  const std::int64_t blocks = std::min(kMaxBlocks, (packs_ + kFusedThreads - 1) / kFusedThreads);
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), dim3(static_cast<unsigned>(blocks)),
                          dim3(kFusedThreads), arguments_.data(), 0, stream);
}

}  // namespace alpa::cuda
