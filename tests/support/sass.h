#pragma once
/// What scripts/sass_report says of the kernels in a file.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "support/program.h"

namespace alpa::testing {

/// One line of the report; scripts/sass_report explains the columns.
struct KernelReport {
  int loads = 0, bytes = 0;
  std::string widths;
  int instructions = 0;
  std::string stores;
  int registers = 0, spills = 0, shared = 0, tensor = 0, threads = 0, blocks = 0;
  std::string kernel;
};

/// The number of accesses of `bits` in `widths`, such as 3 of 128 in "3x128+1x16".
inline int accesses(const std::string& widths, int bits) {
  std::istringstream parts(widths);
  for (std::string part; std::getline(parts, part, '+');)
    if (const std::size_t at = part.find("x" + std::to_string(bits)); at != std::string::npos)
      return std::stoi(part);
  return 0;
}

/// The kernels of `text`, the output of scripts/sass_report.
inline std::vector<KernelReport> parse_sass_report(const std::string& text) {
  std::vector<KernelReport> reports;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);  // the columns' names
  for (KernelReport r; lines >> r.loads >> r.bytes >> r.widths >> r.instructions >> r.stores >>
                           r.registers >> r.spills >> r.shared >> r.tensor >> r.threads >>
                           r.blocks &&
                       std::getline(lines >> std::ws, r.kernel);)
    reports.push_back(r);
  return reports;
}

/// The kernels for sm_90 in `file`. Nothing, and a line says so, where there is no cuobjdump; on
/// machines of continuous integration (CI is set) that is a failure.
inline std::optional<std::vector<KernelReport>> sass_report(const std::string& file) {
  const auto [text, status] = run_program(ALPA_SOURCE_DIR "/scripts/sass_report", {file});
  if (status == 77) {
    CHECK_MESSAGE(std::getenv("CI") == nullptr, text);
    std::printf("skipped: %s", text.c_str());
    return std::nullopt;
  }
  REQUIRE_MESSAGE(status == 0, text);
  return parse_sass_report(text);
}

/// `sass_report` of libalpa_cuda.so, which takes most of a minute. ctest makes it once for all
/// tests, as the file ALPA_SASS_REPORT, which is empty where there is no cuobjdump.
inline std::optional<std::vector<KernelReport>> library_sass_report(const std::string& library) {
  if (const char* const made = std::getenv("ALPA_SASS_REPORT"))
    if (std::ostringstream text; text << std::ifstream(made).rdbuf())
      return parse_sass_report(text.str());
  return sass_report(library);
}

}  // namespace alpa::testing
