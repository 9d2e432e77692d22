// How the CUDA backend divides an einsum into steps, without a card.
#include "kernels/cuda/einsum_plan.h"

#include <doctest/doctest.h>

#include "kernel_call.h"
#include "kernels/cuda/kernels.h"

namespace alpa::einsum_steps_test {
namespace {

using cuda::EinsumSteps;
using cuda::kNowhere;

EinsumSteps steps_of(const std::string& equation, const TensorType& x, const TensorType& y,
                     const TensorType& z) {
  const Attributes attributes{{"equation", equation}};
  KernelCall call;
  for (const TensorType& type : {x, y})
    call.inputs.push_back({nullptr, type, Shape(type.shape.size(), 0), type.shape});
  call.outputs = {{nullptr, z, Shape(z.shape.size(), 0), z.shape}};
  call.attributes = &attributes;
  const EinsumSteps steps = cuda::plan_einsum_steps(call);
  CHECK(cuda::scratch_bytes("einsum", call) == steps.scratch_bytes);
  return steps;
}

bool copies_nothing(const EinsumSteps& s) {
  return s.a.converted == kNowhere && s.b.converted == kNowhere && !s.a.pack && !s.b.pack &&
         s.product == kNowhere && !s.unpack;
}

TEST_CASE("a matrix product and its gradients are single products of operands as they lie") {
  for (DType dtype : {f32, bf16, f16, f64}) {
    for (const auto& [equation, x, y, z] :
         {std::tuple<const char*, Shape, Shape, Shape>{"mk,kn->mn", {4, 6}, {6, 8}, {4, 8}},
          {"mn,kn->mk", {4, 8}, {6, 8}, {4, 6}},
          {"mk,mn->kn", {4, 6}, {4, 8}, {6, 8}},
          {"bmk,kn->bmn", {2, 4, 6}, {6, 8}, {2, 4, 8}},
          {"bmk,bmn->kn", {2, 4, 6}, {2, 4, 8}, {6, 8}},
          {"btc,chd->bthd", {2, 3, 4}, {4, 5, 6}, {2, 3, 5, 6}}}) {
      const EinsumSteps steps = steps_of(equation, {dtype, x}, {dtype, y}, {dtype, z});
      CHECK(copies_nothing(steps));
      CHECK(steps.shape.batch.empty());
      CHECK(steps.outer.empty());
    }
    // Equal strides through the batch: one strided product.
    const EinsumSteps batched = steps_of("bhmk,bhkn->bhmn", {dtype, {2, 3, 4, 5}},
                                         {dtype, {2, 3, 5, 6}}, {dtype, {2, 3, 4, 6}});
    CHECK(copies_nothing(batched));
    CHECK(batched.shape.batch.size() == 1);
    CHECK(batched.shape.batches() == 6);
  }
}

TEST_CASE("batches without a common stride are up to eight products, then packed into one") {
  const auto attention = [](std::int64_t b, std::int64_t h) {
    return steps_of("bthd,bshd->bhts", {f32, {b, 5, h, 8}}, {f32, {b, 6, h, 8}},
                    {f32, {b, h, 5, 6}});
  };
  const EinsumSteps few = attention(8, 16);
  CHECK(copies_nothing(few));
  CHECK(few.outer.size() == 1);
  CHECK(few.outer[0].extent == 8);
  CHECK(few.shape.batches() == 16);
  const EinsumSteps many = attention(9, 16);
  CHECK(many.outer.empty());
  CHECK(many.shape.batches() == 9 * 16);
  CHECK(many.a.pack);
  CHECK(many.b.pack);
  CHECK_FALSE(many.unpack);
  CHECK(many.scratch_bytes >= 9 * 16 * 8 * (5 + 6) * 4 + many.workspace_bytes);
}

TEST_CASE("only types that cuBLASLt does not multiply are converted") {
  const auto types = [](DType x, DType y, DType z) {
    return steps_of("mk,kn->mn", {x, {4, 6}}, {y, {6, 8}}, {z, {4, 8}});
  };
  CHECK(copies_nothing(types(bf16, bf16, f32)));
  const EinsumSteps whole = types(i32, i32, i32);
  CHECK(whole.operands == f64);
  CHECK(whole.a.converted != kNowhere);
  CHECK(whole.product != kNowhere);
  const EinsumSteps mixed = types(bf16, f32, bf16);
  CHECK(mixed.operands == f32);
  CHECK(mixed.a.converted != kNowhere);
  CHECK(mixed.b.converted == kNowhere);
  CHECK(mixed.product != kNowhere);
}

TEST_CASE("what sums nothing is an elementwise product, if its letters come in order") {
  using Kind = EinsumSteps::Kind;
  const TensorType ab{f32, {3, 4}}, ba{f32, {4, 3}}, a{f32, {3}}, b{f32, {4}};
  CHECK(steps_of("ab,ab->ab", ab, ab, ab).kind == Kind::multiply);
  CHECK(steps_of("a,b->ab", a, b, ab).kind == Kind::multiply);
  CHECK(steps_of("ab,b->ab", ab, b, ab).kind == Kind::multiply);
  CHECK(steps_of("ab,ba->ab", ab, ba, ab).kind == Kind::product);
  CHECK(steps_of("ab,b->a", ab, b, a).kind == Kind::product);
  CHECK(steps_of("ab,b->a", {f32, {3, 0}}, {f32, {0}}, a).kind == Kind::zeros);
  CHECK(steps_of("ab,b->a", {f32, {0, 4}}, b, {f32, {0}}).kind == Kind::nothing);
}

TEST_CASE("parts of the workspace do not overlap, and hold what is put there") {
  // x is summed over s and converted, both operands and the result are
  // packed, the result is converted.
  const EinsumSteps s =
      steps_of("iksl,lkj->jil", {bf16, {3, 4, 5, 6}}, {f32, {6, 4, 7}}, {bf16, {7, 3, 6}});
  struct Part {
    std::int64_t begin, bytes;
  };
  std::vector<Part> parts{{s.workspace, s.workspace_bytes + 192}};
  const std::int64_t x = 3 * 4 * 6 * 4, y = 6 * 4 * 7 * 4, z = 7 * 3 * 6 * 4;
  for (const auto* o : {&s.a, &s.b}) {
    const std::int64_t bytes = o->input == 0 ? x : y;
    CHECK((o->converted != kNowhere) == (o->input == 0));
    if (o->converted != kNowhere) parts.push_back({o->converted, bytes});
    if (o->packed != kNowhere) parts.push_back({o->packed, bytes});
    if (o->sum) parts.push_back({o->sum_workspace, cuda::reduce_workspace_bytes(*o->sum)});
  }
  REQUIRE(s.product != kNowhere);
  parts.push_back({s.product, z});
  if (s.unpacked != kNowhere) parts.push_back({s.unpacked, z});
  std::sort(parts.begin(), parts.end(), [](const Part& p, const Part& q) {
    return p.begin != q.begin ? p.begin < q.begin : p.bytes < q.bytes;
  });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CHECK(parts[i].begin % 64 == 0);
    CHECK(parts[i].begin + parts[i].bytes <=
          (i + 1 < parts.size() ? parts[i + 1].begin : s.scratch_bytes));
  }
}

TEST_CASE("a product's workspace follows from its result alone") {
  CHECK(cuda::product_workspace_bytes(1) == 256);
  CHECK(cuda::product_workspace_bytes(9) == 512);
  CHECK(cuda::product_workspace_bytes(1 << 10) == 32 << 10);
  CHECK(cuda::product_workspace_bytes(std::int64_t{1} << 40) == 32 << 20);
}

}  // namespace
}  // namespace alpa::einsum_steps_test
