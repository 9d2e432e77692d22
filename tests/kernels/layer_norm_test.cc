// Layer normalisation and lookups on the CPU, beyond the case table: threads,
// instruction sets, digits.
#include <doctest/doctest.h>

#include "kernel_call.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "support/error_text.h"

namespace alpa::layer_norm_test {
namespace {

using namespace testing;

constexpr std::int64_t kRows = 300, kWidth = 517;

std::vector<HostTensor> normalised(int threads) {
  return run_kernel(
      cpu::layer_norm,
      {random_tensor({f32, {kRows, kWidth}}, 1), random_tensor({f32, {kWidth}}, 2),
       random_tensor({f32, {kWidth}}, 3)},
      {HostTensor({f32, {kRows, kWidth}}), HostTensor({f32, {kRows}}), HostTensor({f32, {kRows}})},
      {.attributes = {{"epsilon", 1e-5}}, .threads = threads});
}

std::vector<HostTensor> gradients(int threads) {
  const HostTensor x = random_tensor({f32, {kRows, kWidth}}, 1),
                   dy = random_tensor({f32, {kRows, kWidth}}, 4);
  return run_kernel(cpu::layer_norm_grad,
                    {dy, x, random_tensor({f32, {kWidth}}, 2), random_tensor({f32, {kRows}}, 5),
                     random_tensor({f32, {kRows}}, 6, 0.5, 1.5)},
                    {HostTensor({f32, {kRows, kWidth}}), HostTensor({f32, {kWidth}}),
                     HostTensor({f32, {kWidth}})},
                    {.threads = threads});
}

std::vector<HostTensor> summed(int threads) {
  HostTensor ids({i32, {1000}});
  for (int t = 0; t < 1000; ++t) ids.put(t, t * 37 % 13);
  return run_kernel(cpu::embedding_grad, {random_tensor({bf16, {1000, 70}}, 7), ids},
                    {HostTensor({bf16, {13, 70}})}, {.threads = threads});
}

std::vector<HostTensor> of_channels(int threads) {
  return run_kernel(
      cpu::channel_products,
      {random_tensor({bf16, {kRows, kWidth}}, 8), random_tensor({bf16, {kRows, kWidth}}, 9)},
      {HostTensor({f32, {kWidth}}), HostTensor({f32, {kWidth}})}, {.threads = threads});
}

double difference(const HostTensor& a, const HostTensor& b) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < b.type.elements(); ++i) values.push_back(b.get(i));
  return testing::difference(a, values);
}

TEST_CASE(
    "layer norm, its gradient, an embedding's and sums of channels have the same bits for any "
    "number of threads") {
  for (const auto& run : {normalised, gradients, summed, of_channels}) {
    const std::vector<HostTensor> one = run(1);
    CHECK(run(2) == one);
    CHECK(run(5) == one);
  }
}

TEST_CASE("every instruction set gives the same to rounding") {
  const std::string best = cpu::isa().name;
  const std::vector<HostTensor> y = normalised(1), d = gradients(1);
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    if (!cpu::select_isa(name)) continue;
    CAPTURE(std::string(name));
    const std::vector<HostTensor> other_y = normalised(1), other_d = gradients(1);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(difference(other_y[i], y[i]) < 1e-6);
      CHECK(difference(other_d[i], d[i]) < 1e-6);
    }
  }
  CHECK(cpu::select_isa(best));
}

TEST_CASE("statistics keep their digits where the mean is large: squared differences are summed") {
  HostTensor x({f32, {1, 1024}}), scale({f32, {1024}}), bias({f32, {1024}});
  for (int i = 0; i < 1024; ++i) x.put(i, 4096 + (i % 2)), scale.put(i, 1);
  const std::vector<HostTensor> results =
      run_kernel(cpu::layer_norm, {x, scale, bias},
                 {HostTensor({f32, {1, 1024}}), HostTensor({f32, {1}}), HostTensor({f32, {1}})},
                 {.attributes = {{"epsilon", 1e-12}}});
  CHECK(results[1].get(0) == 4096.5);
  CHECK(results[2].get(0) == 2);
}

TEST_CASE("an id of another device's rows gives zeros, one of no row is an error") {
  HostTensor table = random_tensor({f32, {3, 4}}, 1), ids({i32, {3}});  // rows [2, 5) of 7
  table.offset = {2, 0}, table.global_shape = {7, 4};
  ids.put(0, 3), ids.put(1, 6), ids.put(2, 0);
  const HostTensor y = run_kernel(cpu::embedding, {table, ids}, {HostTensor({f32, {3, 4}})})[0];
  for (int c = 0; c < 4; ++c) {
    CHECK(y.get(c) == table.get(4 + c));
    CHECK((y.get(4 + c) == 0 && y.get(8 + c) == 0));
  }
  for (const int id : {7, -1}) {
    ids.put(1, id);
    const std::string expected =
        fmt::format("id {} is outside of the table's rows 0 to 6; give ids of rows that exist", id);
    CHECK(error_of([&] {
            run_kernel(cpu::embedding, {table, ids}, {HostTensor({f32, {3, 4}})});
          }) == expected);
    CHECK(error_of([&] { run_kernel(cpu::embedding_grad, {y, ids}, {table}); }) == expected);
  }
}

}  // namespace
}  // namespace alpa::layer_norm_test
