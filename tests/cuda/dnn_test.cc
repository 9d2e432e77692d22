#include "src/cuda/dnn.h"

#include <cudnn.h>

#include "device_call.h"

namespace alpa {
namespace {

TEST_CASE("cuDNN runs a convolution and an attention, or says in one line what it does not") {
  if (testing::no_device()) return;
  const std::string report = cuda::try_dnn(0);
  CHECK(report.find('\n') == std::string::npos);
  if (CUDNN_VERSION >= 91300)
    CHECK(report == "cuDNN convolution and attention run");
  else
    CHECK(report.find("; attention fails: cuDNN ") != std::string::npos);
}

}  // namespace
}  // namespace alpa
