// tools/report.cc — alpa report FILE -o PAGE: a plan as one HTML page
#include <alpa/alpa.h>

#include <nlohmann/json.hpp>

#include "src/base/file.h"
#include "src/compile/plan_file.h"
#include "src/report/report_json.h"
#include "src/report/report_page.h"
#include "tools/commands.h"
#include "tools/plan_or_model.h"

using namespace alpa;
using namespace tools;

namespace {

constexpr FileKind kTrace{"trace file", 1 << 28};

struct ReportFlags : PlanOrModelFlags {
  std::string trace, output;
};

std::vector<cli::Flag> rows_of(ReportFlags& f) {
  using namespace cli;
  return joined(
      {file_rows(f), planning_rows(f),
       in_group("Output", {output_file("--output", &f.output, "write the page to this file"),
                           text("--trace", &f.trace,
                                "a measured step (as --trace of a program writes it), shown "
                                "beside the predicted one")})});
}

}  // namespace

int report_command(int argc, char** argv) {
  ReportFlags flags;
  if (cli::parse(argc, argv,
                 "Writes a plan as one HTML page that needs no other file: where seconds and bytes "
                 "go, how tensors are split, and when each stage runs.",
                 rows_of(flags), &flags.given))
    return 0;
  require(!flags.output.empty(),
          "--output is missing; give the name of the page, such as plan.html");
  const PlanOrModel file = read_plan_or_model(flags);
  const bool is_plan = !file.is_model;
  const CompiledStep read = is_plan ? plan_for_readers(file.text, flags.file) : CompiledStep{};
  const Cluster cluster =
      is_plan ? cluster_of_plan(flags, devices_of(read.plan)) : cluster_of_model(flags);
  const CompiledStep step = is_plan ? read : planned_model(flags, file.text, cluster);
  nlohmann::ordered_json numbers = report_json(step.plan, cluster, step.memory_bytes);
  if (!flags.trace.empty()) add_trace(numbers, read_file(flags.trace, kTrace), flags.trace);
  write_file(flags.output, report_page(numbers));
  fmt::print("{}\n", flags.output);
  return 0;
}
