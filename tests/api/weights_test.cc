// Parameters to and from safetensors files: names, transposition, joined tensors.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "support/error_text.h"
#include "support/temporary_file.h"

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
