// Mistakes in running a step: batches, states, names.
#include <doctest/doctest.h>

#include <limits>

#include "errors/small_model.h"
#include "support/error_text.h"

namespace run_error_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct Running {
  Executable train = parallelize(small_step(), DataParallel{}, Cluster::local(2));
  TrainState state = train.init(0);

  /// The error of a step on the small batch with one input replaced or added.
  std::string error_with(const std::string& name, const Array& array) {
    auto batch = small_batch();
    batch[name] = array;
    return error_of([&] { train.run(state, batch); });
  }
};

}  // namespace

TEST_CASE("batches of wrong shape, element type or names") {
  Running running;
  CHECK(running.error_with("x", zero_array({12, 5})) ==
        "batch input \"x\" is f32[12, 5], but the step takes f32[12, 6]");
  CHECK(running.error_with("x", zero_array({0, 6})) ==
        "batch input \"x\" is f32[0, 6], but the step takes f32[12, 6]");
  CHECK(running.error_with("x", zero_array({12, 6}, f64)) ==
        "batch input \"x\" is f64[12, 6], but the step takes f32[12, 6]");
  CHECK(running.error_with("z", zero_array({12, 6})) ==
        "no batch input is called \"z\"; known are \"x\", \"y\"");
  CHECK(error_of([&] {
          running.train.run(running.state, {{"x", zero_array({12, 6})}});
        }) == "batch input \"y\" is missing; give an array of type f32[12, 4]");
  CHECK(running.train.run(running.state, small_batch()).loss() == 0);  // none of them did harm
}

TEST_CASE("ids for which a table has no row") {
  const nn::Embedding embedding(10, 3);
  const auto step = training_step(
      {{"ids", {i32, {4, 2}}}}, [&](const Batch& b) { return mean(square(embedding(b["ids"]))); },
      optim::Sgd{});
  for (const int id : {10, -1}) {
    const Executable train = parallelize(step, DataParallel{}, Cluster::local(2));
    TrainState state = train.init(0);
    const std::map<std::string, Array> batch{
        {"ids", Array(std::vector<int>{0, 9, 3, 4, 5, id, 7, 8}, {4, 2})}};
    CHECK(error_of([&] { train.run(state, batch); }) ==
          fmt::format("device 1: instruction 1 'embedding0/embedding' (embedding, forward): "
                      "id {} is outside of the table's rows 0 to 9; give ids of rows that exist",
                      id));
  }
}

TEST_CASE("ids for which a dimension has no element") {
  const auto step = training_step(
      {{"ids", {i32, {4, 2}}}},
      [&](const Batch& b) {
        const Value w = b.builder().parameter("w", {f32, {4, 3}}, ones);
        return mean(take_along_axis(w, b["ids"], 1));
      },
      optim::Sgd{});
  for (const int id : {3, -1}) {
    const Executable train = parallelize(step, Serial{}, Cluster::local(1));
    TrainState state = train.init(0);
    const std::map<std::string, Array> batch{
        {"ids", Array(std::vector<int>{0, 2, 1, 0, 2, id, 1, 1}, {4, 2})}};
    CHECK(error_of([&] { train.run(state, batch); }) ==
          fmt::format("device 0: instruction 1 'take_along_axis' (take_along_axis, forward): "
                      "id {} is outside of 0 to 2; give ids of elements that exist",
                      id));
  }
}

TEST_CASE("names nobody knows") {
  Running running;
  const std::string known =
      "no parameter or optimizer state is called \"w\"; known are \"dense0.kernel\"";
  CHECK(error_of([&] { running.state["w"]; }) == known);
  CHECK(error_of([&] { running.state["w"] = zero_array({1}); }) == known);
  CHECK(error_of([&] { running.train.sharding_of("w"); }) == known);
  CHECK(error_of([&] { running.train.run(running.state, small_batch()).metrics["accuracy"]; }) ==
        "the step reports no metric \"accuracy\"; its metrics are \"loss\"");
  CHECK(error_of([&] {
          running.state["dense0.kernel"] = zero_array({4, 6});
        }) == "state \"dense0.kernel\" is f32[6, 4], but the array is f32[4, 6]");
}

TEST_CASE("states of another executable, and none at all") {
  Running running, other;
  CHECK(
      error_of([&] { running.train.run(other.state, small_batch()); }) ==
      "this state belongs to another executable; make one with init() of this one and fill it with "
      "copy_from()");
  TrainState empty;
  CHECK(error_of([&] { running.train.run(empty, small_batch()); }) ==
        "this TrainState is empty; make one with `executable.init(seed)`");
  CHECK(error_of([&] { empty.names(); }) ==
        "this TrainState is empty; make one with `executable.init(seed)`");
}

TEST_CASE("a loss that is not finite, if that is to be an error") {
  auto batch = small_batch();
  batch["y"] = Array(std::vector<float>(48, std::numeric_limits<float>::infinity()), {12, 4});
  const Executable strict = parallelize(
      small_step(), DataParallel{.executor = {.check_finite = true}}, Cluster::local(2));
  TrainState state = strict.init(0);
  strict.run(state, small_batch());
  CHECK(error_of([&] { strict.run(state, batch); }) ==
        "metric \"loss\" is inf in step 2; lower the learning rate, clip gradients, "
        "or look for a division by zero or log of 0");
  Running lenient;
  CHECK(lenient.train.run(lenient.state, batch).loss() == std::numeric_limits<double>::infinity());
}

}  // namespace run_error_test
