// Parameters to and from safetensors files: names, transposition, joined and shared tensors.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "support/error_text.h"
#include "support/temporary_file.h"

namespace weights_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Dense(6) on 3 features, Dense(2): "dense0.kernel" [3, 6] and so on.
Executable executable(int devices, DType dtype = f32) {
  const nn::Dense first(6), second(2, {.bias = false});
  const TrainingStep step = training_step(
      {{"x", {dtype, {4, 3}}}},
      [=](const Batch& b) { return mean(square(cast(second(relu(first(b["x"]))), f32))); },
      optim::Adam{});
  return parallelize(step, ShardParallel{}, Cluster::local(devices));
}

Array counted(const Shape& shape) {
  Array array(TensorType{f32, shape});
  float next = 0;
  for (float& element : array.mutable_elements_as<float>()) element = next++;
  return array;
}

/// "dense0.kernel" [3, 2], "dense0.bias" and "dense1.kernel" [3, 4].
Executable two_heads(int devices) {
  const nn::Dense first(2), second(4, {.bias = false});
  const TrainingStep step = training_step(
      {{"x", {f32, {4, 3}}}},
      [=](const Batch& b) { return mean(first(b["x"])) + mean(second(b["x"])); }, optim::Sgd{});
  return parallelize(step, ShardParallel{}, Cluster::local(devices));
}

/// Both kernels as parts of one tensor.
WeightMap halves(const std::string& tensor, bool transposed, std::int64_t first,
                 std::int64_t second) {
  return {
      {.parameter = "dense0.kernel", .tensors = {tensor}, .transposed = transposed, .start = first},
      {.parameter = "dense1.kernel",
       .tensors = {tensor},
       .transposed = transposed,
       .start = second}};
}

}  // namespace

TEST_CASE("weights saved under their own names load into another state, on other devices") {
  const TemporaryFile file("own_names.safetensors", "");
  const TrainState saved = executable(1).init(1);
  save_weights(saved, file.path());
  CHECK(TensorFile(file.path()).names() ==
        std::vector<std::string>{"dense0.bias", "dense0.kernel", "dense1.kernel"});
  TrainState loaded = executable(3).init(2);
  load_weights(loaded, file.path());
  for (const DistributedArray& parameter : saved.parameters())
    CHECK(to_string(loaded[parameter.name()].to_host()) == to_string(parameter.to_host()));
}

TEST_CASE("a map names, transposes and joins tensors, in both directions") {
  const TemporaryFile file("mapped.safetensors", "");
  // The kernel [3, 6] as three Linear layers [out, in] of 1, 2 and 3 outputs.
  const WeightMap map = {{.parameter = "dense0.kernel",
                          .tensors = {"q.weight", "k.weight", "v.weight"},
                          .transposed = true,
                          .extents = {1, 2, 3}},
                         {.parameter = "dense0.bias", .tensors = {"b.0", "b.1"}},
                         {.parameter = "dense1.kernel", .tensors = {"out.weight"}}};
  TrainState state = executable(2).init(1);
  const Array kernel = counted({3, 6}), bias = counted({6}), out = counted({6, 2});
  state["dense0.kernel"] = kernel, state["dense0.bias"] = bias, state["dense1.kernel"] = out;
  save_weights(state, file.path(), map, {{"format", "pt"}});
  const TensorFile written(file.path());
  CHECK(to_string(written["q.weight"]) == "f32[1, 3] [[0, 6, 12]]");
  CHECK(to_string(written["k.weight"]) == "f32[2, 3] [[1, 7, 13], [2, 8, 14]]");
  CHECK(to_string(written["b.1"]) == "f32[3] [3, 4, 5]");
  CHECK(to_string(written["out.weight"]) == to_string(out));
  TrainState other = executable(1).init(2);
  load_weights(other, file.path(), map);
  CHECK(to_string(other["dense0.kernel"].to_host()) == to_string(kernel));
  CHECK(to_string(other["dense0.bias"].to_host()) == to_string(bias));
  CHECK(to_string(other["dense1.kernel"].to_host()) == to_string(out));
}

