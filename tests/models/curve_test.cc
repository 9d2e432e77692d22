// --log, --plot and --tensorboard: the losses of a run as CSV, SVG and events; --quiet, --warmup
// and --precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <vector>

#include "models/common/curve.h"
#include "models/common/training.h"
#include "support/events.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace curve_test {

using namespace alpa;
using namespace alpa::testing;
using namespace programs;

namespace {

const std::string kMlp =
    ALPA_MLP " --backend cpu --devices 2 --method data --dim 8 --layers 2 --batch 8 --steps 3 ";

/// The numbers of a line between commas, as f32; 0 for a word.
std::vector<float> numbers_in(const std::string& line) {
  std::vector<float> numbers;
  std::istringstream text(line);
  for (std::string word; std::getline(text, word, ',');)
    numbers.push_back(std::strtof(word.c_str(), nullptr));
  return numbers;
}

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

TEST_CASE("a board has the numbers of every step, equal to those of the log") {
  const TemporaryFile log("curve_test.csv", "");
  const TemporaryFolder folder("curve_test_board");
  REQUIRE(run_shell(kMlp + "--quiet --log curve_test.csv --tensorboard " + folder.path()).status ==
          0);
  std::string lines = "step,loss,seconds\n";
  for (const BoardEvent& event : events_in(folder.path())) {
    if (event.what != "values") continue;
    auto values = event.values;
    lines += fmt::format("{},{},{}\n", event.step, values["loss"], values["step_seconds"]);
    CHECK(values["learning_rate"] == 1e-3F);
    CHECK(values["memory_bytes"] > 0);
    CHECK(values["samples_per_second"] * values["step_seconds"] == doctest::Approx(8));
    CHECK(values["share_of_peak"] > 0);
    CHECK(values["share_of_peak"] < 1);
    CHECK(values.size() == 6);
  }
  std::istringstream expected(log.content()), found(lines);
  for (std::string line, at; std::getline(expected, line);) {
    REQUIRE(std::getline(found, at));
    CHECK(numbers_in(at) == numbers_in(line));
  }
}

TEST_CASE("no share of the peak exceeds 1: a step that is faster than the measured peak is it") {
  const TemporaryFolder folder("curve_test_board");
  const Batches rows = batches({{"x", Array(std::vector<float>{1, 2, 3, 4}, {2, 2})}}, 2);
  const auto model = [](const Batch& b) { return mean(nn::Dense(2)(b["x"])); };
  const Task task{.model = model, .inputs = inputs_of(*rows.epoch(0).begin()), .training = rows};
  const TrainingStep step = training_step(task.inputs, model, optim::Sgd{});
  train(task, parallelize(step, Serial{}, Cluster::local(1)), 3, 0,
        {.peak_rate = 1, .log = "", .board = folder.path(), .scalars = step.scalars});
  for (const BoardEvent& event : events_in(folder.path()))
    if (event.what == "values") CHECK(event.values.at("share_of_peak") == 1);
}

TEST_CASE("a resumed run goes on in the folder of its board, with a file of its own") {
  const TemporaryFolder folder("curve_test_board"), saved("curve_test_saved");
  const std::string run = kMlp + "--quiet --checkpoint " + saved.path() + " --resume" +
                          " --tensorboard " + folder.path() + " --steps ";
  REQUIRE(run_shell(run + "3").status == 0);
  REQUIRE(run_shell(run + "5").status == 0);
  std::vector<std::string> texts;
  for (const BoardEvent& event : events_in(folder.path()))
    texts.push_back(fmt::format("{} {}", event.step, event.what));
  std::sort(texts.begin(), texts.end());
  CHECK(texts == std::vector<std::string>{"0 brain.Event:2", "0 brain.Event:2", "1 start",
                                          "1 values", "2 values", "3 values", "4 start", "4 values",
                                          "5 values"});
}

TEST_CASE("the test of a run is on its board, at the last step") {
  const TemporaryFile text("curve_test.txt", std::string(300, 'a'));
  const TemporaryFolder folder("curve_test_board");
  const ProgramOutput output =
      run_shell(ALPA_GPT
                " --backend cpu --devices 1 --quiet --sequence 16 --batch 1 --steps 2 --test-share "
                "0.1 --data curve_test.txt --tensorboard " +
                folder.path());
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  const BoardEvent last = events_in(folder.path()).back();
  CHECK(last.step == 2);
  REQUIRE(last.values.contains("test_loss"));
  CHECK(output.text.find(fmt::format("\ntest loss   {:.4f}\n", last.values.at("test_loss"))) !=
        output.text.npos);
}

TEST_CASE("a log that can't be written any more ends the program behind its results, not the run") {
  const TemporaryFile log("curve_test.csv", ""), plot("curve_test.svg", "");
  const TemporaryFolder folder("curve_test_board");
  const ProgramOutput output =
      run_shell("ulimit -f 8; " + kMlp +
                "--steps 60 --quiet --log curve_test.csv --plot curve_test.svg --tensorboard " +
                folder.path());
  CAPTURE(output.text);
  CHECK(output.status == 2);
  const std::string why = ": cannot be written: File too large";
  CHECK(output.text.find(why + "; the run goes on without it\n") != output.text.npos);
  CHECK(output.text.rfind("alpa-mlp: " + folder.path() + "/events.out.tfevents.") >
        output.text.find(" per step (median)\n"));
  CHECK(output.text.ends_with(why + "\n"));
  CHECK(log.content().find("\n60,") != std::string::npos);
  CHECK(plot.content().starts_with("<svg"));
}

TEST_CASE("a terminal gets a line that replaces itself, a pipe plain lines") {
  const std::string run = kMlp + "--steps 3 ",
                    terminal = run_shell("script -qec '" + run + "' /dev/null").text,
                    pipe = run_shell(run).text;
  CAPTURE(terminal);
  const std::size_t begin = terminal.find("\r\033[K\033[?7lstep 3/3  loss ");
  REQUIRE(begin != terminal.npos);
  const std::string line = terminal.substr(begin, terminal.find("\033[?7h", begin) - begin);
  for (const char* part : {" samples/s  ", " % of peak  ", " MiB in use  ETA 0:00"})
    CHECK(line.find(part) != line.npos);
  CHECK(pipe.find('\033') == pipe.npos);
  CHECK(pipe.find(" per device planned  ETA 0:00\n") != pipe.npos);
}

TEST_CASE("every optimizer and precision trains") {
  for (const char* optimizer :
       {"adam", "adamw", "adamw_bf16", "adamw_8bit", "sgd", "lamb", "lion", "adafactor"})
    CHECK(run_shell(kMlp + "--warmup 1 --optimizer " + optimizer).status == 0);
  for (const char* precision : {"bf16_mixed", "f16_mixed"})
    CHECK(run_shell(kMlp + "--precision " + precision).status == 0);
  CHECK(
      run_shell(kMlp + "--plan-only --log x.csv")
          .text.ends_with("alpa-mlp: --plan-only runs nothing: it can't be combined with --log\n"));
}

}  // namespace curve_test
