// alpa report: plans and models from files, as pages.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "src/base/file.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "tools/small_step.h"

namespace report_tool_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr const char* kPage = "report_test_page.html";

ProgramOutput run_report(const std::string& path, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"report", path});
  return run_program(ALPA_TOOL, more);
}

/// The page that is written; empty: the program failed.
std::string page_of(const std::string& path, std::vector<std::string> more) {
  const TemporaryFile page(kPage, "");
  more.insert(more.end(), {"-o", kPage});
  const ProgramOutput output = run_report(path, more);
  CAPTURE(output.text);
  CHECK(output.status == 0);
  return page.content();
}

std::string mistake(const std::string& path, std::vector<std::string> more) {
  const ProgramOutput output = run_report(path, std::move(more));
  CHECK(output.status == 2);
  return output.text;
}

}  // namespace

TEST_CASE("the page of a plan's file is the page of the plan") {
  const Cluster cluster = Cluster::named("dgx-a100");
  for (const Method& method :
       {Method(Zero2Parallel{.num_micro_batches = 2}),
        Method(PipeshardParallel{
            .num_micro_batches = 4, .layers = AutoLayers{2}, .stages = UniformStages{2}})}) {
    const CompiledStep planned = plan_only(make_step(), method, cluster);
    const TemporaryFile file("report_test_plan.json", to_json(planned));
    CHECK(page_of(file.path(), {"--cluster", "dgx-a100"}) == report(planned, cluster));
  }
}

TEST_CASE("a model's file is planned for its page, and a trace of a run is shown in it") {
  const TemporaryFile file("report_test_graph.txt", to_string(make_step().trace(1)));
  const std::string page = page_of(file.path(), {"--devices", "4", "--method", "data"});
  CHECK(page.find(R"("method":"data","meshes":"4","devices":4,)") != page.npos);
  const char* const measured = R"("measured":{"seconds":)";
  CHECK(page.find(measured) == page.npos);
  DataParallel method;
  method.executor.record_times = true;
  const Executable step = parallelize(make_step(), method, Cluster::local(2));
  TrainState state = step.init(1);
  const Array rows(TensorType{f32, {32, 16}});
  step.run(state, {{"x", rows}, {"y", rows}}).loss();
  const TemporaryFile trace("report_test_trace.json", step.trace());
  const TemporaryFile plan("report_test_plan.json", to_json(step.planned()));
  CHECK(page_of(plan.path(), {"--trace", trace.path()}).find(measured) != page.npos);
}

TEST_CASE("mistakes of a report are one line each") {
  const TemporaryFile file("report_test_graph.txt", to_string(make_step().trace(1)));
  CHECK(mistake(file.path(), {}) ==
        "alpa: --output is missing; give the name of the page, such as plan.html\n");
  CHECK(mistake("nowhere.json", {"--output", kPage}).find("nowhere.json") != std::string::npos);
  CHECK(mistake(file.path(), {"--output", "/nowhere/x.html"}) ==
        "alpa: --output: /nowhere/x.html: cannot be written: No such file or directory\n");
  const TemporaryFile other("report_test_other.json",
                            "{\"schema\": \"alpa.plan/2\", \"stages\": []}");
  CHECK(mistake(other.path(), {"--output", kPage}) ==
        "alpa: plan report_test_other.json: stages: found a list, expected at least one stage\n");
  CHECK(
      mistake(file.path(), {"--output", kPage, "--trace", other.path()}) ==
      "alpa: trace report_test_other.json: no traceEvents; expected a trace of a step, as --trace "
      "or Executable::trace writes it\n");
  CHECK(run_report(file.path(), {"--help"}).status == 0);
}

}  // namespace report_tool_test
