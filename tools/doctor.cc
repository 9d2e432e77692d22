// tools/doctor.cc — alpa doctor [--json] [--seconds S]: reports what this machine offers alpa, its
// speed, and what is missing
#include <fmt/core.h>

#include "src/base/json.h"
#include "tools/commands.h"
#include "tools/common/flag_table.h"
#include "tools/doctor_report.h"

int doctor_command(int argc, char** argv) {
  bool json = false;
  double seconds = 0.25;
  const bool only_help =
      cli::parse(argc, argv, "Says what this machine offers, how fast it is, and what is missing.",
                 {cli::on("--json", &json, "print JSON"),
                  cli::number("--seconds", &seconds,
                              "how long each ceiling is measured; 0 measures nothing", 0, 60)});
  if (only_help) return 0;
  const doctor::Json launch = doctor::examine_launch();
  if (!doctor::speaks()) return 0;  // and it measures alone
  const doctor::Json report = doctor::examine(seconds, launch);
  fmt::print("{}", json ? alpa::json_text(report, 2) + "\n" : doctor::report_text(report));
  return 0;
}
