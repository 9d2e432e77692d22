// src/cuda/compile_kernel.cc — compiles CUDA C++ at run time, with a cache in memory and on disk
#include "compile_kernel.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "alpa/base/error.h"
#include "cache_folder.h"
#include "src/base/fnv.h"
#include "src/base/thread_team.h"
#include "status.h"

namespace alpa::cuda {
namespace {

/// Declarations of the standard library that the headers need; the run-time compiler lacks them.
constexpr RunTimeHeader kStandardHeaders[] = {
    {"cmath", R"(#pragma once
namespace std {
using ::abs;
using ::cos;
using ::erf;
using ::exp;
using ::floor;
using ::log;
using ::pow;
using ::sin;
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

/// Visits every header the compiler sees.
template <class Visit>
void for_each_header(const Visit& visit) {
  std::for_each(kRunTimeHeaders, kRunTimeHeaders + kNumRunTimeHeaders, visit);
  std::for_each(std::begin(kStandardHeaders), std::end(kStandardHeaders), visit);
}

// ---- compiling

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
  for_each_header([&](const RunTimeHeader& header) {
    names.push_back(header.name);
    texts.push_back(header.text);
  });
  Program program;
  check(nvrtcCreateProgram(&program.handle, source.c_str(), "fused.cu",
                           static_cast<int>(names.size()), texts.data(), names.data()),
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

// ---- the cache on disk: a file is the source, a zero, a hash of the machine code, and that

std::uint64_t hash_of_headers() {
  std::uint64_t hash = fnv1a("");
  for_each_header(
      [&](const RunTimeHeader& header) { hash = fnv1a(header.text, fnv1a(header.name, hash)); });
  return hash;
}

std::string kept_form(const std::string& source, const std::vector<char>& code) {
  const std::uint64_t hash = fnv1a({code.data(), code.size()});
  std::string content = source + '\0';
  content.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  content.append(code.data(), code.size());
  return content;
}

/// The machine code in a file of the cache; nothing if it is another source's, or damaged.
std::optional<std::vector<char>> code_in(const std::string& content, const std::string& source) {
  std::uint64_t hash;
  const std::size_t begin = source.size() + 1 + sizeof hash;
  if (content.size() <= begin || content.compare(0, source.size() + 1, source + '\0') != 0)
    return std::nullopt;
  std::memcpy(&hash, content.data() + source.size() + 1, sizeof hash);
  std::vector<char> code(content.begin() + static_cast<std::ptrdiff_t>(begin), content.end());
  if (fnv1a({code.data(), code.size()}) != hash) return std::nullopt;
  return code;
}

std::vector<char> find_or_compile(const std::string& source, int architecture) {
  const std::string file = kernel_file(source, architecture);
  if (const std::optional<std::string> content = read_cached(file))
    if (std::optional<std::vector<char>> code = code_in(*content, source)) return std::move(*code);
  std::vector<char> code = compile(source, architecture);
  write_cached(file, kept_form(source, code));
  return code;
}

}  // namespace

bool can_compile_for(int architecture) {
  int count = 0;
  check(nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> architectures(static_cast<std::size_t>(count));
  if (count > 0) check(nvrtcGetSupportedArchs(architectures.data()), "nvrtcGetSupportedArchs");
  return std::find(architectures.begin(), architectures.end(), architecture) != architectures.end();
}

std::string kernel_file(const std::string& source, int architecture) {
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "nvrtcVersion");
  return fmt::format("kernel_{:016x}_sm{}_nvrtc{}.{}", fnv1a(source, hash_of_headers()),
                     architecture, major, minor);
}

std::vector<char> compile_kernel(const std::string& source, int architecture) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, std::vector<char>> compiled;
  const std::pair key(source, architecture);
  {
    const std::lock_guard lock(mutex);
    if (const auto known = compiled.find(key); known != compiled.end()) return known->second;
  }
  std::vector<char> code = find_or_compile(source, architecture);
  const std::lock_guard lock(mutex);
  return compiled.try_emplace(key, std::move(code)).first->second;
}

void compile_kernels(std::vector<std::string> sources, int architecture) {
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  const auto count = static_cast<std::int64_t>(sources.size());
  ThreadTeam team(static_cast<int>(std::clamp<std::int64_t>(count, 1, usable_cores())));
  team.for_each(count, 1, [&](std::int64_t i) { compile_kernel(sources[i], architecture); });
}

}  // namespace alpa::cuda
