#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::einsum_test {
namespace {

using namespace testing;

using Extents = std::map<char, std::int64_t>;

Shape shape_of(const std::string& letters, const Extents& extents) {
  Shape shape;
  for (char l : letters) shape.push_back(extents.at(l));
  return shape;
}

struct Equation {
  std::string x, y, z, letters;
};
Equation split(const std::string& text) {
  const auto comma = text.find(','), arrow = text.find("->");
  Equation e{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1),
             text.substr(arrow + 2), ""};
  for (char l : e.x + e.y)
    if (e.letters.find(l) == std::string::npos) e.letters += l;
  return e;
}

/// The sum over every combination of letters, in double.
std::vector<double> naive(const Equation& e, const Extents& extents, const HostTensor& x,
                          const HostTensor& y) {
  std::vector<double> z(static_cast<std::size_t>(num_elements(shape_of(e.z, extents))), 0);
  // How far the element of a tensor moves with each letter.
  const auto strides = [&](const std::string& letters) {
    Shape of_letters(e.letters.size(), 0);
    std::int64_t stride = 1;
    for (std::size_t d = letters.size(); d-- > 0; stride *= extents.at(letters[d]))
      of_letters[e.letters.find(letters[d])] += stride;
    return of_letters;
  };
  const Shape in_x = strides(e.x), in_y = strides(e.y), in_z = strides(e.z);
  for_each_index(shape_of(e.letters, extents), [&](const Shape& index) {
    const auto at = [&](const Shape& moves) {
      return std::inner_product(index.begin(), index.end(), moves.begin(), std::int64_t{0});
    };
    z[static_cast<std::size_t>(at(in_z))] += x.get(at(in_x)) * y.get(at(in_y));
  });
  return z;
}

const char* const kEquations[] = {
    "ik,kj->ij",     "ki,kj->ij",       "ik,jk->ij",       "ki,jk->ij",
    "ik,kj->ji",     "ki,jk->ji",       "bik,bkj->bij",    "bik,bjk->bji",
    "ibk,kbj->ibj",  "bthd,bshd->bhts", "bhts,bshd->bthd", "btc,chd->bthd",
    "btc,chd->bhtd", "bthd,chd->btc",   "btc,bthd->chd",   "k,k->",
    "i,j->ij",       "ik,k->i",         "k,kj->j",         "bk,bk->b",
    "kb,kb->b",      "ib,jb->ijb",      "ab,ab->ab",       "aik,kj->ij",
    "ik,kjq->ij",    "aik,kqj->ij",     "ij,k->ij",        "ijkl,lkmn->mjni",
    "abc,cd->bad",   "kl,lkj->j",       "k,->k",           ",->"};

/// `alike`: whether every number of threads must give the same bits. Large products are cut into a
/// block per thread, and oneDNN may sum blocks of other sizes in another order.
void check(const std::string& equation, const Extents& extents, DType dtype, unsigned seed,
           bool alike = true) {
  const Equation e = split(equation);
  const HostTensor x = random_tensor({dtype, shape_of(e.x, extents)}, seed);
  const HostTensor y = random_tensor({dtype, shape_of(e.y, extents)}, seed + 1);
  const HostTensor z({dtype, shape_of(e.z, extents)});
  const std::vector<double> expected = naive(e, extents, x, y);
  double summed = 1;  // terms of every element
  for (char l : e.letters)
    if (e.z.find(l) == std::string::npos) summed *= static_cast<double>(extents.at(l));
  CAPTURE(equation);
  CAPTURE(std::string(name_of(dtype)));
  std::vector<HostTensor> first;
  for (int threads : {1, 2, 3}) {
    const auto run = [&] {
      return run_kernel(cpu::einsum, {x, y}, {z},
                        {.attributes = {{"equation", equation}}, .threads = threads});
    };
    const auto got = run();
    if (threads == 1 || !alike) first = threads == 1 ? got : run();
    CHECK(difference(got[0], expected) <= (8 + summed) * epsilon(dtype));
    CHECK(got == first);
  }
}

TEST_CASE(
    "einsum equals the naive sum for every transposition, batch and type, with 1, 2 and 3 threads "
    "alike") {
  unsigned seed = 0;
  std::mt19937 generator(7);
  for (const char* equation : kEquations)
    for (DType dtype : {f32, bf16, f16, f64, i32})
      for (int round = 0; round < 3; ++round) {
        Extents extents;
        for (char l = 'a'; l <= 'z'; ++l)
          extents[l] = 1 + static_cast<std::int64_t>(generator() % (round == 0 ? 3 : 9));
        check(equation, extents, dtype, seed += 2);
      }
}

