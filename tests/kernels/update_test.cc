#include <doctest/doctest.h>

#include <cmath>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::update_test {
namespace {

using namespace testing;

HostTensor scalar(DType dtype, double value) {
  HostTensor t({dtype, {}});
  t.put(0, value);
  return t;
}

struct Expected {
  std::vector<double> w, m, v;
};

/// Adam as printed in Kingma & Ba, algorithm 1, with decay.
Expected adam(const std::vector<HostTensor>& in, bool decoupled, double decay) {
  Expected e;
  const double rate = in[4].get(0), step = in[5].get(0);
  for (std::int64_t i = 0; i < in[0].type.elements(); ++i) {
    const double w = in[0].get(i), g = in[3].get(i) + (decoupled ? 0 : decay * w);
    const double m = 0.9 * in[1].get(i) + 0.1 * g, v = 0.99 * in[2].get(i) + 0.01 * g * g;
    const double m_hat = m / (1 - std::pow(0.9, step)), v_hat = v / (1 - std::pow(0.99, step));
    e.w.push_back(w - rate * m_hat / (std::sqrt(v_hat) + 1e-3) -
                  (decoupled ? rate * decay * w : 0));
    e.m.push_back(m);
    e.v.push_back(v);
  }
  return e;
}

TEST_CASE(
    "multi_tensor_adam is Adam and AdamW, for every type, length and number of threads, in place "
    "too") {
  unsigned seed = 0;
  for (DType dtype : {f32, bf16, f16, f64})
    for (std::int64_t n : {0, 1, 15, 64, 1000, 40000})
      for (std::int64_t decoupled : {0, 1}) {
        std::vector<HostTensor> in;
        for (int i = 0; i < 4; ++i)
          in.push_back(random_tensor({dtype, {n}}, ++seed, i == 2 ? 0.1 : -2));
        in.push_back(scalar(f32, 0.125));
        in.push_back(scalar(i32, 3));
        const Attributes attributes{{"beta1", 0.9},
                                    {"beta2", 0.99},
                                    {"epsilon", 1e-3},
                                    {"weight_decay", 0.25},
                                    {"decoupled", decoupled}};
        const std::vector<HostTensor> out(3, HostTensor({dtype, {n}}));
        const Expected e = adam(in, decoupled == 1, 0.25);
        const auto got = run_kernel(cpu::multi_tensor_adam, in, out, {.attributes = attributes});
        CHECK(difference(got[0], e.w) <= 4 * epsilon(dtype));
        CHECK(difference(got[1], e.m) <= 4 * epsilon(dtype));
        CHECK(difference(got[2], e.v) <= 4 * epsilon(dtype));
        for (int threads : {2, 3})
          CHECK(got == run_kernel(cpu::multi_tensor_adam, in, out,
                                  {.attributes = attributes,
                                   .threads = threads,
                                   .in_place = {{0, 0}, {1, 1}, {2, 2}}}));
      }
}

TEST_CASE("multi_tensor_sgd is gradient descent with momentum, plain or Nesterov") {
  for (DType dtype : {f32, bf16, f64})
    for (std::int64_t nesterov : {0, 1}) {
      const std::vector<HostTensor> in{random_tensor({dtype, {70, 31}}, 1),
                                       random_tensor({dtype, {70, 31}}, 2),
                                       random_tensor({dtype, {70, 31}}, 3), scalar(f32, 0.125)};
      std::vector<double> w, u;
      for (std::int64_t i = 0; i < 70 * 31; ++i) {
        const double g = in[2].get(i) + 0.5 * in[0].get(i);
        u.push_back(0.75 * in[1].get(i) + g);
        w.push_back(in[0].get(i) - 0.125 * (nesterov ? g + 0.75 * u.back() : u.back()));
      }
      const std::vector<HostTensor> out(2, HostTensor({dtype, {70, 31}}));
      const Attributes attributes{
          {"momentum", 0.75}, {"weight_decay", 0.5}, {"nesterov", nesterov}};
      const auto got = run_kernel(cpu::multi_tensor_sgd, in, out, {.attributes = attributes});
      CHECK(difference(got[0], w) <= 4 * epsilon(dtype));
      CHECK(difference(got[1], u) <= 4 * epsilon(dtype));
      CHECK(got ==
            run_kernel(cpu::multi_tensor_sgd, in, out,
                       {.attributes = attributes, .threads = 2, .in_place = {{0, 0}, {1, 1}}}));
    }
}

TEST_CASE("multi_tensor_add is a conversion and a sum, bit for bit, in place too") {
  for (const DType dtype : {f32, bf16, f16})
    for (const std::int64_t n : {0, 1, 15, 64, 40000}) {
      const std::vector<HostTensor> in = {
          random_tensor({f32, {n}}, 1), random_tensor({f32, {7}}, 2),
          random_tensor({dtype, {n}}, 3), random_tensor({dtype, {7}}, 4)};
      const auto got = run_kernel(cpu::multi_tensor_add, in, {in[0], in[1]}, {});
      for (int member : {0, 1})
        for (std::int64_t i = 0; i < in[member].type.elements(); ++i)
          CHECK(got[member].get(i) ==
                static_cast<float>(in[member].get(i)) + static_cast<float>(in[member + 2].get(i)));
    }
}

}  // namespace
}  // namespace alpa::update_test
