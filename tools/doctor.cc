// alpa doctor [--json] [--seconds S]: what this machine offers alpa, how fast it is, and what is missing.
#include <fmt/core.h>

#include <cstdlib>
#include <string_view>

#include "alpa/base/error.h"
#include "tools/commands.h"
#include "tools/doctor_report.h"

namespace {

double parse_seconds(const char* text) {
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  alpa::require(end != text && *end == '\0' && seconds >= 0 && seconds <= 60,
                "doctor: --seconds is `{}`; write a number from 0, which measures nothing, to 60", text);
  return seconds;
}

}  // namespace

int doctor_command(int argc, char** argv) {
  bool json = false;
  double seconds = 0.25;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json")
      json = true;
    else if (flag == "--seconds" && i + 1 < argc)
      seconds = parse_seconds(argv[++i]);
    else
      alpa::fail(
          "doctor: `{}` is not understood\nusage: alpa doctor [--json] [--seconds S]\nS: how long each "
          "ceiling is measured; 0 measures nothing",
          flag);
  }
  const doctor::Report report = doctor::examine(seconds);
  fmt::print("{}", json ? doctor::report_json(report) : doctor::report_text(report));
  return 0;
}
