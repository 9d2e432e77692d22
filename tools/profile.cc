// tools/profile.cc — alpa profile: measures this machine into a cluster file
#include <alpa/alpa.h>
#include <fmt/core.h>

#include "src/base/file.h"
#include "tools/commands.h"
#include "tools/common/flag_table.h"

using namespace alpa;

int profile_command(int argc, char** argv) {
  int devices = 8;
  double seconds = 10;
  std::string output;
  if (cli::parse(argc, argv,
                 "Measures products, loops, instructions and all-reduces of CPU devices that all "
                 "work, as a cluster file for planning.",
                 {cli::whole("--devices", &devices, "CPU devices of this machine", 1, 1024),
                  cli::positive_number("--seconds", &seconds, "to measure for, about"),
                  cli::output_file("--output", &output, "file to write; without it, print")}))
    return 0;
  const std::string text = profile(devices, seconds).to_json();
  if (output.empty())
    fmt::print("{}", text);
  else
    write_file(output, text);
  return 0;
}