TEST_CASE("several parameters share a tensor, in both directions, transposed too") {
  const TemporaryFile file("shared.safetensors", "");
  const Array first = counted({3, 2}), second = counted({3, 4});
  for (bool transposed : {false, true}) {
    const WeightMap map = halves("w", transposed, 0, 2);
    TrainState state = two_heads(2).init(1), other = two_heads(1).init(2);
    state["dense0.kernel"] = first, state["dense1.kernel"] = second;
    save_weights(state, file.path(), map);
    CHECK(to_string(TensorFile(file.path())["w"]) ==
          (transposed
               ? "f32[6, 3] [[0, 2, 4], [1, 3, 5], [0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, "
                 "11]]"
               : "f32[3, 6] [[0, 1, 0, 1, 2, 3], [2, 3, 4, 5, 6, 7], [4, 5, 8, 9, 10, 11]]"));
    load_weights(other, file.path(), map);
    CHECK(to_string(other["dense0.kernel"].to_host()) == to_string(first));
    CHECK(to_string(other["dense1.kernel"].to_host()) == to_string(second));
  }
}

TEST_CASE("tensors are stacked along a dimension that they lack, in both directions") {
  const TemporaryFile file("stacked.safetensors", "");
  const auto experts_step = [](int devices) {
    const TrainingStep step = training_step(
        {{"x", {f32, {2, 4, 3}}}},
        [](const Batch& b) {
          const Value experts = b.builder().parameter("experts", {f32, {2, 3, 2}}, ones);
          return mean(einsum("etm,emh->eth", b["x"], experts));
        },
        optim::Sgd{});
    return parallelize(step, ShardParallel{}, Cluster::local(devices));
  };
  WeightMap map = {{.parameter = "experts",
                    .tensors = {"experts.0.w", "experts.1.w"},
                    .transposed = true,
                    .axis = 0,
                    .stacked = true}};
  TrainState state = experts_step(2).init(1), other = experts_step(1).init(1);
  const Array experts = counted({2, 3, 2});
  state["experts"] = experts;
  save_weights(state, file.path(), map);
  const TensorFile written(file.path());
  CHECK(to_string(written["experts.0.w"]) == "f32[2, 3] [[0, 2, 4], [1, 3, 5]]");
  CHECK(to_string(written["experts.1.w"]) == "f32[2, 3] [[6, 8, 10], [7, 9, 11]]");
  load_weights(other, file.path(), map);
  CHECK(to_string(other["experts"].to_host()) == to_string(experts));
  map[0].tensors.emplace_back("experts.1.w");
  CHECK(error_of([&] { save_weights(state, "never", map); }) ==
        "weight map: parameter \"experts\": is f32[2, 3, 2]; a stack of 3 tensors has an extent of "
        "3 in dimension 0, and no others");
  CHECK(error_of([&] { load_weights(other, file.path(), map); }) ==
        "weight map: parameter \"experts\": is f32[2, 3, 2], but its tensors in "
        "stacked.safetensors have extent 3 together in dimension 0");
}

