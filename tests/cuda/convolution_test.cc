// How convolutions are described to cuDNN, and what it proposes for them on cards that need not be
// there.
#include "kernels/cuda/convolution_plan.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <vector>

#include "device_call.h"
#include "dnn_cards.h"
#include "ops/run_case.h"
#include "src/cuda/dnn_convolution.h"
#include "src/cuda/dnn_library.h"
#include "support/error_text.h"

namespace alpa::convolution_test {
namespace {

namespace cases = testing::cases;
using cuda::ConvolutionLaunch;
using cuda::ConvolutionResult;
using kernels::WindowDim;
using testing::Card;
using testing::kCards;
using testing::properties_of;

constexpr ConvolutionResult kResults[] = {ConvolutionResult::y, ConvolutionResult::x,
                                          ConvolutionResult::kernel};

/// Of as many windows as the padding allows.
WindowDim dim(std::int64_t in, std::int64_t size, std::int64_t stride, std::int64_t before,
              std::int64_t after, std::int64_t dilation = 1) {
  const std::int64_t room = in + before + after - (size - 1) * dilation - 1;
  return {in, room / stride + 1, size, stride, dilation, before};
}

TEST_CASE("padding behind equals that before where it makes no difference, else is the least") {
  CHECK(cuda::padding_after(dim(56, 3, 1, 1, 1)) == 1);
  CHECK(cuda::padding_after(dim(56, 3, 2, 1, 0)) == 1);  // no window reaches row 57
  CHECK(cuda::padding_after(dim(56, 3, 2, 0, 1)) == 1);
  CHECK(cuda::padding_after(dim(57, 3, 2, 0, 1)) == 0);
  CHECK(cuda::padding_after(dim(8, 2, 1, 1, 0)) == 0);
  CHECK(cuda::padding_after(dim(8, 3, 1, 4, 2, 2)) == 2);
  CHECK(cuda::padding_after(dim(7, 3, 4, 5, 0)) == 0);
}

TEST_CASE("scratch is the kernel's copy and twice the tensors, at most 256 MiB of workspace") {
  const WindowDim side = dim(8, 3, 1, 1, 1);
  ConvolutionLaunch launch{
      ConvolutionResult::y, bf16, {.batch = 2, .channels = 4, .features = 8, .h = side, .w = side}};
  cuda::ConvolutionScratch scratch = cuda::convolution_scratch(launch);
  CHECK(scratch.workspace == 768);  // 3·3·4·8·2 bytes = 576
  CHECK(scratch.workspace_bytes == (2 * 2 * (512 + 288 + 1024) + 255) / 256 * 256);
  CHECK(scratch.bytes == scratch.workspace + scratch.workspace_bytes + 256);
  launch.shape.batch = 1 << 20;
  CHECK(cuda::convolution_scratch(launch).workspace_bytes == std::int64_t{256} << 20);
  launch.shape.batch = 0;
  CHECK(cuda::convolution_scratch(launch).bytes == 0);
  launch.shape.batch = 2, launch.dtype = f64;
  CHECK(cuda::convolution_scratch(launch).bytes == 0);
}

struct Layer {
  const char* name;
  kernels::ConvolutionShape shape;
};

/// Of ResNet-50 and odd ones.
const Layer kLayers[] = {
    {"stem", {32, 3, 64, 1, dim(224, 7, 2, 3, 3), dim(224, 7, 2, 3, 3)}},
    {"56", {32, 64, 64, 1, dim(56, 3, 1, 1, 1), dim(56, 3, 1, 1, 1)}},
    {"56 to 28", {32, 128, 128, 1, dim(56, 3, 2, 1, 1), dim(56, 3, 2, 1, 1)}},
    {"shortcut", {32, 256, 512, 1, dim(56, 1, 2, 0, 0), dim(56, 1, 2, 0, 0)}},
    {"7", {32, 512, 512, 1, dim(7, 3, 1, 1, 1), dim(7, 3, 1, 1, 1)}},
    {"dilated", {8, 64, 64, 1, dim(28, 3, 1, 2, 2, 2), dim(28, 3, 1, 2, 2, 2)}},
    {"uneven", {8, 64, 64, 1, dim(28, 3, 2, 0, 1), dim(28, 3, 2, 0, 1)}},
    {"odd channels", {8, 33, 31, 1, dim(28, 3, 1, 1, 1), dim(13, 3, 1, 1, 1)}},
    {"groups", {8, 128, 128, 32, dim(28, 3, 1, 1, 1), dim(28, 3, 1, 1, 1)}},
    {"depthwise", {8, 64, 64, 64, dim(28, 3, 1, 1, 1), dim(28, 3, 1, 1, 1)}},
    {"depthwise, two features of each", {8, 64, 128, 64, dim(28, 3, 2, 0, 1), dim(28, 3, 2, 0, 1)}},
    {"small", {2, 3, 2, 1, dim(4, 3, 1, 1, 1), dim(5, 3, 1, 1, 1)}},
};

TEST_CASE(
    "cuDNN has an engine within the workspace for layers of all kinds, with or without a card") {
  for (const Card& card : kCards) {
    const std::optional<cuda::DnnDescriptor> properties = properties_of(card);
    if (!properties) return;
    std::string first;  // by type, of how many launches the first proposal is taken
    for (const DType dtype : {bf16, f16, f32}) {
      int launches = 0, firsts = 0;
      for (const Layer& layer : kLayers)
        for (const ConvolutionResult result : kResults) {
          const ConvolutionLaunch launch{result, dtype, layer.shape};
          CAPTURE(std::string(card.name));
          CAPTURE(cuda::to_string(launch));
          const cuda::DnnEngines engines({.properties = &*properties},
                                         cuda::convolution_problem(launch), false);
          const auto plans = engines.plans(1);
          REQUIRE(plans.size() == 1);
          CHECK(plans[0].plan->workspace_bytes() <=
                cuda::convolution_scratch(launch).workspace_bytes);
          ++launches, firsts += plans[0].place == 0 ? 1 : 0;
        }
      first += fmt::format(", {} of {} in {}", firsts, launches, name_of(dtype));
    }
    MESSAGE("cuDNN " << cuda::dnn().version() << ", " << std::string(card.name)
                     << ": its first proposal" << first);
  }
}

TEST_CASE("cuDNN has an engine for every convolution of the case table that is not in f64") {
  const std::optional<cuda::DnnDescriptor> properties = properties_of(kCards[1]);
  if (!properties) return;
  int rows = 0;
  for (const cases::Case& row : cases::all()) {
    if (!row.op->name.starts_with("conv2d")) continue;
    const Attributes attributes = row.attributes;
    std::vector<testing::HostTensor> operands;
    for (const cases::Operand& operand : row.operands) operands.emplace_back(operand.type);
    const ConvolutionLaunch launch = cuda::convolution_launch(
        row.op->name, testing::planned_call(operands, cases::result_types(row), attributes));
    if (!cuda::suits_dnn(launch)) continue;
    CAPTURE(cuda::to_string(launch));
    CHECK(cuda::DnnEngines({.properties = &*properties}, cuda::convolution_problem(launch), false)
              .plans(1)
              .size() == 1);
    ++rows;
  }
  CHECK(rows >= 40);
}

TEST_CASE("tensors at places that were seen before need no new variant pack") {
  if (!properties_of(kCards[0])) return;
  cuda::DnnPacks packs;
  alignas(256) char memory[64];
  const auto at = [&](int x) -> const cuda::DnnDescriptor* {
    const std::pair<std::int64_t, void*> tensors[] = {
        {cuda::kDnnX, memory + x}, {cuda::kDnnKernel, memory}, {cuda::kDnnY, memory}};
    return &packs.of(tensors, memory);
  };
  const cudnnBackendDescriptor_t first = at(0)->get();
  CHECK(at(16)->get() != first);
  CHECK(at(0)->get() == first);
}

TEST_CASE("cuDNN gives the reason why it refuses a convolution") {
  if (!properties_of(kCards[0])) return;
  const WindowDim side = dim(4, 3, 1, 1, 1);
  const ConvolutionLaunch wrong{
      ConvolutionResult::y,
      f32,
      {.batch = 2, .channels = 8, .features = 6, .groups = 4, .h = side, .w = side}};
  CHECK(testing::error_of([&] { cuda::dnn_convolution(wrong); })
            .starts_with("cudnnBackendFinalize [0 != wDimA[0] % g]: CUDNN_STATUS_BAD_PARAM (2000), "
                         "at dnn_graph.cc:"));
}

}  // namespace
}  // namespace alpa::convolution_test
