// Batches of a data set: order, the last one, the background thread, and averages over all of them.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "support/error_text.h"

namespace batches_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Example i is the number i.
Array numbers(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return Array(values, {count, 1});
}

/// The examples of all batches of a range, batch by batch.
std::vector<std::vector<double>> contents(BatchRange range) {
  std::vector<std::vector<double>> all;
  for (const auto& batch : range) all.push_back(batch.at("x").to_doubles());
  return all;
}

}  // namespace

TEST_CASE("without a seed, examples come in their order, and the last batch is short or left out") {
  const Batches all = batches({{"x", numbers(7)}}, 3);
  CHECK(all.size() == 3);
  CHECK(contents(all.epoch(0)) == std::vector<std::vector<double>>{{0, 1, 2}, {3, 4, 5}, {6}});
  CHECK(contents(all.epoch(5)) == contents(all.epoch(0)));
  const Batches full = batches({{"x", numbers(7)}}, 3, {}, {.drop_last = true});
  CHECK(full.size() == 2);
  CHECK(contents(full.epochs(1, 3)) ==
        std::vector<std::vector<double>>{{0, 1, 2}, {3, 4, 5}, {0, 1, 2}, {3, 4, 5}});
}

TEST_CASE("with a seed, every epoch has the order of (seed, epoch), all arrays the same") {
  const Batches shuffled = batches({{"x", numbers(20)}, {"twin", numbers(20)}}, 8, /*seed=*/3);
  std::vector<double> order;
  for (std::int64_t i : shuffled_indices(20, 3, 2)) order.push_back(static_cast<double>(i));
  std::vector<double> found;
  for (const auto& batch : shuffled.epoch(2)) {
    CHECK(batch.at("x").to_doubles() == batch.at("twin").to_doubles());
    for (double x : batch.at("x").to_doubles()) found.push_back(x);
  }
  CHECK(found == order);
  CHECK(contents(shuffled.epochs(2, 3)) == contents(shuffled.epoch(2)));
  CHECK(contents(shuffled.epoch(1)) != contents(shuffled.epoch(2)));
}

TEST_CASE("a background thread stays as many batches ahead as it is told") {
  std::atomic<int> made = 0, here = 0;
  const auto caller = std::this_thread::get_id();
  const auto load = [&](std::span<const std::int64_t> rows) {
    ++made;
    here += std::this_thread::get_id() == caller;
    return std::map<std::string, Array>{{"x", take_rows(numbers(100), rows)}};
  };
  {
    BatchRange range = batches(100, load, 1, {}, {.prefetch = 3}).epoch(0);
    auto batch = range.begin();
    CHECK(batch->at("x").at<float>(0, 0) == 0);
    while (made < 4) std::this_thread::yield();  // the first and three ahead
    ++batch;
    while (made < 5) std::this_thread::yield();
    CHECK((*batch).at("x").at<float>(0, 0) == 1);
  }  // the loop ends early
  const int last = made;
  CHECK(last == 5);
  CHECK(here == 0);
}

TEST_CASE("what the background thread throws reaches the loop where its batch would be") {
  const auto load = [](std::span<const std::int64_t> rows) {
    if (rows.front() == 4) throw std::runtime_error("example 4 is damaged");
    return std::map<std::string, Array>{{"x", take_rows(numbers(9), rows)}};
  };
  int seen = 0;
  CHECK_THROWS_WITH_AS(
      {
        for (const auto& batch : batches(9, load, 2).epoch(0)) seen += batch.size() == 1;
      },
      "example 4 is damaged", std::runtime_error);
  CHECK(seen == 2);
}

TEST_CASE("data sets and batches that do not fit together") {
  CHECK(
      error_of([] {
        batches({{"x", numbers(3)}, {"y", numbers(4)}}, 2);
      }) ==
      "batches: \"y\" is f32[4, 1] but \"x\" is f32[3, 1]; row i of every array must be example i");
  CHECK(error_of([] { batches(std::map<std::string, Array>(), 2); }) ==
        "batches: no arrays are given; give one per input of the step");
  CHECK(error_of([] {
          batches({{"x", Array(std::vector<float>{1}, {})}}, 2);
        }) == "batches: \"x\" is one number; give an array with one row per example");
  CHECK(error_of([] {
          batches({{"x", numbers(3)}}, 0);
        }) == "batches: a batch of 0 examples; give at least 1");
  CHECK(error_of([] {
          batches({{"x", numbers(3)}}, 4, {}, {.drop_last = true});
        }) == "batches: 3 examples fill no batch of 4; give a smaller batch or more examples");
  CHECK(error_of([] {
          batches({{"x", numbers(3)}}, 1, {}, {.prefetch = 0});
        }) == "batches: prefetch is 0; give at least 1");
  CHECK(error_of([] {
          batches({{"x", numbers(3)}}, 1).epochs(2, 1);
        }) == "batches: epochs 2 to 1; they are numbered from 0, and the end comes last");
}

TEST_CASE("metrics of an epoch are means over its examples, the short batch included") {
  const nn::Dense linear(3);
  const Dataset data = linear_dataset(/*n=*/50, /*dim=*/3, /*seed=*/1);
  const auto inputs = [](std::int64_t rows) {
    return std::vector<BatchInput>{{"x", {f32, {rows, 3}}}, {"y", {f32, {rows, 3}}}};
  };
  const auto loss = [=](const Batch& b) { return nn::mean_squared_error(linear(b["x"]), b["y"]); };
  const TrainingStep step = training_step(inputs(16), loss, optim::Sgd{.learning_rate = 0.1});
  const auto [train, evaluate] =
      parallelize(step, evaluation_step(inputs(16), loss), Zero3Parallel{.num_micro_batches = 2},
                  Cluster::local(3));
  TrainState state = train.init(0);
  const double first = train.run(state, batches(data, 16, /*seed=*/7).epoch(0)).loss();
  CHECK(state.step() == 4);
  const double after = evaluate.run(state, batches(data, 16).epoch(0)).loss();
  CHECK(after < first);

  const Executable whole =
      parallelize(evaluation_step(inputs(50), loss), Serial{}, Cluster::local(1));
  TrainState copy = whole.init(0);
  copy.copy_from(state);
  CHECK(after ==
        doctest::Approx(whole.run(copy, {{"x", data.x}, {"y", data.y}}).loss()).epsilon(1e-6));
}

}  // namespace batches_test
