// einsum on the device against the CPU's kernel, which tests/kernels checks against a naive sum.
#include <map>

#include "device_run.h"
#include "kernels/cpu/kernels.h"
#include "src/ops/all_ops.h"

namespace alpa::einsum_test {
namespace {

using namespace testing;
using Extents = std::map<char, std::int64_t>;

const char* const kEquations[] = {
    "ik,kj->ij",       "ki,kj->ij",     "ik,jk->ij",       "ki,jk->ij",     "ik,kj->ji",
    "ki,jk->ji",       "bik,bkj->bij",  "bik,bjk->bji",    "ibk,kbj->ibj",  "bthd,bshd->bhts",
    "bhts,bshd->bthd", "btc,chd->bthd", "btc,chd->bhtd",   "bthd,chd->btc", "btc,bthd->chd",
    "k,k->",           "i,j->ij",       "ik,k->i",         "k,kj->j",       "bk,bk->b",
    "kb,kb->b",        "ib,jb->ijb",    "ab,ab->ab",       "aik,kj->ij",    "ik,kjq->ij",
    "aik,kqj->ij",     "ij,k->ij",      "ijkl,lkmn->mjni", "abc,cd->bad",   "kl,lkj->j",
    "k,->k",           ",->",           "ab,ba->ab",       "j,i->ij"};

Shape shape_of(std::string_view letters, const Extents& extents) {
  Shape shape;
  for (char l : letters) shape.push_back(extents.at(l));
  return shape;
}

struct Call {
  std::string equation;
  HostTensor x, y, z;
  double summed = 1;  ///< terms of every element, at most

  Call(const std::string& text, const Extents& extents, DType dtype, unsigned seed)
      : equation(text) {
    const std::size_t comma = text.find(','), arrow = text.find("->");
    x = random_tensor({dtype, shape_of(text.substr(0, comma), extents)}, seed);
    y = random_tensor({dtype, shape_of(text.substr(comma + 1, arrow - comma - 1), extents)},
                      seed + 1);
    z = HostTensor({dtype, shape_of(text.substr(arrow + 2), extents)});
    for (const auto& [letter, extent] : extents)
      if (text.find(letter) < arrow && text.find(letter, arrow) == std::string::npos)
        summed *= static_cast<double>(extent);
  }

  HostTensor on_device(bool captured = false) const {
    return run_on_device(ops::einsum, {x, y}, {z},
                         {.attributes = {{"equation", equation}}, .captured = captured})[0];
  }
  std::vector<double> on_cpu() const {
    return values_of(
        run_kernel(cpu::einsum, {x, y}, {z}, {.attributes = {{"equation", equation}}})[0]);
  }
};

void check(const Call& call) {
  CAPTURE(call.equation);
  CAPTURE(name_of(call.x.type.dtype));
  CAPTURE(to_string(call.x.type));
  CHECK(difference(call.on_device(), call.on_cpu()) <=
        (8 + call.summed) * epsilon(call.x.type.dtype));
}

TEST_CASE("einsum on the device is the CPU's for every transposition, batch and type") {
  if (no_device()) return;
  unsigned seed = 0;
  std::mt19937 generator(7);
  for (const char* equation : kEquations)
    for (DType dtype : {f32, bf16, f16, f64, i32})
      for (int round = 0; round < 2; ++round) {
        Extents extents;
        for (char l = 'a'; l <= 'z'; ++l)
          extents[l] = 1 + static_cast<std::int64_t>(generator() % (round == 0 ? 3 : 9));
        check(Call(equation, extents, dtype, seed += 2));
      }
}

TEST_CASE("larger products on the device, with rows that are not multiples of anything") {
  if (no_device()) return;
  for (DType dtype : {f32, bf16}) {
    check(Call("ik,kj->ij", {{'i', 130}, {'j', 70}, {'k', 150}}, dtype, 1));
    check(Call("ik,jk->ij", {{'i', 33}, {'j', 257}, {'k', 129}}, dtype, 3));
    check(Call("ki,kj->ij", {{'i', 200}, {'j', 150}, {'k', 64}}, dtype, 5));
    check(Call("bik,bkj->bij", {{'b', 7}, {'i', 40}, {'j', 48}, {'k', 33}}, dtype, 7));
    check(Call("bthd,bshd->bhts", {{'b', 5}, {'h', 3}, {'t', 40}, {'s', 48}, {'d', 16}}, dtype, 9));
  }
}

TEST_CASE("few outer batches are products of their own, many are packed, with the same result") {
  if (no_device()) return;
  // b and h have no common stride in bthd; min(b, h) products, or one of packed operands.
  for (std::int64_t b : {3, 20})
    for (DType dtype : {f32, bf16, f64}) {
      check(Call("bthd,bshd->bhts", {{'b', b}, {'h', 16}, {'t', 5}, {'s', 6}, {'d', 8}}, dtype, 1));
      check(Call("bhts,bshd->bthd", {{'b', b}, {'h', 16}, {'t', 5}, {'s', 6}, {'d', 8}}, dtype, 3));
    }
}

TEST_CASE("einsum over nothing is zero on the device, and of nothing does nothing") {
  if (no_device()) return;
  for (DType dtype : {f32, bf16, f64, i32}) {
    check(Call("ik,kj->ij", {{'i', 3}, {'j', 4}, {'k', 0}}, dtype, 1));
    check(Call("ik,kj->ij", {{'i', 0}, {'j', 4}, {'k', 5}}, dtype, 1));
    check(Call("aik,kj->ij", {{'a', 0}, {'i', 2}, {'j', 4}, {'k', 5}}, dtype, 1));
  }
}

TEST_CASE("einsum gives the same bits every time, queued directly or from a graph") {
  if (no_device()) return;
  for (DType dtype : {f32, bf16}) {
    const Call call("ik,kj->ij", {{'i', 32}, {'j', 40}, {'k', 2000}}, dtype, 1);
    const HostTensor first = call.on_device();
    for (const bool captured : {false, true, true})
      CHECK(call.on_device(captured).bytes == first.bytes);
  }
}

TEST_CASE("operands of 16 bits can give results of 32, which are then not rounded to 16") {
  if (no_device()) return;
  for (DType dtype : {bf16, f16}) {
    Call call("ik,kj->ij", {{'i', 20}, {'j', 24}, {'k', 40}}, dtype, 1);
    call.z = HostTensor({f32, call.z.type.shape});
    CHECK(difference(call.on_device(), call.on_cpu()) <= 48 * epsilon(f32));
  }
}

}  // namespace
}  // namespace alpa::einsum_test
