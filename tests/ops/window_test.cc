// conv2d, max_pool and average_pool as models call them: what they append, and users' mistakes.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "support/error_text.h"

namespace window_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

struct Images {
  Recorder b;
  int count = 0;
  Value in(DType dtype, const Shape& shape) {
    return b.input(InputKind::batch, "x" + std::to_string(count++), {dtype, shape});
  }
  Value x = in(f32, {2, 6, 5, 4}), kernel = in(f32, {3, 3, 4, 8});

  const OpDef* op_of(Value value) { return b.node(b.producer(value.id)).op; }
};

}  // namespace

TEST_CASE_FIXTURE(Images, "a 1 x 1 convolution without stride is a product over the channels") {
  const Value pointwise = in(f32, {1, 1, 4, 8});
  CHECK(op_of(conv2d(x, pointwise)) == &ops::einsum);
  CHECK(op_of(conv2d(x, pointwise, {.stride = {2, 2}})) == &ops::conv2d);
  CHECK(op_of(conv2d(x, kernel)) == &ops::conv2d);
}

TEST_CASE_FIXTURE(Images, "conv2d checks types, channels, groups and extents") {
  CHECK(error_of([&] { conv2d(x, Value{}); }) == "conv2d: an operand is an empty Value");
  CHECK(error_of([&] {
          conv2d(x, in(bf16, {3, 3, 4, 8}));
        }) ==
        "conv2d: both operands must have one floating type (f32[2, 6, 5, 4], bf16[3, 3, 4, 8]); "
        "cast them");
  CHECK(error_of([&] {
          conv2d(x, in(f32, {3, 3, 4}));
        }) ==
        "conv2d: x must be [B, H, W, C] and the kernel [kh, kw, C / groups, F] (f32[2, 6, 5, 4], "
        "f32[3, 3, 4])");
  CHECK(error_of([&] { conv2d(x, kernel, {.groups = 2}); }) ==
        "conv2d: x has 4 channels but the kernel takes 4 in each of 2 groups (f32[2, 6, 5, 4], "
        "f32[3, 3, 4, 8])");
  CHECK(error_of([&] {
          conv2d(x, in(f32, {3, 3, 1, 6}), {.groups = 4});
        }) ==
        "conv2d: 4 groups do not divide the kernel's 6 features (f32[2, 6, 5, 4], f32[3, 3, 1, "
        "6])");
  CHECK(error_of([&] { conv2d(x, kernel, {.groups = 0}); }) == "conv2d: 0 groups; give at least 1");
  CHECK(error_of([&] {
          conv2d(x, kernel, {.stride = {0, 1}});
        }) == "conv2d: the stride is 0 x 1; both must be at least 1");
  CHECK(error_of([&] {
          conv2d(x, kernel, {.dilation = {1, -1}});
        }) == "conv2d: the dilation is 1 x -1; both must be at least 1");
  CHECK(error_of([&] {
          conv2d(x, kernel, {.pad_after = {0, -1}});
        }) == "conv2d: the padding of columns is 0 before and -1 after; neither may be negative");
  CHECK(error_of([&] {
          conv2d(x, kernel, {.dilation = {1, 3}, .pad_before = {0, 1}});
        }) ==
        "conv2d: windows reach over 7 columns, but x has 6 with its padding (f32[2, 6, 5, 4], "
        "f32[3, 3, 4, 8])");
}

TEST_CASE_FIXTURE(Images, "poolings check their image and their windows") {
  CHECK(error_of([&] { max_pool(Value{}); }) == "max_pool: the operand is an empty Value");
  CHECK(error_of([&] {
          max_pool(in(i32, {2, 6, 5, 4}));
        }) == "max_pool: x must be floating, [B, H, W, C] (i32[2, 6, 5, 4])");
  CHECK(error_of([&] {
          average_pool(in(f32, {2, 6}));
        }) == "average_pool: x must be floating, [B, H, W, C] (f32[2, 6])");
  CHECK(error_of([&] {
          average_pool(x, {.window = {0, 2}});
        }) == "average_pool: the window is 0 x 2; both must be at least 1");
  CHECK(error_of([&] {
          max_pool(x, {.pad_before = {2, 0}});
        }) ==
        "max_pool: the padding of rows is 2 before and 0 after; it must be below the window's 2");
  CHECK(error_of([&] {
          max_pool(x, {.window = {7, 2}});
        }) ==
        "max_pool: windows reach over 7 rows, but x has 6 with its padding (f32[2, 6, 5, 4])");
}

}  // namespace window_test
