#include "src/cuda/discovery.h"

#include "device_call.h"
#include "src/cuda/dnn_attention.h"
#include "src/cuda/dnn_library.h"
#include "support/error_text.h"

namespace alpa::dnn_test {
namespace {

TEST_CASE("cuDNN runs a convolution and an attention, or does not load") {
  if (testing::no_device()) return;
  const std::string report = cuda::try_dnn(0);
  if (report.starts_with("cuDNN does not load: ")) return;
  if (cuda::dnn().version() < cuda::kLeastAttentionVersion) {
    CHECK(report.starts_with("cuDNN convolution runs; attention fails: cuDNN is 9."));
    CHECK(
        report.ends_with(", which has known errors here; install 9.16.0 or later, or name its "
                         "folder in LD_LIBRARY_PATH"));
    return;
  }
  CHECK(report == "cuDNN convolution and attention run");
}

TEST_CASE("a cuDNN that is not there is one line that says how to get it") {
  const std::string text = testing::error_of([] { cuda::load_dnn("libno_cudnn.so.9"); });
  CHECK(
      text.starts_with("cuDNN does not load: libno_cudnn.so.9: cannot open shared object file: "
                       "No such file or directory; install libcudnn9-cuda-"));
  CHECK(text.ends_with(", or name its folder in LD_LIBRARY_PATH"));
}

TEST_CASE("a library that is not cuDNN is told from one") {
  CHECK(testing::error_of([] { cuda::load_dnn("libm.so.6"); }) ==
        "cuDNN has no function cudnnGetVersion; install cuDNN 9");
}

}  // namespace
}  // namespace alpa::dnn_test