TEST_CASE("einsum of larger matrices, where the work is shared between threads") {
  check("ik,kj->ij", {{'i', 130}, {'j', 70}, {'k', 150}}, f32, 1, false);
  check("ik,jk->ij", {{'i', 33}, {'j', 257}, {'k', 129}}, f32, 3, false);
  check("ki,kj->ij", {{'i', 200}, {'j', 150}, {'k', 64}}, f32, 5, false);
  check("bik,bkj->bij", {{'b', 7}, {'i', 40}, {'j', 48}, {'k', 33}}, f32, 7);
  check("bthd,bshd->bhts", {{'b', 2}, {'h', 3}, {'t', 40}, {'s', 48}, {'d', 16}}, f32, 9);
  check("bik,bkj->bij", {{'b', 2}, {'i', 100}, {'j', 600}, {'k', 20}}, f32, 11, false);
  check("ik,kj->ij", {{'i', 150}, {'j', 70}, {'k', 50}}, f64, 13);
  // Lines a multiple of 1 KiB apart, which are copied into panels.
  check("ik,kj->ij", {{'i', 40}, {'j', 512}, {'k', 70}}, f32, 15, false);
  check("ki,kj->ij", {{'i', 256}, {'j', 90}, {'k', 61}}, f32, 17, false);
  check("ik,kj->ij", {{'i', 60}, {'j', 1024}, {'k', 260}}, f32, 19, false);
  // Few results of many terms, which are divided between threads.
  check("ki,kj->ij", {{'i', 40}, {'j', 18}, {'k', 1500}}, f32, 21);
  check("ik,jk->ij", {{'i', 20}, {'j', 33}, {'k', 1400}}, f32, 23);
  check("bki,bkj->ji", {{'b', 3}, {'i', 16}, {'j', 24}, {'k', 500}}, f32, 25);
}

TEST_CASE("a product in one order, or of few results or f64, does not depend on threads") {
  const auto check_threads = [](const std::string& equation, const Extents& extents, DType dtype,
                                int chunks) {
    CAPTURE(equation);
    CAPTURE(std::string(name_of(dtype)));
    const Equation e = split(equation);
    const HostTensor x = random_tensor({dtype, shape_of(e.x, extents)}, 1),
                     y = random_tensor({dtype, shape_of(e.y, extents)}, 2);
    const auto run = [&](int threads) {
      return run_kernel(cpu::einsum, {x, y}, {HostTensor({dtype, shape_of(e.z, extents)})},
                        {.attributes = {{"equation", equation}},
                         .threads = threads,
                         .sums = [=](const KernelCall&) { return SumOrder{chunks}; }});
    };
    const auto one = run(1);
    for (int threads : {2, 3, 5, 8}) {
      CAPTURE(threads);
      CHECK(run(threads) == one);
    }
  };
  for (const char* equation : {"ik,kj->ij", "ik,jk->ij", "ki,kj->ij", "bik,bkj->bij"})
    for (const Extents& extents : {Extents{{'b', 2}, {'i', 130}, {'j', 70}, {'k', 150}},
                                   Extents{{'b', 3}, {'i', 33}, {'j', 257}, {'k', 129}},
                                   Extents{{'b', 1}, {'i', 300}, {'j', 512}, {'k', 64}}}) {
      check_threads(equation, extents, f32, 1);
      check_threads(equation, extents, f64, 0);
    }
  check_threads("ki,kj->ij", {{'i', 40}, {'j', 18}, {'k', 1500}}, f32, 0);  // divided by terms
  check_threads("ik,kj->ij", {{'i', 3}, {'j', 700}, {'k', 515}}, f32, 0);   // few rows
  check_threads("bik,bkj->bij", {{'b', 9}, {'i', 40}, {'j', 48}, {'k', 33}}, f32, 0);  // whole
}

TEST_CASE("einsum of larger matrices of bf16, in the processor's matrix unit if it has one") {
  unsigned seed = 0;
  for (const char* equation : {"ik,kj->ij", "ik,jk->ij", "ki,kj->ij", "ki,jk->ij"})
    for (const std::int64_t rows : {70, 190})
      check(equation, {{'i', rows}, {'j', 50}, {'k', 70}}, bf16, seed += 2, false);
  check("bthd,bshd->bhts", {{'b', 2}, {'h', 3}, {'t', 40}, {'s', 48}, {'d', 16}}, bf16, 41, false);
  check("bik,kj->bij", {{'b', 3}, {'i', 65}, {'j', 40}, {'k', 64}}, bf16, 43, false);
  check("kbi,kbj->bij", {{'b', 3}, {'i', 65}, {'j', 40}, {'k', 64}}, bf16, 49, false);
  check("bik,bij->kj", {{'b', 3}, {'i', 65}, {'j', 40}, {'k', 64}}, bf16, 45, false);
  check("ik,kj->ij", {{'i', 1}, {'j', 300}, {'k', 130}}, bf16, 47, false);
}

TEST_CASE("einsum over nothing is zero, and of nothing does nothing") {
  const Extents no_k{{'i', 3}, {'j', 4}, {'k', 0}}, no_i{{'i', 0}, {'j', 4}, {'k', 5}};
  for (DType dtype : {f32, bf16, f64}) {
    check("ik,kj->ij", no_k, dtype, 1);
    check("ik,kj->ij", no_i, dtype, 1);
    check("aik,kj->ij", {{'a', 0}, {'i', 2}, {'j', 4}, {'k', 5}}, dtype, 1);
  }
}

}  // namespace
}  // namespace alpa::einsum_test
