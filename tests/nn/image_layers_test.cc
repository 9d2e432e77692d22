// Layers that U-Nets, GANs and diffusion models need: transposed convolution, upsampling, group
// normalisation, against loops over elements, on one device and on several.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "support/error_text.h"

namespace image_layers_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

Array numbers(const Shape& shape, double frequency) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < num_elements(shape); ++i)
    values.push_back(std::sin(frequency * static_cast<double>(i + 1)));
  return {values, shape};
}

/// What `model` makes of arrays, under several plans, which must agree.
Array computed(const BatchData& batch, const std::vector<std::string>& whole,
               const std::function<Value(const Batch&)>& model) {
  const TrainingStep step = prediction_step(inputs_of(batch, whole),
                                            [=](const Batch& b) { return Predictions(model(b)); });
  const auto run = [&](const Method& method, int devices) {
    const Executable predict = parallelize(step, method, Cluster::local(devices));
    TrainState state = predict.init(0);
    return predict.run(state, batch).outputs["prediction"];
  };
  const Array one = run(Serial{}, 1);
  for (const Array& other :
       {run(ShardParallel{.mesh_shape = {2, 2}}, 4), run(DataParallel{.num_micro_batches = 2}, 1)})
    for (std::int64_t i = 0; i < one.elements(); ++i)
      CHECK(other.to_doubles()[i] == doctest::Approx(one.to_doubles()[i]).epsilon(1e-12));
  return one;
}

/// y[b, i·stride - before + p·dilation, …, c] += x[b, i, …, f] · kernel[p, …, c, f].
std::vector<double> transposed(const Array& x, const Array& kernel, const ConvolutionOptions& o,
                               const Shape& y) {
  const Shape &from = x.shape(), &k = kernel.shape();
  std::vector<double> result(num_elements(y));
  const std::int64_t features = from[3] / o.groups;
  for (std::int64_t b = 0; b < from[0]; ++b)
    for (std::int64_t i = 0; i < from[1]; ++i)
      for (std::int64_t j = 0; j < from[2]; ++j)
        for (std::int64_t p = 0; p < k[0]; ++p)
          for (std::int64_t q = 0; q < k[1]; ++q) {
            const std::int64_t row = i * o.stride[0] - o.pad_before[0] + p * o.dilation[0],
                               column = j * o.stride[1] - o.pad_before[1] + q * o.dilation[1];
            if (row < 0 || row >= y[1] || column < 0 || column >= y[2]) continue;
            for (std::int64_t c = 0; c < k[2]; ++c)
              for (std::int64_t f = 0; f < from[3]; ++f)
                result[((b * y[1] + row) * y[2] + column) * y[3] + f / features * k[2] + c] +=
                    x.at<double>(b, i, j, f) * kernel.at<double>(p, q, c, f);
          }
  return result;
}

void check_close(const Array& got, const Shape& shape, const std::vector<double>& expected) {
  CHECK(got.shape() == shape);
  const std::vector<double> values = got.to_doubles();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

void check_transposed(const Shape& x, const Shape& kernel, const ConvolutionOptions& options,
                      const std::array<std::int64_t, 2>& output_padding, const Shape& y) {
  const BatchData batch{{"x", numbers(x, 0.7)}, {"kernel", numbers(kernel, 1.3)}};
  const Array got = computed(batch, {"kernel"}, [=](const Batch& b) {
    return conv2d_transpose(b["x"], b["kernel"], options, output_padding);
  });
  check_close(got, y, transposed(batch.at("x"), batch.at("kernel"), options, y));
}

}  // namespace

TEST_CASE("a transposed convolution spreads every pixel over its window, as loops do") {
  check_transposed({4, 3, 2, 4}, {2, 2, 6, 4}, {.stride = {2, 2}}, {0, 0}, {4, 6, 4, 6});
  check_transposed({2, 3, 4, 2}, {3, 3, 4, 2},
                   {.stride = {2, 2}, .pad_before = {1, 1}, .pad_after = {1, 1}}, {1, 1},
                   {2, 6, 8, 4});
  check_transposed({2, 3, 2, 4}, {3, 2, 2, 4}, {.dilation = {2, 1}, .groups = 2}, {0, 0},
                   {2, 7, 3, 4});
}

TEST_CASE("the layer makes images `stride` times larger, or by whole windows") {
  const auto shape = [](const nn::ConvTranspose2d& layer) {
    return computed({{"x", numbers({2, 3, 4, 2}, 1)}}, {},
                    [=](const Batch& b) { return layer(b["x"]); })
        .shape();
  };
  CHECK(shape(nn::ConvTranspose2d(5, {4, 4})) == Shape{2, 6, 8, 5});
  CHECK(shape(nn::ConvTranspose2d(5, {3, 3}, {.stride = {2, 1}})) == Shape{2, 6, 4, 5});
  CHECK(shape(nn::ConvTranspose2d(5, {3, 3}, {.padding = nn::Padding::valid})) ==
        Shape{2, 7, 9, 5});
  CHECK(error_of([] {
          nn::ConvTranspose2d(5, {1, 2});
        }) ==
        "nn::ConvTranspose2d: 5 features of 1 x 2 windows with stride 2 x 2; give at least 1 of "
        "each, windows no smaller than the stride, and padding same or valid");
}

