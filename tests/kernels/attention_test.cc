// Attention on the CPU over several tiles of keys: each head reads the keys that it sees, and
// nothing that was not written. Scratch memory holds NaN (kernel_call.h).
#include <doctest/doctest.h>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::attention_test {
namespace {

using namespace testing;

constexpr std::int64_t kTokens = 300, kHeads = 4, kKeyHeads = 2, kWidth = 8;

/// Documents of 100, 90 and 70 tokens, then padding of segment 0.
HostTensor segments() {
  HostTensor numbers({i32, {1, kTokens}});
  for (std::int64_t t = 0; t < kTokens; ++t)
    numbers.put(t, t < 100 ? 1 : t < 190 ? 2 : t < 260 ? 3 : 0);
  return numbers;
}

struct Row {
  HostTensor q = random_tensor({f32, {1, kTokens, kHeads, kWidth}}, 1),
             k = random_tensor({f32, {1, kTokens, kKeyHeads, kWidth}}, 2),
             v = random_tensor({f32, {1, kTokens, kKeyHeads, kWidth}}, 3);
};

Attributes causal() {
  return {{"scale", 1 / std::sqrt(double{kWidth})}, {"causal", std::int64_t{1}}, {"dropout", 0.0}};
}

/// Y of query t of a head, as its formula has it.
std::vector<double> value_of(const Row& row, std::int64_t t, std::int64_t head,
                             const std::function<bool(std::int64_t key)>& sees) {
  const std::int64_t key_head = head / (kHeads / kKeyHeads);
  std::vector<double> sum(kWidth);
  double total = 0;
  for (std::int64_t s = 0; s <= t; ++s) {
    if (!sees(s)) continue;
    double score = 0;
    for (std::int64_t d = 0; d < kWidth; ++d)
      score += row.q.get((t * kHeads + head) * kWidth + d) *
               row.k.get((s * kKeyHeads + key_head) * kWidth + d);
    const double p = std::exp(score / std::sqrt(double{kWidth}));
    total += p;
    for (std::int64_t d = 0; d < kWidth; ++d)
      sum[d] += p * row.v.get((s * kKeyHeads + key_head) * kWidth + d);
  }
  for (double& element : sum) element /= total;
  return sum;
}

/// The largest distance of the kernel's values from the formula's.
double distance(const std::vector<HostTensor>& inputs, const Attributes& attributes, int threads,
                const Row& row, const std::function<bool(std::int64_t t, std::int64_t s)>& sees) {
  const HostTensor y = run_kernel(cpu::attention, inputs,
                                  {HostTensor(row.q.type), HostTensor({f32, {1, kHeads, kTokens}})},
                                  {.attributes = attributes, .threads = threads})[0];
  double largest = 0;
  for (std::int64_t t = 0; t < kTokens; ++t)
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const std::vector<double> expected =
          value_of(row, t, head, [&](std::int64_t s) { return sees(t, s); });
      for (std::int64_t d = 0; d < kWidth; ++d) {
        const double found = y.get((t * kHeads + head) * kWidth + d);
        if (std::isnan(found)) return found;
        largest = std::max(largest, std::abs(found - expected[d]));
      }
    }
  return largest;
}

}  // namespace

TEST_CASE("documents and padding of a row see their own keys, however tasks are divided") {
  const Row row;
  const HostTensor of = segments();
  const Attributes attributes = causal();
  for (const int threads : {1, 2, 3})
    CHECK(distance({row.q, row.k, row.v, of, of}, attributes, threads, row,
                   [&](std::int64_t t, std::int64_t s) { return of.get(t) == of.get(s); }) < 1e-5);
}

TEST_CASE("heads that share keys see those of their windows, however tasks are divided") {
  const Row row;
  Attributes attributes = causal();
  attributes.set("window", std::int64_t{40});
  for (const int threads : {1, 2, 3})
    CHECK(distance({row.q, row.k, row.v}, attributes, threads, row,
                   [](std::int64_t t, std::int64_t s) { return s > t - 40; }) < 1e-5);
}

}  // namespace alpa::attention_test
