// The run-time compiler: the host's
#include "nvrtc.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "device_code.h"
#include "image.h"

struct _nvrtcProgram {
  std::string source, name, log;
  std::vector<std::pair<std::string, std::string>> headers;  ///< name and text
  std::string code;
};

namespace alpa::emulation {
namespace {

namespace fs = std::filesystem;

constexpr int kArchitectures[] = {80, 90};

/// Gone with all that is in it when it goes out of scope.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "alpa-emulation-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path = name;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// The source and, behind it, what makes its kernels callable.
std::string callable(const std::string& source) {
  static const std::regex kernel(
      R"re(extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\()re");
  std::string text = source + "\n";
  for (std::sregex_iterator i(source.begin(), source.end(), kernel), end; i != end; ++i)
    text += fmt::format("ALPA_EMULATED_KERNEL({})\n", (*i)[1].str());
  return text;
}

/// The library that holds this code, which kernels are linked with.
std::string this_library() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&nvrtcVersion), &info);
  return fs::canonical(info.dli_fname).string();
}

std::string compiler() {
#if !defined(ALPA_EMULATION_COMPILER)
  const char* const chosen = std::getenv("CXX");
  return chosen != nullptr && *chosen != '\0' ? chosen : "c++";
#else
  return ALPA_EMULATION_COMPILER;  // with a sanitizer only the one that built this
#endif
}

/// "fused.cu:1:6: error: …" as NVRTC writes it: "fused.cu(1): error: …".
std::string in_nvrtc_words(const std::string& log, const std::string& folder) {
  std::string text = std::regex_replace(log, std::regex(R"((\w[^\s:]*):(\d+):\d+: )"), "$1($2): ");
  for (std::size_t at; (at = text.find(folder)) != std::string::npos;)
    text.erase(at, folder.size());
  return text;
}

nvrtcResult compile(_nvrtcProgram& program, const std::string& standard) {
  const Folder folder;
  if (folder.path.empty()) return NVRTC_ERROR_INTERNAL_ERROR;
  for (const auto& [name, text] : program.headers) write(folder.path / name, text);
  write(folder.path / program.name, callable(program.source));
  const fs::path library = folder.path / "code.so", log = folder.path / "log";
  const std::string command = fmt::format(
      "cd '{}' && {} {} -O1 -w -fPIC -shared {} -nostdinc -nostdinc++ -I. "
      "-include '{}' -I'{}' -o code.so -x c++ '{}' -x none '{}' > log 2>&1",
      folder.path.string(), compiler(), standard, ALPA_EMULATION_OPTIONS,
      ALPA_EMULATION_FOLDER "/include/run_time_code.h", ALPA_EMULATION_FOLDER "/include",
      program.name, this_library());
  const int status = std::system(command.c_str());
  program.log = in_nvrtc_words(read(log), folder.path.string() + "/");
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 127) return NVRTC_ERROR_INTERNAL_ERROR;
  if (WEXITSTATUS(status) != 0) return NVRTC_ERROR_COMPILATION;
  const std::string code = read(library);
  ImageHeader header;
  header.bytes = code.size();
  program.code.assign(reinterpret_cast<const char*>(&header), sizeof header);
  program.code += code;
  return NVRTC_SUCCESS;
}

}  // namespace
}  // namespace alpa::emulation

using namespace alpa::emulation;

extern "C" {

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_PROGRAM_CREATION_FAILURE: return "NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case NVRTC_ERROR_INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE: return "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    default: return "NVRTC_ERROR_INTERNAL_ERROR";
  }
}

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 0, *minor = ALPA_EMULATION_CODE;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(kArchitectures));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), architectures);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                               int num_headers, const char* const* headers,
                               const char* const* include_names) {
  *program = new _nvrtcProgram{source, name == nullptr ? "default_program" : name, "", {}, ""};
  for (int i = 0; i < num_headers; ++i)
    (*program)->headers.emplace_back(include_names[i], headers[i]);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int num_options, const char* const* options) {
  std::string standard = "-std=c++17";
  for (int i = 0; i < num_options; ++i) {
    const std::string option = options[i];
    if (option.starts_with("--std=c++"))
      standard = option.substr(1);
    else if (!option.starts_with("--gpu-architecture="))
      return NVRTC_ERROR_INVALID_OPTION;
  }
  return compile(*program, standard);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  *size = program->code.size();
  return program->code.empty() ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return program->code.empty() ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}
}
