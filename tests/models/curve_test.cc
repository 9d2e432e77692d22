// --log and --plot: the losses of a run as CSV and SVG; --quiet, --warmup and --precision.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "models/common/curve.h"
#include "support/program.h"
#include "support/temporary_file.h"

namespace curve_test {

using namespace alpa::testing;
using namespace programs;

namespace {

const std::string kMlp =
    ALPA_MLP " --backend cpu --devices 2 --method data --dim 8 --layers 2 --batch 8 --steps 3 ";

}  // namespace

TEST_CASE("a log has a line per step as soon as the step is over") {
  const TemporaryFile file("loss_log.csv", "replaced");
  LossLog log(file.path());
  CHECK(file.content() == "step,loss,seconds\n");
  log.add(2.5, 0.5);
  CHECK(file.content() == "step,loss,seconds\n1,2.5,0.5\n");
  log.add(1, 0.25);
  CHECK(file.content() == "step,loss,seconds\n1,2.5,0.5\n2,1,0.25\n");
}

TEST_CASE("a curve goes from the left edge to the right, and from the largest loss to the least") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = loss_svg(std::vector<double>{4, nan, 3, 2});
  CHECK(svg.find("<polyline points=\"70.0,20.0 436.7,185.0 620.0,350.0\"") != svg.npos);
  CHECK(svg.find(">4</text>") != svg.npos);
  CHECK(loss_svg({}).find("polyline") == std::string::npos);
  CHECK(loss_svg(std::vector<double>{nan}).find("polyline") == std::string::npos);
  CHECK(loss_svg(std::vector<double>{5}).find("70.0,350.0\"") != std::string::npos);
}

TEST_CASE("a long curve has no more points than a picture shows") {
  const std::string svg = loss_svg(std::vector<double>(1'000'000, 1.0));
  CHECK(svg.size() < 50'000);
}

TEST_CASE("a run writes its log and its plot, and keeps quiet if told to") {
  const TemporaryFile log("curve_test.csv", ""), plot("curve_test.svg", "");
  const ProgramOutput loud = run_shell(kMlp),
                      quiet =
                          run_shell(kMlp + "--quiet --log curve_test.csv --plot curve_test.svg");
  CHECK(loud.text.find("step 3/3") != loud.text.npos);
  CHECK(quiet.text.find("step 3/3") == quiet.text.npos);
  CHECK(quiet.status == 0);
  CHECK(log.content().find("\n3,") != std::string::npos);
  CHECK(plot.content().starts_with("<svg"));
}

TEST_CASE("every optimizer and precision trains") {
  for (const char* optimizer : {"adam", "adamw", "sgd", "lamb", "lion", "adafactor"})
    CHECK(run_shell(kMlp + "--warmup 1 --optimizer " + optimizer).status == 0);
  for (const char* precision : {"bf16_mixed", "f16_mixed"})
    CHECK(run_shell(kMlp + "--precision " + precision).status == 0);
  CHECK(
      run_shell(kMlp + "--plan-only --log x.csv")
          .text.ends_with("alpa-mlp: --plan-only runs nothing: it can't be combined with --log\n"));
}

}  // namespace curve_test