TEST_CASE("symmetric padding adds half a window on either side, as PyTorch's models do") {
  const Array x(std::vector<double>{1, 2, 3, 4, 8, 7, 6, 5}, {2, 4, 1, 1});
  const auto largest = [&](nn::Padding padding) {
    return computed({{"x", x}}, {},
                    [=](const Batch& b) {
                      return nn::MaxPool{{3, 1}, {2, 1}, padding}(b["x"]);
                    })
        .to_doubles();
  };
  CHECK(largest(nn::Padding::symmetric) == std::vector<double>{2, 4, 8, 7});  // of _12, 234
  CHECK(largest(nn::Padding::same) == std::vector<double>{3, 4, 8, 6});       // of 123, 34_
}

TEST_CASE("upsampling repeats rows and columns") {
  const Array x(std::vector<double>{1, 2, 3, 4}, {2, 1, 2, 1});
  const Array got = computed({{"x", x}}, {}, [](const Batch& b) {
    return nn::Upsample{{2, 3}}(b["x"]);
  });
  check_close(got, {2, 2, 6, 1},
              {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
}

TEST_CASE("group normalisation gives each group of an example mean 0 and variance 1") {
  const Array x = numbers({4, 3, 2, 6}, 0.3);
  const nn::GroupNorm norm(3, {.epsilon = 1e-3});
  const Array got = computed({{"x", x}}, {}, [=](const Batch& b) { return norm(b["x"]); });
  std::vector<double> expected(x.elements());
  for (int b = 0; b < 4; ++b)
    for (int group = 0; group < 3; ++group) {
      const auto each = [&](const auto& visit) {
        for (int p = 0; p < 6; ++p)
          for (int c = 2 * group; c < 2 * group + 2; ++c) visit((b * 6 + p) * 6 + c);
      };
      double mean = 0, variance = 0;
      each([&](int i) { mean += x.to_doubles()[i] / 12; });
      each([&](int i) { variance += std::pow(x.to_doubles()[i] - mean, 2) / 12; });
      each([&](int i) { expected[i] = (x.to_doubles()[i] - mean) / std::sqrt(variance + 1e-3); });
    }
  check_close(got, {4, 3, 2, 6}, expected);
  CHECK(error_of([] { nn::GroupNorm(0); }) ==
        "nn::GroupNorm: 0 groups and epsilon 1e-05; groups must be at least 1, epsilon above 0");
  CHECK(
      error_of([&] {
        prediction_step({{"x", {f32, {2, 4}}}}, [=](const Batch& b) {
          return norm(b["x"]);
        }).trace(1);
      }) ==
      "nn::GroupNorm(3): the input is f32[2, 4]; it must be [B, ..., C], C divisible by 3 groups");
}

TEST_CASE("a small U-Net of these layers trains in half precision, and the same on devices") {
  const nn::Sequential net{nn::Conv2d(8, {3, 3}, {.stride = {2, 2}}),
                           nn::GroupNorm(2),
                           nn::GELU{.exact = true},
                           nn::Upsample{},
                           nn::Conv2d(4, {3, 3}, {.stride = {2, 2}}),
                           nn::ConvTranspose2d(3, {4, 4})};
  const BatchData batch{{"x", numbers({4, 8, 8, 3}, 0.4).cast(f32)}};
  const TrainingStep step = training_step(
      inputs_of(batch),
      [=](const Batch& b) { return nn::mean_squared_error(net(b["x"]), sin(3 * b["x"])); },
      optim::Adam{.learning_rate = 0.01}, {.precision = bf16_mixed});
  std::vector<double> losses;
  for (int devices : {1, 2}) {
    const Executable train = parallelize(step, DataParallel{}, Cluster::local(devices));
    TrainState state = train.init(0);
    const double first = train.run(state, batch).loss();
    for (int i = 0; i < 30; ++i) train.run(state, batch);
    losses.push_back(train.run(state, batch).loss());
    CHECK(losses.back() < 0.8 * first);
  }
  CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(0.02));
}

TEST_CASE("mistakes with these operators are named") {
  const auto error = [](const std::function<void(Value)>& build) {
    return error_of([&] {
      custom_step({{"x", {f32, {2, 3, 4, 6}}}}, [&](Builder&, const Batch& b) {
        build(b["x"]);
      }).trace(1);
    });
  };
  CHECK(error([](Value x) {
          conv2d_transpose(x, constant(x, 1, f32, {2, 2, 6, 5}));
        }) ==
        "conv2d_transpose: x has 6 channels but the kernel takes 5 (x f32[2, 3, 4, 6], kernel "
        "f32[2, 2, 6, 5]); kernels are [kh, kw, C / groups, channels of x]");
  CHECK(error([](Value x) {
          conv2d_transpose(x, constant(x, 1, f32, {2, 2, 5, 6}), {.stride = {2, 2}}, {0, 2});
        }) ==
        "conv2d_transpose: an output padding of 2 with stride 2; give 0 or more, and less than the "
        "stride");
  CHECK(error([](Value x) {
          conv2d_transpose(x, constant(x, 1, f32, {1, 1, 5, 6}),
                           {.pad_before = {2, 0}, .pad_after = {1, 0}});
        }) ==
        "conv2d_transpose: x f32[2, 3, 4, 6] and kernel f32[1, 1, 5, 6] leave no row beside the "
        "padding");
  CHECK(error([](Value x) {
          upsample(x, {2, 0});
        }) ==
        "upsample: x is f32[2, 3, 4, 6] and the factors are 2 x 0; x must be [B, H, W, C], the "
        "factors at least 1");
}

}  // namespace image_layers_test
