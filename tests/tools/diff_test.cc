// alpa diff: two plans side by side.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "support/program.h"
#include "support/temporary_file.h"
#include "tools/small_step.h"

namespace diff_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

CompiledStep planned(const Method& method) {
  return plan_only(make_step(), method, Cluster::named("dgx-a100"));
}

ProgramOutput diff(const std::string& before, const std::string& after) {
  return run_program(ALPA_TOOL, {"diff", before, after, "--cluster", "dgx-a100"});
}

}  // namespace

TEST_CASE("a plan differs from itself in nothing") {
  const TemporaryFile file("diff_test_plan.json", to_json(planned(DataParallel{})));
  const ProgramOutput output = diff(file.path(), file.path());
  CHECK(output.status == 0);
  CHECK(output.text.find("bytes of a device\n  none\n") != std::string::npos);
  CHECK(output.text.find("seconds of a step\n  none\n") != std::string::npos);
  CHECK(output.text.find("(+0, +0.0 %)") != std::string::npos);
}

TEST_CASE("what two plans do differently is said by class, with the change of the whole") {
  const CompiledStep data = planned(DataParallel{}), zero = planned(Zero3Parallel{});
  const TemporaryFile before("diff_test_before.json", to_json(data)),
      after("diff_test_after.json", to_json(zero));
  const ProgramOutput output = diff(before.path(), after.path());
  CAPTURE(output.text);
  CHECK(output.status == 0);
  CHECK(output.text.starts_with("plan           data on meshes 8 -> zero3 on meshes 8\n"));
  CHECK(output.text.find(
            fmt::format("step           {} -> {} (", seconds_text(data.plan.cost.objective_seconds),
                        seconds_text(zero.plan.cost.objective_seconds))) != std::string::npos);
  CHECK(output.text.find("  *.kernel: a copy on every device -> rows split over x (8 devices); ") !=
        std::string::npos);
  CHECK(output.text.find("  multi_tensor_adam ") != std::string::npos);
}

TEST_CASE("stages are compared with a plan of one mesh") {
  const CompiledStep one = planned(DataParallel{});
  const CompiledStep two = planned(PipeshardParallel{
      .num_micro_batches = 4, .layers = AutoLayers{2}, .stages = UniformStages{2}});
  const TemporaryFile before("diff_test_before.json", to_json(one)),
      after("diff_test_after.json", to_json(two));
  const ProgramOutput output = diff(before.path(), after.path());
  CHECK(output.status == 0);
  CHECK(output.text.find("-> pipeline on meshes ") != std::string::npos);
}

TEST_CASE("a file that is no plan is one line") {
  const TemporaryFile file("diff_test_plan.json", "{}");
  const ProgramOutput output = diff(file.path(), file.path());
  CHECK(output.status == 2);
  CHECK(output.text == "alpa: plan diff_test_plan.json: schema is missing\n");
}

}  // namespace diff_test
