#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "support/error_text.h"

namespace error_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct Fixture {
  Recorder b;
  int made = 0;
  Value in(TensorType type) {
    return b.input(InputKind::batch, "in" + std::to_string(made++), std::move(type));
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "matmul says which extents differ and how to mend it") {
  CHECK(error_of([&] {
          matmul(in({f32, {8, 768}}), in({f32, {1024, 64}}));
        }) ==
        "matmul: x has k=768 but w has k=1024 (x f32[8, 768], w f32[1024, 64]); transpose w or "
        "reshape x");
  CHECK(error_of([&] {
          matmul(in({f32, {8}}), in({f32, {8, 2}}));
        }) ==
        "matmul: both operands need at least 2 dimensions (x f32[8], w f32[8, 2]); "
        "reshape vectors to matrices");
  CHECK(error_of([&] {
          matmul(in({f32, {8, 4}}), in({bf16, {4, 2}}));
        }) == "matmul: x is f32 but w is bf16 (x f32[8, 4], w bf16[4, 2]); cast one of them");
  CHECK(error_of([&] {
          matmul(in({f32, {3, 8, 4}}), in({f32, {2, 4, 2}}));
        }) ==
        "matmul: leading dimensions [3] of x and [2] of w differ (x f32[3, 8, 4], w f32[2, 4, 2]); "
        "broadcast one of them");
  CHECK(error_of([&] {
          matmul(in({f32, {8, 4}}), Value{});
        }) == "matmul: an operand is an empty Value");
}

TEST_CASE_FIXTURE(Fixture, "einsum checks equation and operands") {
  const Value x = in({f32, {2, 3}}), y = in({f32, {4, 5}});
  CHECK(error_of([&] { einsum("ik,kj->ij", x, y); }) ==
        "einsum \"ik,kj->ij\": x has k=3 but y has k=4 (x f32[2, 3], y f32[4, 5])");
  CHECK(error_of([&] { einsum("ik,k->i", x, y); }) ==
        "einsum \"ik,k->i\": y has 2 dimensions but the equation gives it 1 (x f32[2, 3], y f32[4, "
        "5])");
  CHECK(error_of([&] { einsum("ik->ki", x, y); }) ==
        "einsum \"ik->ki\": the equation must name two operands and a result, e.g. \"ik,kj->ij\"");
  CHECK(error_of([&] { einsum("ii,ij->j", x, y); }) ==
        "einsum \"ii,ij->j\": letter i occurs twice in one tensor");
  CHECK(error_of([&] { einsum("i1,1j->ij", x, y); }) ==
        "einsum \"i1,1j->ij\": '1' is not a letter; write e.g. \"ik,kj->ij\"");
  CHECK(error_of([&] { einsum("ab,cd->ae", x, y); }) ==
        "einsum \"ab,cd->ae\": letter e of the result is in no operand");
  CHECK(error_of([&] { einsum("ab,cd->acd", x, y); }) ==
        "einsum \"ab,cd->acd\": letter b is in one operand only and not in the result; "
        "sum that operand first");
  CHECK(error_of([&] {
          einsum("ij,ij->ij", x, in({i32, {2, 3}}));
        }) ==
        "einsum \"ij,ij->ij\": the operands must have one numeric type (x f32[2, 3], y i32[2, 3]); "
        "cast one of them");
}

TEST_CASE_FIXTURE(Fixture, "elementwise operators say which operands do not fit") {
  const Value x = in({f32, {8, 768}});
  CHECK(error_of([&] {
          x + in({f32, {1024}});
        }) ==
        "add: x has extent 768 but y has 1024 in dimension 1 from the last (x f32[8, 768], "
        "y f32[1024]); reshape one of them, or give it extent 1 there");
  CHECK(error_of([&] {
          x* in({bf16, {768}});
        }) == "mul: x is f32 but y is bf16 (x f32[8, 768], y bf16[768]); cast one of them");
  CHECK(error_of([&] {
          exp(in({i32, {2}}));
        }) == "exp: x is i32, not a floating type (x i32[2]); cast it");
  CHECK(error_of([&] {
          -in({u8, {2}});
        }) == "neg: x is u8, the type of conditions (x u8[2]); cast it");
  CHECK(error_of([&] { where(x, x, x); }) ==
        "where: the condition is f32[8, 768], not u8 (f32[8, 768], f32[8, 768], f32[8, 768]); "
        "make it with a comparison");
  CHECK(error_of([&] {
          where(gt(x, 0), x, in({bf16, {1}}));
        }) == "where: the alternatives are f32[8, 768] and bf16[1]; cast one of them");
  CHECK(error_of([&] { x + Value{}; }) == "add: an operand is an empty Value");
  CHECK(error_of([&] { relu(Value{}); }) == "relu: the operand is an empty Value");
  CHECK(error_of([&] { Value{} * 2; }) == "an operand is an empty Value");
  Recorder other;
  const Value foreign = other.input(InputKind::batch, "x", {f32, {8, 768}});
  CHECK(error_of([&] { x + foreign; }) == "add: operand 1 belongs to another graph");
}

TEST_CASE_FIXTURE(Fixture, "a neutral constant does not hide shapes that do not fit") {
  const Value x = in({f32, {4}});
  CHECK(error_of([&] { x + constant(b, 0, f32, {3}); }) ==
        "add: x has extent 4 but y has 3 in dimension 1 from the last (x f32[4], y f32[3]); "
        "reshape one of them, or give it extent 1 there");
  CHECK(error_of([&] { x* constant(b, 1, bf16); }) ==
        "mul: x is f32 but y is bf16 (x f32[4], y bf16[]); cast one of them");
}

TEST_CASE_FIXTURE(Fixture, "reductions check their axes") {
  const Value x = in({f32, {2, 3}});
  CHECK(error_of([&] { sum(x, {2}); }) ==
        "reduce_sum: axis 2 of f32[2, 3]; axes are -2 to 1, negative ones count from the end");
  CHECK(error_of([&] { max(x, {1, -1}); }) == "reduce_max: axis 1 of f32[2, 3] is given twice");
  CHECK(error_of([&] { mean(in({i32, {4}})); }) == "mean: i32[4] is not a floating type; cast it");
  CHECK(error_of([&] {
          sum(in({u8, {4}}));
        }) == "reduce_sum: x is u8, the type of conditions (x u8[4]); cast it");
}

TEST_CASE_FIXTURE(Fixture, "movements check shapes") {
  const Value x = in({f32, {2, 3}});
  CHECK(error_of([&] {
          reshape(x, {4, 2});
        }) == "reshape: f32[2, 3] has 6 elements but [4, 2] has 8");
  CHECK(error_of([&] {
          reshape(x, {-1, -1});
        }) == "reshape: [-1, -1] has more than one extent of -1");
  CHECK(error_of([&] {
          reshape(x, {4, -1});
        }) == "reshape: f32[2, 3] does not fit [4, -1]: 6 elements are not a multiple of 4");
  CHECK(error_of([&] {
          reshape(x, {6, 0});
        }) == "reshape: extents must be at least 1 (shape [6, 0])");
  CHECK(error_of([&] {
          transpose(x, {0, 0});
        }) == "transpose: [0, 0] is not a permutation of the dimensions of f32[2, 3]");
  CHECK(error_of([&] {
          transpose(x, {0, 2});
        }) == "transpose: axis 2 of f32[2, 3]; axes are -2 to 1, negative ones count from the end");
  CHECK(error_of([&] {
          broadcast_to(x, {3, 3});
        }) ==
        "broadcast_to: f32[2, 3] does not stretch to [3, 3]; "
        "extents must be equal or 1, aligned at the last dimension");
  CHECK(error_of([&] { constant(b, 1, f32, {0}); }) ==
        "constant: extents must be at least 1 (shape [0])");
  CHECK(error_of([&] {
          iota(b, {i32, {3}}, 1);
        }) == "iota: axis 1 of i32[3]; axes are -1 to 0, negative ones count from the end");
  CHECK(error_of([&] {
          random_normal(b, {i32, {3}});
        }) == "random_normal: i32[3] is not a floating type; draw f32 and cast");
}

TEST_CASE_FIXTURE(Fixture, "pieces of a dimension say what is left of it") {
  const Value x = in({f32, {4, 6}});
  CHECK(error_of([&] { slice(x, 2, 0, 1); }) ==
        "slice: axis 2 of f32[4, 6]; axes are -2 to 1, negative ones count from the end");
  CHECK(error_of([&] { slice(x, 1, 4, -2); }) ==
        "slice: none of the 6 elements of dimension 1 of f32[4, 6] is between 4 and -2");
  CHECK(error_of([&] { slice(x, 1, 0, 6, 0); }) == "slice: the stride must be at least 1, not 0");
  CHECK(error_of([&] { split(x, 4); }) ==
        "split: dimension 1 of f32[4, 6] is not a multiple of 4 parts; use slice for unequal ones");
  CHECK(error_of([&] { pad(x, 0, -1, 0); }) ==
        "pad: -1 before, 0 after and 0 between the elements of f32[4, 6]; none may be negative");
  CHECK(error_of([&] { concatenate({}); }) == "concatenate: needs at least one part");
  CHECK(error_of([&] {
          concatenate({x, in({f32, {4, 5}})}, 0);
        }) ==
        "concatenate: part 1 is f32[4, 5], but part 0 is f32[4, 6]; only dimension 0 may differ");
  CHECK(error_of([&] {
          concatenate({x, in({bf16, {4, 6}})});
        }) ==
        "concatenate: part 1 is bf16[4, 6], but part 0 is f32[4, 6]; only dimension 1 may differ");
}

TEST_CASE_FIXTURE(Fixture, "lookups and orders along a dimension check types and shapes") {
  const Value x = in({f32, {4, 6}}), mask = in({u8, {4}});
  CHECK(error_of([&] {
          gather(x, in({f32, {3}}));
        }) ==
        "gather: x must have a floating type and ids i32 (x f32[4, 6], ids f32[3]); cast them");
  CHECK(error_of([&] {
          scatter_add(x, in({i32, {3}}), 5);
        }) ==
        "scatter_add: rows must be floating with the dimensions of ids and a width, and ids i32 "
        "(rows f32[4, 6], ids i32[3])");
  CHECK(error_of([&] {
          take_along_axis(x, in({i32, {3, 2}}));
        }) == "take_along_axis: x and ids may differ in dimension 1 alone (f32[4, 6], i32[3, 2])");
  CHECK(
      error_of([&] {
        take_along_axis(x, in({f32, {4, 2}}));
      }) ==
      "take_along_axis: x must have a floating type and ids i32 (f32[4, 6], f32[4, 2]); cast them");
  CHECK(error_of([&] { cumulative_sum(mask); }) ==
        "cumulative_sum: x is u8, the type of conditions (u8[4]); cast it");
  CHECK(error_of([&] { argmax(mask); }) ==
        "argmax: x is u8, the type of conditions (u8[4]); cast it");
  CHECK(error_of([&] { top_k(x, 7); }) ==
        "top_k: f32[4, 6] has no 7 elements in its last dimension");
  CHECK(error_of([&] { sort(x, 2); }) ==
        "sort: axis 2 of f32[4, 6]; axes are -2 to 1, negative ones count from the end");
}

TEST_CASE_FIXTURE(Fixture, "losses check logits and labels") {
  const Value logits = in({f32, {8, 10}});
  CHECK(error_of([&] {
          softmax_cross_entropy(logits, in({i32, {4}}));
        }) ==
        "softmax_cross_entropy: logits f32[8, 10] need labels i32[8], not i32[4]; "
        "pass class indices, one per row");
  CHECK(error_of([&] {
          softmax_cross_entropy(logits, in({f32, {8}}));
        }) ==
        "softmax_cross_entropy: logits f32[8, 10] need labels i32[8], not f32[8]; "
        "pass class indices, one per row");
  CHECK(error_of([&] {
          softmax_cross_entropy(logits, in({i32, {8}}), {.label_smoothing = 1});
        }) == "softmax_cross_entropy: label smoothing 1 is not in [0, 1)");
  CHECK(error_of([&] {
          softmax(in({i32, {4}}));
        }) == "softmax: i32[4] is not a floating type; cast it");
  CHECK(error_of([&] {
          softmax(in({f32, {}}));
        }) == "softmax: axis -1 of f32[]; axes are 0 to -1, negative ones count from the end");
  CHECK(error_of([&] { one_hot(logits, 3); }) == "one_hot: labels must be i32");
  CHECK(error_of([&] {
          one_hot(in({i32, {4}}), 0);
        }) == "one_hot: the number of classes must be at least 1, not 0");
}

TEST_CASE_FIXTURE(Fixture, "attention checks shapes, types and options") {
  const Value q = in({f32, {2, 3, 4, 8}}), k = in({f32, {2, 5, 2, 8}});
  CHECK(
      error_of([&] {
        attention(q, k, in({bf16, {2, 5, 2, 8}}));
      }) ==
      "attention: q, k and v must have one floating type, and k and v one shape (f32[2, 3, 4, 8], "
      "f32[2, 5, 2, 8], bf16[2, 5, 2, 8]); cast them");
  const Value three = in({f32, {2, 5, 3, 8}});
  CHECK(error_of([&] { attention(q, three, three); }) ==
        "attention: q must be [B, T, H, D], k and v [B, S, K, D], and K must divide H "
        "(f32[2, 3, 4, 8], f32[2, 5, 3, 8], f32[2, 5, 3, 8]); reshape features to heads");
  const Value wide = in({f32, {1, 2, 1, 300}});
  CHECK(error_of([&] { attention(wide, wide, wide); }) ==
        "attention: heads are 300 wide, but at most 256 is possible (f32[1, 2, 1, 300], "
        "f32[1, 2, 1, 300], f32[1, 2, 1, 300]); use more heads");
  CHECK(error_of([&] {
          attention(q, k, k, {.key_mask = in({u8, {2, 4}})});
        }) == "attention: the key mask must be u8[2, 5], not u8[2, 4]");
  CHECK(error_of([&] { attention(q, k, k, {.dropout = 1}); }) ==
        "attention: dropout rate 1 is not in [0, 1)");
  CHECK(error_of([&] { attention(q, k, k, {.scale = -1.0}); }) ==
        "attention: scale must be above 0, not -1");
}

TEST_CASE_FIXTURE(Fixture, "rotary, rms_norm and dropout check shapes, types and options") {
  const Value x = in({f32, {2, 3, 4, 8}});
  CHECK(error_of([&] {
          rotary(in({f32, {2, 3, 4, 7}}), in({i32, {3}}));
        }) == "rotary: x must be floating [B, T, H, D] with even D (f32[2, 3, 4, 7], i32[3])");
  CHECK(error_of([&] {
          rotary(x, in({i32, {4}}));
        }) == "rotary: positions must be i32 [T] or [B, T] (f32[2, 3, 4, 8], i32[4])");
  CHECK(error_of([&] {
          rotary(x, in({i32, {3}}), {.base = 0});
        }) == "rotary: base must be above 0, not 0");
  const auto scaled = [&](const RotaryScaling& scaling) {
    return error_of([&] { rotary(x, in({i32, {3}}), {.scaling = scaling}); });
  };
  CHECK(scaled({.factor = 0}) == "rotary: the scaling's factor must be above 0, not 0");
  CHECK(scaled({.factor = 2, .original_positions = -1}) ==
        "rotary: the scaling's original positions must be at least 0, not -1");
  CHECK(scaled({.factor = 2, .low_turns = 4, .high_turns = 4}) ==
        "rotary: the scaling's low turns must be above 0 and below its high turns, not 4 and 4");
  CHECK(error_of([&] {
          rms_norm(x, in({f32, {4}}));
        }) == "rms_norm: x f32[2, 3, 4, 8] needs a scale of shape [8], not f32[4]");
  CHECK(error_of([&] {
          rms_norm(x, in({bf16, {8}}));
        }) ==
        "rms_norm: x and scale must have one floating type (f32[2, 3, 4, 8], bf16[8]); cast them");
  CHECK(error_of([&] {
          rms_norm(x, in({f32, {8}}), 0);
        }) == "rms_norm: epsilon must be above 0, not 0");
  CHECK(error_of([&] { dropout(x, 1); }) == "dropout: rate 1 is not in [0, 1)");
  CHECK(error_of([&] {
          dropout(in({i32, {3}}), 0.5);
        }) == "dropout: i32[3] is not a floating type; cast it");
}

TEST_CASE_FIXTURE(Fixture, "functions of channels check shapes and types") {
  const Value x = in({bf16, {8, 4}}), good = in({f32, {4}});
  CHECK(error_of([&] {
          scale_shift(x, good, in({f32, {8}}));
        }) == "scale_shift: x bf16[8, 4] needs scale and shift f32[4], not f32[4] and f32[8]");
  CHECK(error_of([&] {
          scale_shift(in({f64, {8, 4}}), good, good);
        }) == "scale_shift: x f64[8, 4] needs scale and shift f64[4], not f32[4] and f32[4]");
  CHECK(error_of([&] {
          scale_shift(in({i32, {8, 4}}), good, good);
        }) == "scale_shift: i32[8, 4] is not a floating type; cast it");
  CHECK(error_of([&] {
          channel_sums(in({i32, {8, 4}}));
        }) == "channel_sums: i32[8, 4] is not a floating type; cast it");
  CHECK(error_of([&] { channel_sums(in({f32, {}})); }) == "channel_sums: f32[] has no channels");
}

TEST_CASE_FIXTURE(Fixture, "layer_norm checks shapes, types and epsilon") {
  const Value x = in({f32, {8, 4}}), good = in({f32, {4}}), wide = in({f32, {8}});
  CHECK(error_of([&] { layer_norm(x, good, wide); }) ==
        "layer_norm: x f32[8, 4] needs scale and bias of shape [4], not scale f32[4] and bias "
        "f32[8]");
  CHECK(error_of([&] {
          layer_norm(x, in({bf16, {4}}), good);
        }) ==
        "layer_norm: x, scale and bias must have one floating type (f32[8, 4], bf16[4], f32[4]); "
        "cast them");
  CHECK(error_of([&] {
          layer_norm(in({i32, {4}}), in({i32, {4}}), in({i32, {4}}));
        }) ==
        "layer_norm: x, scale and bias must have one floating type (i32[4], i32[4], i32[4]); cast "
        "them");
  CHECK(error_of([&] {
          layer_norm(in({f32, {}}), good, good);
        }) == "layer_norm: x is f32[]; it needs a last dimension to normalise");
  CHECK(error_of([&] { layer_norm(x, good, good, 0); }) ==
        "layer_norm: epsilon must be above 0, not 0");
  CHECK(error_of([&] { layer_norm(x, good, Value{}); }) ==
        "layer_norm: an operand is an empty Value");
}

TEST_CASE_FIXTURE(Fixture, "embedding checks its table and its ids") {
  const Value table = in({f32, {10, 4}}), ids = in({i32, {8}});
  CHECK(error_of([&] { embedding(ids, table); }) ==
        "embedding: table must have a floating type and ids i32 (i32[8], f32[10, 4]); cast them");
  CHECK(error_of([&] {
          embedding(in({f32, {10}}), ids);
        }) == "embedding: table must have 2 dimensions, rows and width (f32[10], i32[8])");
  CHECK(error_of([&] { embedding(table, Value{}); }) == "embedding: an operand is an empty Value");
}

TEST_CASE_FIXTURE(Fixture, "dispatch and combine check tokens, places, weights and results") {
  const Value x = in({f32, {2, 6, 4}}), places = in({i32, {2, 6, 2}}),
              weights = in({f32, {2, 6, 2}}), results = in({f32, {3, 2, 5, 4}});
  CHECK(error_of([&] { dispatch(places, places, 3, 5); }) ==
        "dispatch: needs floating tokens [G, S, M] and places (i32[2, 6, 2], i32[2, 6, 2])");
  CHECK(error_of([&] { dispatch(x, weights, 3, 5); }) ==
        "dispatch: needs places i32 [G, S, K] of all 2 groups (f32[2, 6, 4], f32[2, 6, 2])");
  CHECK(error_of([&] {
          dispatch(x, in({i32, {2, 7, 2}}), 3, 5);
        }) == "dispatch: 7 tokens have places, not 6 (f32[2, 6, 4], i32[2, 7, 2])");
  CHECK(error_of([&] { dispatch(x, places, 3, 0); }) ==
        "dispatch: 3 experts of 0 places; give at least 1 of each");
  CHECK(error_of([&] { dispatch(x, Value{}, 3, 5); }) == "dispatch: an operand is an empty Value");
  CHECK(error_of([&] { combine(x, places, weights); }) ==
        "combine: needs floating results [E, G, C, M] and places (f32[2, 6, 4], i32[2, 6, 2], "
        "f32[2, 6, 2])");
  CHECK(error_of([&] {
          combine(results, places, in({bf16, {2, 6, 2}}));
        }) ==
        "combine: the weights must be f32[2, 6, 2] (f32[3, 2, 5, 4], i32[2, 6, 2], bf16[2, 6, 2]); "
        "cast them");
  CHECK(error_of([&] { combine(results, places, Value{}); }) ==
        "combine: an operand is an empty Value");
  CHECK(error_of([&] {
          b.emit(ops::expert_products, {x, places, in({bf16, {3, 2, 5, 4}})});
        }) ==
        "expert_products: needs floating tokens [G, S, M] and results [E, G, C, M] (f32[2, 6, 4], "
        "i32[2, 6, 2], bf16[3, 2, 5, 4])");
}

TEST_CASE_FIXTURE(Fixture, "optimizer updates check their operands") {
  const Value w = in({f32, {3}}), other = in({f32, {4}}), scalar = in({f32, {}}),
              whole = in({i32, {3}});
  CHECK(error_of([&] {
          b.emit(ops::multi_tensor_sgd, {w, other, w, scalar});
        }) ==
        "multi_tensor_sgd: operand 1 has [4] where [3] is needed (f32[3], f32[4], f32[3], f32[])");
  CHECK(error_of([&] {
          b.emit(ops::multi_tensor_sgd, {w, w, whole, scalar});
        }) == "multi_tensor_sgd: i32[3] is not a floating type (f32[3], f32[3], i32[3], f32[])");
  CHECK(error_of([&] {
          b.emit(ops::multi_tensor_adam, {w, w});
        }) == "multi_tensor_adam: takes 6 operands but got 2 (f32[3], f32[3])");
}

}  // namespace error_test
