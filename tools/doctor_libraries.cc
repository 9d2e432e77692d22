// tools/doctor_libraries.cc — alpa doctor: versions of libraries, beside those alpa was tested with
#include <dnnl.h>
#include <fmt/format.h>
#if ALPA_HAS_CBC
#include <Cbc_C_Interface.h>
#endif
#if ALPA_HAS_DEFLATE
#include <libdeflate.h>
#endif
#if ALPA_HAS_PNG
#include <png.h>
#endif
#if ALPA_HAS_JPEG

#include <jpeglib.h>
#endif

#include <Eigen/Core>
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tools/doctor_report.h"

namespace doctor {
namespace {

/// The versions that alpa's tests have run with; those of CUDA on an H200.
constexpr std::pair<const char*, const char*> kTested[] = {
    {"CUDA runtime", "13.0"}, {"CUDA driver", "13.0"}, {"cuBLAS", "13.1.0"}, {"cuBLASLt", "13.1.0"},
    {"cuDNN", "9.19.0"},      {"NCCL", "2.28.9"},      {"NVRTC", "13.0"},    {"Open MPI", "4.1.4"},
    {"CBC", "2.10.8"},        {"libdeflate", "1.14"},  {"libpng", "1.6.39"}, {"libjpeg", "6.2"},
    {"oneDNN", "2.6.3"},      {"Eigen", "3.4.0"},      {"fmt", "9.1.0"},
};

Json library(const std::string& name, const std::string& version) {
  const auto* const known = std::find_if(std::begin(kTested), std::end(kTested),
                                         [&](const auto& row) { return row.first == name; });
  const std::string tested = known != std::end(kTested) ? known->second : "";
  return {{"name", name},
          {"version", text_or_null(version)},
          {"tested", text_or_null(tested)},
          {"status", verdict(version, tested)}};
}

/// A library that alpa may be built without; `version` is then empty.
Json optional_library(const std::string& name, const std::string& version, const char* option) {
  Json row = library(name, version);
  if (version.empty()) row["status"] = fmt::format("left out when alpa was built ({})", option);
  return row;
}

std::string cbc_number() {
#if ALPA_HAS_CBC
  return Cbc_getVersion();
#else
  return "";
#endif
}

std::string deflate_number() {
#if ALPA_HAS_DEFLATE
  return LIBDEFLATE_VERSION_STRING;
#else
  return "";
#endif
}

std::string png_number() {
#if ALPA_HAS_PNG
  return png_get_libpng_ver(nullptr);
#else
  return "";
#endif
}

/// Of the interface, which libjpeg-turbo shares with others: 62 is 6.2.
std::string jpeg_number() {
#if ALPA_HAS_JPEG
  return fmt::format("{}.{}", JPEG_LIB_VERSION / 10, JPEG_LIB_VERSION % 10);
#else
  return "";
#endif
}

std::string dnnl_number() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

/// The number that `text` begins with, which is cut off with what follows up to the next one.
long next_number(std::string& text) {
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, 10);
  text.erase(0, static_cast<std::size_t>(end - text.c_str()) + (*end == '.' ? 1 : 0));
  return number;
}

/// "Open MPI v4.1.4" has a tested version, no other MPI has.
Json mpi_library(const std::string& version) {
  constexpr std::string_view kOpenMpi = "Open MPI v";
  if (version.empty() || version.starts_with(kOpenMpi))
    return library("Open MPI", version.substr(std::min(version.size(), kOpenMpi.size())));
  return library("MPI", version);
}

}  // namespace

std::string verdict(std::string version, std::string tested) {
  if (version.empty()) return "not found";
  if (tested.empty()) return "not tested";
  while (!version.empty() && !tested.empty()) {
    const long difference = next_number(version) - next_number(tested);
    if (difference != 0) return difference < 0 ? "older than tested" : "newer than tested";
  }
  return "ok";
}

Json libraries(const Json& cuda, const Json& launch) {
  constexpr std::pair<const char*, const char*> kCuda[] = {
      {"CUDA runtime", "runtime"}, {"CUDA driver", "driver"}, {"cuBLAS", "cublas"},
      {"cuBLASLt", "cublas_lt"},   {"cuDNN", "cudnn"},        {"NCCL", "nccl"},
      {"NVRTC", "nvrtc"}};
  Json all = Json::array();
  if (!cuda["library"].is_null())
    for (const auto& [name, key] : kCuda)
      all.push_back(library(name, shown(cuda["versions"][key])));
  all.push_back(mpi_library(shown(launch["mpi"])));
  all.push_back(optional_library("CBC", cbc_number(), "ALPA_WITH_CBC"));
  all.push_back(optional_library("libdeflate", deflate_number(), "ALPA_WITH_DEFLATE"));
  all.push_back(optional_library("libpng", png_number(), "ALPA_WITH_PNG"));
  all.push_back(optional_library("libjpeg", jpeg_number(), "ALPA_WITH_JPEG"));
  all.push_back(library("oneDNN", dnnl_number()));
  all.push_back(library("Eigen", fmt::format("{}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION,
                                             EIGEN_MINOR_VERSION)));
  all.push_back(library("fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                                           FMT_VERSION % 100)));
  return all;
}

}  // namespace doctor