TEST_CASE("kernels of convolutions are PyTorch's [out, in, rows, columns] in a file") {
  const nn::Conv2d layer(4, {2, 1}, {.bias = false, .name = "conv"});
  const Executable step = parallelize(
      prediction_step({{"x", {f32, {1, 5, 5, 3}}}}, [=](const Batch& b) { return layer(b["x"]); }),
      Serial{}, Cluster::local(1));
  const TemporaryFile file("convolution.safetensors", ""), saved("convolution_saved", "");
  const Array held = counted({4, 3, 2, 1});
  write_safetensors(file.path(), {{"weight", held}});
  WeightMap map = {{"conv.kernel", {"weight"}}};
  map[0].convolution = true;
  TrainState state = step.init(0);
  load_weights(state, file.path(), map);
  const Array kernel = state["conv.kernel"].to_host();
  for (std::int64_t out = 0; out < 4; ++out)
    for (std::int64_t in = 0; in < 3; ++in)
      for (std::int64_t row = 0; row < 2; ++row)
        CHECK(kernel.at<float>(row, 0, in, out) == held.at<float>(out, in, row, 0));
  save_weights(state, saved.path(), map);
  CHECK(to_string(TensorFile(saved.path())["weight"]) == to_string(held));
  write_safetensors(file.path(), {{"weight", counted({3, 4, 2, 1})}});
  CHECK(error_of([&] { load_weights(state, file.path(), map); }) ==
        "weight map: parameter \"conv.kernel\": is f32[2, 1, 3, 4], but tensor \"weight\" of "
        "convolution.safetensors is f32[3, 4, 2, 1], which is [out, in, rows, columns]");
  map[0].transposed = true;
  CHECK(error_of([&] { load_weights(state, file.path(), map); }) ==
        "weight map: parameter \"conv.kernel\": is f32[2, 1, 3, 4]; only a whole tensor of four "
        "dimensions is PyTorch's kernel of a convolution");
}

TEST_CASE("parameters that do not fill the tensor they share are told") {
  const TemporaryFile file("unfilled.safetensors", "");
  write_safetensors(file.path(), {{"w", counted({3, 7})}, {"b", counted({6})}});
  TrainState state = two_heads(1).init(1);
  const auto error = [&](const WeightMap& map) {
    return error_of([&] { load_weights(state, file.path(), map); });
  };
  CHECK(
      error(halves("w", false, 0, 2)) ==
      "weight map: parameter \"dense1.kernel\": is the last part of tensor \"w\" and ends at 6 in "
      "dimension 1, but unfilled.safetensors has f32[3, 7]");
  const std::string gap =
      "weight map: parameter \"dense1.kernel\": begins at 3 of tensor \"w\" in dimension 1, but "
      "the "
      "part before it ends at 2";
  CHECK(error(halves("w", false, 0, 3)) == gap);
  CHECK(error_of([&] { save_weights(state, "never", halves("w", false, 0, 3)); }) == gap);
  CHECK(error(halves("b", false, 0, 2)) ==
        "weight map: parameter \"dense0.kernel\": is f32[3, 2], but tensor \"b\" of "
        "unfilled.safetensors is f32[6], of which it is a part in dimension 1");
  CHECK(error({{.parameter = "dense0.kernel", .tensors = {"w", "b"}, .start = 0}}) ==
        "weight map: parameter \"dense0.kernel\": is a part of 2 tensors; it must be of one");
  WeightMap mixed = halves("w", false, 0, 2);
  mixed[1].parameter = "dense0.bias";
  CHECK(
      error_of([&] { save_weights(state, "never", mixed); }) ==
      "weight map: parameter \"dense0.bias\": is f32[2] and does not fit beside the part of tensor "
      "\"w\" before it, f32[3, 2]");
}

TEST_CASE("floating tensors are converted to the parameter's type") {
  const TemporaryFile file("converted.safetensors", "");
  write_safetensors(file.path(), {{"w", counted({6, 2}).cast(f16)}});
  TrainState state = executable(1, bf16).init(1);
  load_weights(state, file.path(), {{"dense1.kernel", {"w"}}});
  CHECK(to_string(state["dense1.kernel"].to_host()) == to_string(counted({6, 2}).cast(bf16)));
}

