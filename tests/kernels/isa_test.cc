// Every instruction set this processor has: the same results within the accuracy of the
// polynomials, random numbers bit by bit.
#include "kernels/cpu/isa.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"
#include "src/base/philox.h"
#include "src/base/thread_team.h"

namespace alpa::isa_test {
namespace {

using namespace testing;

/// Runs `check` under every instruction set, then goes back to the best one.
template <class Check>
void for_each_isa(const Check& check) {
  const std::string best = cpu::isa().name;
  for (const char* name : {"baseline", "avx2", "avx512"})
    if (cpu::select_isa(name)) {
      CAPTURE(std::string(name));
      check();
    }
  CHECK(cpu::select_isa(best));
}

HostTensor floats(const std::vector<float>& values) {
  HostTensor x({f32, {static_cast<std::int64_t>(values.size())}});
  for (std::size_t i = 0; i < values.size(); ++i)
    x.put_raw(static_cast<std::int64_t>(i), values[i]);
  return x;
}

/// Distance in units in the last place of the float nearest to `exact`.
double ulps(float got, double exact) {
  const float nearest = static_cast<float>(exact);
  if (std::isnan(got) || std::isnan(exact))
    return std::isnan(got) && std::isnan(exact) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0 : INFINITY;
  const float next = std::nextafter(std::fabs(nearest), INFINITY);
  return std::fabs(got - exact) /
         std::max<double>(next - std::fabs(nearest), std::numeric_limits<float>::denorm_min());
}

struct Function {
  const char* name;
  const KernelDef* kernel;
  double (*exact)(double);
  double max_ulps;
};
const Function kFunctions[] = {
    {"exp", &cpu::elementwise<ElementwiseOp::exp>, [](double x) { return std::exp(x); }, 1.5},
    {"log", &cpu::elementwise<ElementwiseOp::log>, [](double x) { return std::log(x); }, 1.5},
    {"tanh", &cpu::elementwise<ElementwiseOp::tanh>, [](double x) { return std::tanh(x); }, 2.5},
    {"sigmoid", &cpu::elementwise<ElementwiseOp::sigmoid>,
     [](double x) { return x > 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }, 3},
    {"sin", &cpu::elementwise<ElementwiseOp::sin>, [](double x) { return std::sin(x); }, 1},
    {"cos", &cpu::elementwise<ElementwiseOp::cos>, [](double x) { return std::cos(x); }, 1},
    {"floor", &cpu::elementwise<ElementwiseOp::floor>, [](double x) { return std::floor(x); }, 0},
    {"erf", &cpu::elementwise<ElementwiseOp::erf>, [](double x) { return std::erf(x); }, 1.5},
    {"sqrt", &cpu::elementwise<ElementwiseOp::sqrt>, [](double x) { return std::sqrt(x); }, 0.51},
    {"rsqrt", &cpu::elementwise<ElementwiseOp::rsqrt>, [](double x) { return 1 / std::sqrt(x); },
     1.5}};

TEST_CASE(
    "exp, log, tanh, sigmoid, sin, cos, floor, erf and roots are within a few ulp over all floats, "
    "infinities, NaN and subnormals") {
  std::vector<float> values{0.0f,    -0.0f,  INFINITY, -INFINITY, NAN,     1e-45f,
                            -1e-45f, 88.72f, 88.73f,   -87.34f,   -103.9f, -104.1f};
  for (std::uint64_t bits = 1; bits < 0x100000000ull; bits += 20011)
    values.push_back(half::float_of(static_cast<std::uint32_t>(bits)));
  for (int i = -20000; i < 20000; ++i) values.push_back(static_cast<float>(i) * 0.0051f);
  const HostTensor x = floats(values);
  for_each_isa([&] {
    for (const Function& f : kFunctions) {
      const auto y = run_kernel(*f.kernel, {x}, {HostTensor(x.type)})[0];
      double worst = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double u = ulps(y.raw<float>(static_cast<std::int64_t>(i)), f.exact(values[i]));
        if (u > worst) worst = u;
      }
      CAPTURE(std::string(f.name));
      CHECK(worst <= f.max_ulps);
    }
  });
}

TEST_CASE("comparisons, max, min and relu treat NaN as IEEE does") {
  const HostTensor x = floats({NAN, 1, NAN, 2}), y = floats({1, NAN, NAN, 1});
  const auto run = [&](const KernelDef& kernel, DType out) {
    return run_kernel(kernel, {x, y}, {HostTensor({out, {4}})})[0];
  };
  for_each_isa([&] {
    CHECK(difference(run(cpu::elementwise<ElementwiseOp::max>, f32), {NAN, NAN, NAN, 2}) == 0);
    CHECK(difference(run(cpu::elementwise<ElementwiseOp::min>, f32), {NAN, NAN, NAN, 1}) == 0);
    CHECK(difference(run(cpu::elementwise<ElementwiseOp::eq>, u8), {0, 0, 0, 0}) == 0);
    CHECK(difference(run(cpu::elementwise<ElementwiseOp::ne>, u8), {1, 1, 1, 1}) == 0);
    CHECK(difference(run(cpu::elementwise<ElementwiseOp::ge>, u8), {0, 0, 0, 1}) == 0);
    const auto relu =
        run_kernel(cpu::elementwise<ElementwiseOp::relu>, {x}, {HostTensor({f32, {4}})})[0];
    CHECK(difference(relu, {NAN, 1, NAN, 2}) == 0);
  });
}

TEST_CASE(
    "casts round to nearest even, or towards zero and saturated, as static_cast where that is "
    "defined") {
  const std::vector<float> values{0.5f, -0.5f, 1.9f, -1.9f,    255.9f,  300,     -3,
                                  3e9f, -3e9f, NAN,  INFINITY, 8388609, 16777216};
  for_each_isa([&] {
    const auto to = [&](DType dtype) {
      return run_kernel(cpu::cast, {floats(values)}, {HostTensor({dtype, {13}})})[0];
    };
    const double top = std::numeric_limits<std::int32_t>::max();
    CHECK(difference(to(i32),
                     {0, 0, 1, -1, 255, 300, -3, top, -top - 1, 0, top, 8388609, 16777216}) == 0);
    CHECK(difference(to(u8), {0, 0, 1, 0, 255, 255, 0, 255, 0, 0, 255, 255, 255}) == 0);
    for (DType dtype : {bf16, f16}) {
      HostTensor expected({dtype, {13}});
      for (int i = 0; i < 13; ++i) expected.put(i, values[static_cast<std::size_t>(i)]);
      const auto got = to(dtype);
      for (int i = 0; i < 13; ++i)
        CHECK((got.raw<std::uint16_t>(i) == expected.raw<std::uint16_t>(i) ||
               std::isnan(expected.get(i))));
    }
  });
}

/// All bit patterns of a two-byte type.
HostTensor all_patterns(DType dtype) {
  HostTensor x({dtype, {65536}});
  for (std::int64_t i = 0; i < 65536; ++i) x.put_raw(i, static_cast<std::uint16_t>(i));
  return x;
}

TEST_CASE(
    "the vector conversions of bf16 and f16 agree with those of alpa/base/half.h for all 65,536 "
    "values") {
  for_each_isa([&] {
    for (DType dtype : {bf16, f16}) {
      const HostTensor x = all_patterns(dtype);
      const auto wide = run_kernel(cpu::cast, {x}, {HostTensor({f32, {65536}})})[0];
      const auto back = run_kernel(cpu::cast, {wide}, {HostTensor({dtype, {65536}})})[0];
      int wrong = 0;
      for (std::int64_t i = 0; i < 65536; ++i) {
        wrong += std::isnan(x.get(i)) ? !std::isnan(wide.get(i)) : wide.get(i) != x.get(i);
        wrong += !std::isnan(x.get(i)) && back.raw<std::uint16_t>(i) != x.raw<std::uint16_t>(i);
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("reductions and updates give the same on every instruction set") {
  const HostTensor x = random_tensor({f32, {37, 501}}, 1), g = random_tensor({f32, {37, 501}}, 2);
  const auto sum = [&](std::int64_t axis) {
    return run_kernel(cpu::reduce<ReduceOp::sum>, {x}, {HostTensor({f32, {axis == 0 ? 501 : 37}})},
                      {.attributes = {{"axes", std::vector<std::int64_t>{axis}}}})[0];
  };
  HostTensor rate({f32, {}});
  rate.put(0, 0.5);
  const auto update = [&] {
    return run_kernel(
        cpu::multi_tensor_sgd, {x, g, g, rate}, {HostTensor(x.type), HostTensor(x.type)},
        {.attributes = {
             {"momentum", 0.5}, {"weight_decay", 0.0}, {"nesterov", std::int64_t{0}}}})[0];
  };
  const auto values = [](const HostTensor& t) {
    std::vector<double> v;
    for (std::int64_t i = 0; i < t.type.elements(); ++i) v.push_back(t.get(i));
    return v;
  };
  const auto rows = values(sum(1)), columns = values(sum(0)), updated = values(update());
  for_each_isa([&] {
    CHECK(difference(sum(1), rows) <= epsilon(f32));
    CHECK(difference(sum(0), columns) <= epsilon(f32));
    CHECK(difference(update(), updated) <= 2 * epsilon(f32));
  });
}

TEST_CASE("random numbers are the same bits on every instruction set, those of src/base/philox.h") {
  const Attributes attributes{{"stream", std::int64_t{3}}, {"a", 0.0}, {"b", 1.0}};
  const StepContext step{.seed = 5, .step = 2, .micro_batch = 1};
  const RandomStream stream = random_stream(5, 3, 2, 1);
  HostTensor normal({f64, {4001}}), uniform({f64, {4001}});
  for (std::int64_t i = 0; i < 4001; ++i) {
    const Philox4 words = random_words(stream, static_cast<std::uint64_t>(i / 4));
    const auto unit = [&](std::int64_t word) { return unit_interval<double>(words.word[word]); };
    double pair[2];
    normal_pair(unit(i % 4 & 2), unit((i % 4 & 2) + 1), pair[0], pair[1]);
    normal.put(i, pair[i % 2]);
    uniform.put(i, unit(i % 4));
  }
  for_each_isa([&] {
    CHECK(run_kernel(cpu::random_normal, {}, {HostTensor(normal.type)},
                     {.attributes = attributes, .step = step})[0] == normal);
    CHECK(run_kernel(cpu::random_uniform, {}, {HostTensor(uniform.type)},
                     {.attributes = attributes, .step = step})[0] == uniform);
  });
}

/// The largest difference of a product from sums in double; operands have lines `lead` apart.
double error_of_product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t lead,
                        bool a_by_columns, int threads) {
  kernels::MatmulShape s{
      .m = m, .n = n, .k = k, .a_m = lead, .a_k = 1, .b_k = lead, .b_n = 1, .c_m = n, .batch = {}};
  if (a_by_columns) std::swap(s.a_m, s.a_k);
  std::mt19937 generator(1);
  const auto drawn = [&](std::int64_t lines) {
    std::vector<float> data(lines * lead);
    for (float& x : data) x = std::uniform_real_distribution<float>(-1, 1)(generator);
    return data;
  };
  const std::vector<float> a = drawn(a_by_columns ? k : m), b = drawn(k);
  std::vector<float> c(m * n);
  const cpu::DnnlMatmul matmul(s, {f32, f32}, threads);
  std::vector<std::byte> workspace(matmul.workspace_bytes());
  ThreadTeam team(threads);
  const auto bytes = [](const std::vector<float>& data) {
    return reinterpret_cast<const std::byte*>(data.data());
  };
  matmul.run(reinterpret_cast<std::byte*>(c.data()), bytes(a), bytes(b), workspace.data(), team);
  double error = 0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double expected = 0;
      for (std::int64_t p = 0; p < k; ++p)
        expected += static_cast<double>(a[i * s.a_m + p * s.a_k]) * b[p * s.b_k + j];
      error = std::max(error, std::abs(c[i * n + j] - expected));
    }
  return error;
}

TEST_CASE("products of operands whose lines are a multiple of 1 KiB apart") {
  for_each_isa([] {
    for (const std::int64_t lead : {512, 1024})
      for (const bool a_by_columns : {false, true})
        for (const int threads : {1, 2}) {
          CAPTURE(lead);
          CAPTURE(a_by_columns);
          CAPTURE(threads);
          CHECK(error_of_product(40, 512, 70, lead, a_by_columns, threads) <= 1e-5);
          CHECK(error_of_product(64, 33, 520, 1024, a_by_columns, threads) <= 1e-4);
        }
    CHECK(error_of_product(20, 600, 530, 1024, true, 1) <= 1e-4);
    CHECK(error_of_product(600, 20, 530, 1024, true, 1) <= 1e-4);
    CHECK(error_of_product(530, 40, 1030, 2048, true, 2) <= 1e-4);
  });
}

/// c of `multiply_rows`, where a and b are drawn; b is stored by rows or by columns.
std::vector<float> row_product(std::int64_t m, std::int64_t n, std::int64_t k, bool by_columns,
                               DType type, int threads, double& error) {
  const kernels::MatmulShape s{.m = m,
                               .n = n,
                               .k = k,
                               .a_m = k,
                               .a_k = 1,
                               .b_k = by_columns ? 1 : n,
                               .b_n = by_columns ? k : 1,
                               .c_m = n,
                               .batch = {}};
  CHECK(cpu::suits_row_product(s));
  std::mt19937 generator(1);
  std::vector<float> a(m * k), c(m * n);
  for (float& x : a) x = std::uniform_real_distribution<float>(-1, 1)(generator);
  const HostTensor b = random_tensor({type, {k, n}}, 2, -1, 1);
  ThreadTeam team(threads);
  cpu::multiply_rows(s, c.data(), a.data(), {b.bytes.data(), type}, team);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double expected = 0;
      for (std::int64_t p = 0; p < k; ++p)
        expected += static_cast<double>(a[i * k + p]) * b.get(p * s.b_k + j * s.b_n);
      error = std::max(error, std::abs(c[i * n + j] - expected));
    }
  return c;
}

TEST_CASE("products of few rows are the same with any number of threads") {
  for_each_isa([] {
    for (const DType type : {f32, bf16, f16})
      for (const bool by_columns : {false, true})
        for (const std::int64_t rows : {1, 3, 8})
          for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{2300, 9}, {77, 515}}) {
            CAPTURE(name_of(type));
            CAPTURE(by_columns);
            CAPTURE(rows);
            double error = 0;
            const auto one = row_product(rows, n, k, by_columns, type, 1, error);
            CHECK(one == row_product(rows, n, k, by_columns, type, 3, error));
            CHECK(error <= 1e-4);
          }
  });
  CHECK_FALSE(cpu::suits_row_product(
      {.m = 9, .n = 512, .k = 512, .a_k = 1, .b_k = 512, .b_n = 1, .batch = {}}));
}

}  // namespace
}  // namespace alpa::isa_test
