// Functions made of slices, lookups and orders, against hand-worked numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "alpa/autograd/gradient.h"
#include "alpa/ops/ops.h"
#include "src/ir/recorder.h"
#include "support/evaluate.h"

namespace piece_function_test {

using namespace alpa;

namespace {

using testing::tensor;

std::vector<double> value_of(const std::vector<testing::HostTensor>& x,
                             const std::function<Value(const Values&)>& f) {
  Recorder b;
  Values in;
  testing::Tensors given;
  for (const testing::HostTensor& t : x) {
    const std::string name = "x" + std::to_string(in.size());
    in.push_back(b.input(InputKind::batch, name, t.type));
    given[name] = t;
  }
  testing::output(b, "y", f(in));
  return testing::evaluate(b.finish(), given).update("y");
}

using Numbers = std::vector<double>;

const testing::HostTensor kX = tensor({f32, {2, 3}}, {1, 2, 3, 4, 5, 6});

}  // namespace

TEST_CASE("slices count from either end, keep a stride, and take what is there") {
  CHECK(value_of({kX}, [](const Values& v) { return slice(v[0], -1, -2, 3); }) ==
        Numbers{2, 3, 5, 6});
  CHECK(value_of({kX}, [](const Values& v) { return slice(v[0], 1, 0, 99, 2); }) ==
        Numbers{1, 3, 4, 6});
  CHECK(value_of({kX}, [](const Values& v) {
          const Values parts = split(v[0], 3, 1);
          return concatenate({parts[2], parts[0]});
        }) == Numbers{3, 1, 6, 4});
  CHECK(value_of({kX}, [](const Values& v) { return pad(v[0], 0, 1, 0, 7); }) ==
        Numbers{7, 7, 7, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("a slice, a padding or a concatenation of all there is makes no node") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f32, {2, 3}});
  const int nodes = b.num_nodes();
  CHECK(slice(x, 1, 0, 3).id == x.id);
  CHECK(slice(x, 1, -7, 9).id == x.id);
  CHECK(pad(x, 0, 0, 0).id == x.id);
  CHECK(concatenate({x}).id == x.id);
  CHECK(b.num_nodes() == nodes);
}

TEST_CASE("gather puts the dimensions of the ids in the place of the axis") {
  const auto ids = tensor({i32, {2}}, {2, 0});
  CHECK(value_of({kX, ids}, [](const Values& v) { return gather(v[0], v[1], 1); }) ==
        Numbers{3, 1, 6, 4});
  CHECK(value_of({kX, tensor({i32, {1, 2}}, {1, 1})}, [](const Values& v) {
          const Value y = gather(v[0], v[1], -2);
          CHECK(y.shape() == Shape{1, 2, 3});
          return y;
        }) == Numbers{4, 5, 6, 4, 5, 6});
  CHECK(value_of({kX, tensor({i32, {}}, {1})},
                 [](const Values& v) { return gather(v[0], v[1], 1); }) == Numbers{2, 5});
}

TEST_CASE("scatter_add adds rows of one id") {
  CHECK(value_of({kX, tensor({i32, {2}}, {2, 2})}, [](const Values& v) {
          return scatter_add(v[0], v[1], 4);
        }) == Numbers{0, 0, 0, 0, 0, 0, 5, 7, 9, 0, 0, 0});
}

TEST_CASE("sort works along any axis; equal elements keep their order") {
  const auto x = tensor({f32, {3, 2}}, {2, 1, 1, 1, 2, 0});
  CHECK(value_of({x}, [](const Values& v) { return sort(v[0], 0).values; }) ==
        Numbers{1, 0, 2, 1, 2, 1});
  CHECK(value_of({x}, [](const Values& v) { return sort(v[0], 0).indices; }) ==
        Numbers{1, 2, 0, 0, 2, 1});
  CHECK(value_of({x}, [](const Values& v) { return sort(v[0], 0, true).indices; }) ==
        Numbers{0, 0, 2, 1, 1, 2});
}

TEST_CASE("NaN is the largest, wherever it is") {
  const auto x = tensor({f32, {4}}, {1, NAN, INFINITY, -INFINITY});
  CHECK(value_of({x}, [](const Values& v) { return argmax(v[0]); }) == Numbers{1});
  CHECK(value_of({x}, [](const Values& v) { return top_k(v[0], 3).indices; }) == Numbers{1, 2, 0});
  CHECK(value_of({x}, [](const Values& v) { return sort(v[0]).indices; }) == Numbers{3, 0, 2, 1});
}

TEST_CASE("cross-entropy with smoothed labels, and with ignored rows") {
  const auto logits = tensor({f64, {2, 2}}, {0, 0, 3, 3}), labels = tensor({i32, {2}}, {0, 1});
  const auto smoothed = [](const Values& v) {
    return softmax_cross_entropy(v[0], v[1], {.label_smoothing = 0.25});
  };
  for (const double loss : value_of({logits, labels}, smoothed))
    CHECK(loss == doctest::Approx(std::log(2)));
  // p = (1/4, 3/4): 0.75·log 4 + 0.25·(log 4 + log(4/3))/2 of label 0
  const auto uneven = tensor({f64, {1, 2}}, {0, std::log(3)});
  CHECK(value_of({uneven, tensor({i32, {1}}, {0})}, smoothed)[0] ==
        doctest::Approx(0.75 * std::log(4) + 0.125 * (std::log(4) + std::log(4.0 / 3))));
  CHECK(value_of({logits, labels}, [](const Values& v) {
          return softmax_cross_entropy(v[0], v[1], {.ignored_label = 1});
        })[1] == 0);
}

namespace {

/// The gradient of Σ w · norm(x) for x and w [rows, 2], where norm is batch normalisation.
std::vector<double> gradient_through_norm(DType dtype, int rows) {
  Numbers x, w;
  for (int i = 0; i < 2 * rows; ++i) {
    x.push_back(static_cast<double>(i * 37 % 64) / 16 - 1);  // exact in bf16
    w.push_back(static_cast<double>(i * 23 % 128) / 64 - 0.75);
  }
  const auto loss = [=](const Values& v) {
    const Values sums = channel_sums(v[0]);
    const Value mean = sums[0] * (1.0 / rows), variance = sums[1] * (1.0 / rows) - square(mean),
                gain = rsqrt(variance + 1e-5);
    const Value y = scale_shift(v[0], gain, -(mean * gain));
    return gradient(sum(cast(y * v[1], gain.dtype())), {v[0]})[0];
  };
  return value_of({tensor({dtype, {rows, 2}}, x), tensor({dtype, {rows, 2}}, w)}, loss);
}

}  // namespace

TEST_CASE("the gradient of batch normalisation in half precision is rounded once, from f32") {
  const int rows = 64;
  const Numbers exact = gradient_through_norm(f64, rows);
  for (const auto& [dtype, rounding] : {std::pair(bf16, 0x1p-8), std::pair(f16, 0x1p-11)}) {
    CAPTURE(name_of(dtype));
    const Numbers rounded = gradient_through_norm(dtype, rows);
    // besides, sums in f32 of terms up to 2
    for (int i = 0; i < 2 * rows; ++i)
      CHECK(std::abs(rounded[i] - exact[i]) <= 1.001 * rounding * std::abs(exact[i]) + 0x1p-20);
  }
}

}  // namespace piece_function_test
