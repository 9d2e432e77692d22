// What becomes of a NaN behind a product and relu.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/cuda.h"
#include "support/error_text.h"
#include "support/mlp_step.h"

namespace cuda_nan_test {

using namespace alpa;
using namespace alpa::testing;
using alpa::testing::error_of;

namespace {

/// Two nn::Dense layers, ReLU between them.
Executable loaded(DType dtype, bool check_finite) {
  Serial method;
  method.executor.tune = false;
  method.executor.check_finite = check_finite;
  return parallelize(dense_mlp_step<nn::ReLU>(dtype, 2), method, Cluster::local(1, "cuda"));
}

/// The first step's loss with `value` as the first layer's weights of unit 3.
double loss_with(const Executable& executable, DType dtype, float value) {
  TrainState state = executable.init(0);
  Array kernel = state["0.kernel"].to_host().cast(f32), batch({f32, {64, 128}});
  for (std::int64_t i = 0; i < 128; ++i) kernel.mutable_elements_as<float>()[i * 128 + 3] = value;
  for (std::int64_t i = 0; i < batch.elements(); ++i)
    batch.mutable_elements_as<float>()[i] = static_cast<float>(i % 7) - 3;
  state["0.kernel"] = kernel.cast(dtype);
  const Array x = batch.cast(dtype);
  return executable.run(state, {{"x", x}, {"y", x}}).loss();
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("check_finite finds a NaN that only relu could have hidden") {
  if (no_cuda()) return;
  for (const DType dtype : {f32, bf16}) {
    const Executable executable = loaded(dtype, true);
    CHECK(std::isfinite(loss_with(executable, dtype, 0)));
    CHECK(error_of([&] { loss_with(executable, dtype, kNan); }) ==
          "metric \"loss\" is nan in step 1; lower the learning rate, clip gradients, "
          "or look for a division by zero or log of 0");
  }
}

TEST_CASE("without check_finite a NaN before relu stays one or counts as 0") {
  if (no_cuda()) return;
  for (const DType dtype : {f32, bf16}) {
    const Executable executable = loaded(dtype, false);
    const double loss = loss_with(executable, dtype, kNan);
    CHECK((std::isnan(loss) || loss == loss_with(executable, dtype, 0)));
  }
}

}  // namespace cuda_nan_test