TEST_CASE("maps that do not fit change nothing and say why") {
  const TemporaryFile file("misfit.safetensors", "");
  write_safetensors(
      file.path(),
      {{"w", counted({6, 3})}, {"short", counted({2})}, {"ids", counted({6, 2}).cast(i32)}});
  TrainState state = executable(1).init(1);
  const std::string before = to_string(state["dense0.kernel"].to_host());
  const auto error = [&](WeightName bad) {
    const WeightMap map = {{"dense0.kernel", {"w"}, true}, std::move(bad)};
    return error_of([&] { load_weights(state, file.path(), map); });
  };
  CHECK(error({"dense1.kernel", {"w"}}) ==
        "weight map: parameter \"dense1.kernel\": is f32[6, 2], but tensor \"w\" of "
        "misfit.safetensors is f32[6, 3]");
  CHECK(error({"dense1.kernel", {"ids"}}) ==
        "weight map: parameter \"dense1.kernel\": is f32[6, 2], but tensor \"ids\" of "
        "misfit.safetensors is i32[6, 2]");
  CHECK(error({"dense0.bias", {"short", "short"}}) ==
        "weight map: parameter \"dense0.bias\": is f32[6], but its tensors in misfit.safetensors "
        "have extent 4 together in dimension 0");
  CHECK(error({"dense0.bias", {"short"}, true}) ==
        "weight map: parameter \"dense0.bias\": is f32[6]; only tensors of two dimensions or more "
        "can be transposed");
  CHECK(error({"dense0.bias", {}}) ==
        "weight map: parameter \"dense0.bias\": names no tensor of the file");
  CHECK(error({"dense0.bias", {"none"}}) ==
        "misfit.safetensors: has no tensor \"none\"; it has \"ids\", \"short\", \"w\"");
  CHECK(to_string(state["dense0.kernel"].to_host()) == before);
  const auto save_error = [&](const WeightMap& map) {
    return error_of([&] { save_weights(state, "never.safetensors", map); });
  };
  CHECK(save_error({{"dense0.bias", {"a", "b", "c", "d"}}}) ==
        "weight map: parameter \"dense0.bias\": is f32[6]; 4 equal tensors don't divide dimension "
        "0, so give their extents");
  CHECK(save_error({{.parameter = "dense0.bias", .tensors = {"a", "b"}, .extents = {1, 2}}}) ==
        "weight map: parameter \"dense0.bias\": is f32[6]; the extents of its 2 tensors must add "
        "up to 6");
  CHECK(save_error({{"dense0.bias", {"a"}}, {"dense1.kernel", {"a"}}}) ==
        "weight map: tensor \"a\" is written twice");
}

TEST_CASE("a saved model evaluates as before: running means and variances are saved, too") {
  const auto trained = [](std::uint64_t seed) {
    const nn::Sequential model{nn::Dense(4), nn::BatchNorm(), nn::Dense(2)};
    const auto loss = [=](const Batch& b) { return mean(square(model(b["x"]))); };
    const std::vector<BatchInput> inputs{{"x", {f64, {6, 3}}}};
    auto steps = parallelize(training_step(inputs, loss, optim::Adam{}, {.ema = 0.9}),
                             evaluation_step(inputs, loss), DataParallel{}, Cluster::local(2));
    return std::pair(steps, steps[0].init(seed));
  };
  const BatchData batch{{"x", linear_dataset(6, 3, 1).x.cast(f64)}};
  const TemporaryFile file("batch_norm.safetensors", "");
  auto [saved, state] = trained(1);
  for (int i = 0; i < 3; ++i) saved[0].run(state, batch);
  save_weights(state, file.path());
  CHECK(TensorFile(file.path()).names() ==
        std::vector<std::string>{"0.bias", "0.kernel", "1.bias", "1.mean", "1.scale", "1.variance",
                                 "2.bias", "2.kernel"});
  auto [loaded, fresh] = trained(2);
  const double expected = saved[1].run(state, batch).loss();
  CHECK(loaded[1].run(fresh, batch).loss() != expected);
  load_weights(fresh, file.path());
  CHECK(loaded[1].run(fresh, batch).loss() == expected);
}

}  // namespace weights_test
