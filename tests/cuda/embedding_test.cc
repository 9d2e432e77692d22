// What the case table does not show of lookups and layer normalisation on CUDA.
#include <cmath>

#include "device_run.h"
#include "src/ops/all_ops.h"
#include "support/error_text.h"

namespace alpa::embedding_test {
namespace {

using namespace testing;

HostTensor ids_of(const std::vector<int>& ids) {
  HostTensor tensor({i32, {static_cast<std::int64_t>(ids.size())}});
  for (std::size_t i = 0; i < ids.size(); ++i) tensor.put(static_cast<std::int64_t>(i), ids[i]);
  return tensor;
}

/// Rows [2, 5) of a table of 7 rows.
HostTensor part_of_table() {
  HostTensor part = random_tensor({f32, {3, 4}}, 1);
  part.offset = {2, 0}, part.global_shape = {7, 4};
  return part;
}

TEST_CASE("an id without a row gives NaN, one of another device's rows gives zeros") {
  if (no_device()) return;
  const HostTensor table = part_of_table();
  const HostTensor y = run_on_device(ops::embedding, {table, ids_of({3, 0, 7, -1, 6})},
                                     {HostTensor({f32, {5, 4}})}, {})[0];
  for (int c = 0; c < 4; ++c) {
    CHECK(y.get(c) == table.get(4 + c));
    CHECK(y.get(4 + c) == 0);
    CHECK(std::isnan(y.get(8 + c)));
    CHECK(std::isnan(y.get(12 + c)));
    CHECK(y.get(16 + c) == 0);
  }
}

TEST_CASE(
    "the gradient of a part of a table adds up its rows alone and leaves out ids without a row") {
  if (no_device()) return;
  const HostTensor dy = random_tensor({f32, {6, 4}}, 2);
  const HostTensor dtable = run_on_device(ops::embedding_grad, {dy, ids_of({3, 0, 7, -1, 3, 2})},
                                          {part_of_table()}, {})[0];
  for (int c = 0; c < 4; ++c) {
    CHECK(dtable.get(c) == dy.get(20 + c));
    CHECK(dtable.get(4 + c) == static_cast<float>(dy.get(c) + dy.get(16 + c)));
    CHECK(dtable.get(8 + c) == 0);
  }
}

TEST_CASE(
    "gradients that sum many rows have the same bits in every run, whichever ids are frequent") {
  if (no_device()) return;
  std::vector<int> ids;
  // a third of them equal
  for (int t = 0; t < 3000; ++t) ids.push_back(t % 3 == 0 ? 4 : t * 7919 % 50);
  const HostTensor dy = random_tensor({bf16, {3000, 24}}, 3), where = ids_of(ids);
  const auto run = [&] {
    return run_on_device(ops::embedding_grad, {dy, where}, {HostTensor({bf16, {50, 24}})}, {})[0];
  };
  const HostTensor first = run();
  CHECK(run() == first);
  const HostTensor expected =
      run_kernel(*ops::embedding_grad.cpu, {dy, where}, {HostTensor({bf16, {50, 24}})})[0];
  CHECK(first == expected);  // both add in the order of the ids, in double

  const HostTensor x = random_tensor({f32, {300, 40}}, 4), scale = random_tensor({f32, {40}}, 5);
  const HostTensor mean = random_tensor({f32, {300}}, 6),
                   rstd = random_tensor({f32, {300}}, 7, 0.5, 1.5);
  const auto sums = [&] {
    return run_on_device(
        ops::layer_norm_grad, {x, x, scale, mean, rstd},
        {HostTensor({f32, {300, 40}}), HostTensor({f32, {40}}), HostTensor({f32, {40}})}, {});
  };
  CHECK(sums() == sums());
  const HostTensor y = random_tensor({bf16, {3000, 24}}, 8);
  const auto products = [&] {
    return run_on_device(ops::channel_products, {dy, y},
                         {HostTensor({f32, {24}}), HostTensor({f32, {24}})}, {});
  };
  CHECK(products() == products());
}

TEST_CASE("a device that holds no row of a batch has gradients of zero") {
  if (no_device()) return;
  const std::vector<HostTensor> sums = run_on_device(
      ops::layer_norm_grad,
      {HostTensor({f32, {0, 5}}), HostTensor({f32, {0, 5}}), random_tensor({f32, {5}}, 1),
       HostTensor({f32, {0}}), HostTensor({f32, {0}})},
      {HostTensor({f32, {0, 5}}), HostTensor({f32, {5}}), HostTensor({f32, {5}})}, {});
  for (int i = 0; i < 5; ++i) CHECK((sums[1].get(i) == 0 && sums[2].get(i) == 0));
  const std::vector<HostTensor> channels =
      run_on_device(ops::channel_sums, {HostTensor({bf16, {0, 3, 8}})},
                    {HostTensor({f32, {8}}), HostTensor({f32, {8}})}, {});
  for (int i = 0; i < 8; ++i) CHECK((channels[0].get(i) == 0 && channels[1].get(i) == 0));
  const HostTensor dtable =
      run_on_device(ops::embedding_grad, {HostTensor({f32, {0, 4}}), HostTensor({i32, {0}})},
                    {part_of_table()}, {})[0];
  for (int i = 0; i < 12; ++i) CHECK(dtable.get(i) == 0);
}

TEST_CASE("statistics keep their digits where the mean is large: squared differences are summed") {
  if (no_device()) return;
  HostTensor x({f32, {1, 1024}}), scale({f32, {1024}}), bias({f32, {1024}});
  for (int i = 0; i < 1024; ++i) x.put(i, 4096 + (i % 2)), scale.put(i, 1);
  const std::vector<HostTensor> results =
      run_on_device(ops::layer_norm, {x, scale, bias},
                    {HostTensor({f32, {1, 1024}}), HostTensor({f32, {1}}), HostTensor({f32, {1}})},
                    {.attributes = {{"epsilon", 1e-12}}});
  CHECK(results[1].get(0) == 4096.5);
  CHECK(results[2].get(0) == doctest::Approx(2).epsilon(1e-6));
}

TEST_CASE("more ids than can be numbered are an error that says so") {
  KernelCall call;
  const std::int64_t ids = std::int64_t{1} << 32;
  call.inputs = {{.type = {f32, {ids, 4}}, .offset = {0, 0}, .global_shape = {ids, 4}},
                 {.type = {i32, {ids}}, .offset = {0}, .global_shape = {ids}}};
  call.outputs = {{.type = {f32, {3, 4}}, .offset = {0, 0}, .global_shape = {3, 4}}};
  CHECK(error_of([&] { cuda::find_kernel(ops::embedding_grad)(ops::embedding_grad, call, {}); }) ==
        "embedding_grad: the CUDA kernel takes at most 4294967295 ids, not 4294967296; split the "
        "batch");
}

}  // namespace
}  // namespace alpa::embedding_test
