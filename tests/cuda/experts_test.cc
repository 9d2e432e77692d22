// What the case table does not show of tokens and experts on CUDA.
#include <cmath>

#include "device_run.h"
#include "src/ops/all_ops.h"
#include "support/error_text.h"

namespace alpa::experts_test {
namespace {

using namespace testing;

HostTensor places_of(const Shape& shape, const std::vector<int>& places) {
  HostTensor tensor({i32, shape});
  for (std::size_t i = 0; i < places.size(); ++i)
    tensor.put(static_cast<std::int64_t>(i), places[i]);
  return tensor;
}

/// Experts 1 and 2 of 4, with 2 places each and tokens of 8 elements.
HostTensor part_of_experts() {
  HostTensor part = random_tensor({f32, {2, 1, 2, 8}}, 1);
  part.offset = {1, 0, 0, 0}, part.global_shape = {4, 1, 2, 8};
  return part;
}

const Attributes kSizes{{"experts", std::int64_t{4}}, {"capacity", std::int64_t{2}}};

TEST_CASE("a device fills the places of its own experts, whoever asks for others or for none") {
  if (no_device()) return;
  const HostTensor x = random_tensor({f32, {1, 5, 8}}, 2);
  const HostTensor y = run_on_device(ops::dispatch, {x, places_of({1, 5, 1}, {3, 0, 8, -1, 4})},
                                     {part_of_experts()}, {.attributes = kSizes})[0];
  for (int m = 0; m < 8; ++m) {
    CHECK((y.get(m) == 0 && y.get(24 + m) == 0));
    CHECK(y.get(8 + m) == x.get(m));
    CHECK(y.get(16 + m) == x.get(32 + m));
  }
}

TEST_CASE("a place that no expert has gives NaN on the way back, another device's expert nothing") {
  if (no_device()) return;
  const HostTensor results = part_of_experts(), x = random_tensor({f32, {1, 5, 8}}, 3),
                   places = places_of({1, 5, 1}, {3, 0, 8, -1, 4});
  HostTensor ones({f32, {1, 5, 1}});
  for (int s = 0; s < 5; ++s) ones.put(s, 1);
  const HostTensor y =
      run_on_device(ops::combine, {results, places, ones}, {HostTensor({f32, {1, 5, 8}})}, {})[0];
  const HostTensor products = run_on_device(ops::expert_products, {x, places, results},
                                            {HostTensor({f32, {1, 5, 1}})}, {})[0];
  for (int m = 0; m < 8; ++m) {
    CHECK(y.get(m) == results.get(8 + m));
    CHECK((y.get(8 + m) == 0 && std::isnan(y.get(16 + m)) && y.get(24 + m) == 0));
    CHECK(y.get(32 + m) == results.get(16 + m));
  }
  CHECK((products.get(1) == 0 && std::isnan(products.get(2)) && products.get(3) == 0));
}

TEST_CASE("tokens that share places are added in the same order in every run") {
  if (no_device()) return;
  const HostTensor x = random_tensor({f32, {1, 900, 8}}, 4);
  std::vector<int> places;
  for (int s = 0; s < 900; ++s) places.push_back(s * 7919 % 50);
  const auto run = [&] {
    return run_on_device(
        ops::dispatch, {x, places_of({1, 900, 1}, places)}, {HostTensor({f32, {25, 1, 2, 8}})},
        {.attributes = {{"experts", std::int64_t{25}}, {"capacity", std::int64_t{2}}}})[0];
  };
  const HostTensor first = run();
  CHECK(run() == first);
  for (int m = 0; m < 8; ++m) {
    float sum = 0;
    for (int s = 0; s < 900; ++s)
      if (places[s] == 7) sum += static_cast<float>(x.get(s * 8 + m));
    CHECK(first.get(7 * 8 + m) == sum);
  }
}

TEST_CASE("a device without tokens fills places with zeros, one without experts adds nothing") {
  if (no_device()) return;
  const HostTensor y =
      run_on_device(ops::dispatch, {HostTensor({f32, {1, 0, 8}}), HostTensor({i32, {1, 0, 2}})},
                    {part_of_experts()}, {.attributes = kSizes})[0];
  for (int i = 0; i < 32; ++i) CHECK(y.get(i) == 0);
  HostTensor none({f32, {0, 1, 2, 8}});
  none.offset = {4, 0, 0, 0}, none.global_shape = {4, 1, 2, 8};
  const HostTensor sums = run_on_device(ops::combine, {none, places_of({1, 2, 1}, {3, 0})},
                                        {HostTensor({f32, {1, 2, 8}})}, {})[0];
  for (int i = 0; i < 16; ++i) CHECK(sums.get(i) == 0);
}

TEST_CASE("more choices of a group than can be numbered are an error that says so") {
  KernelCall call;
  const std::int64_t tokens = std::int64_t{1} << 31;
  const Shape x{1, tokens, 8}, chosen{1, tokens, 2}, held{4, 1, 2, 8}, three(3), four(4);
  call.inputs = {{.type = {f32, x}, .offset = three, .global_shape = x},
                 {.type = {i32, chosen}, .offset = three, .global_shape = chosen}};
  call.outputs = {{.type = {f32, held}, .offset = four, .global_shape = held}};
  CHECK(error_of([&] { cuda::find_kernel(ops::dispatch)(ops::dispatch, call, {}); }) ==
        "dispatch: the CUDA kernel takes at most 2147483647 choices of a group, not 4294967296; "
        "use smaller groups");
}

}  // namespace
}  // namespace alpa::experts_test
