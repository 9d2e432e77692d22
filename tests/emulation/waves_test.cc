// How kernels of our own fill a card at the shapes of scripts/count_step: grids as they are
// captured here, registers and shared memory of the machine code for sm_90.
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cuda/device_run.h"
#include "emulation.h"
#include "src/ir/rule.h"
#include "src/ops/all_ops.h"
#include "support/sass.h"

namespace alpa::waves_test {
namespace {

using namespace testing;

constexpr std::int64_t kMultiprocessors = 132;  // of an H200

struct Call {
  const char* what;
  const OpDef* op;
  std::vector<TensorType> operands;
  Attributes attributes = {};
};

/// Adam of GPT-350M: a table of 368 tensors, and one of the other 20.
Call adam() {
  constexpr std::int64_t kWidth = 1024, kVocabulary = 51200, kTokens = 1024;
  std::vector<Shape> parameters = {{kVocabulary, kWidth}, {kTokens, kWidth}, {kWidth}, {kWidth}};
  for (int layer = 0; layer < 24; ++layer) {
    for (int i = 0; i < 4; ++i) parameters.insert(parameters.end(), {{kWidth, kWidth}, {kWidth}});
    for (const Shape& shape : {Shape{kWidth, 4 * kWidth}, Shape{4 * kWidth, kWidth}})
      parameters.insert(parameters.end(), {shape, {shape[1]}});
    parameters.insert(parameters.end(), 4, {kWidth});
  }
  Call call{"Adam, GPT-350M",
            &ops::multi_tensor_adam_copy,
            {},
            {{"beta1", 0.9},
             {"beta2", 0.999},
             {"epsilon", 1e-8},
             {"weight_decay", 0.0},
             {"decoupled", std::int64_t{0}},
             {"copy", bf16}}};
  for (const Shape& shape : parameters) call.operands.insert(call.operands.end(), 3, {f32, shape});
  for (const Shape& shape : parameters) call.operands.push_back({bf16, shape});
  call.operands.insert(call.operands.end(), 2, {f32, {}});
  return call;
}

std::vector<Call> calls() {
  const TensorType x{bf16, {8, 1024, 1024}}, wide{bf16, {8, 1024, 2048}}, row{bf16, {1024}},
      wide_row{bf16, {2048}}, number{f32, {8, 1024}}, ids{i32, {8, 1024}},
      logits{bf16, {8, 1024, 51200}}, table{bf16, {51200, 1024}}, image{bf16, {64, 56, 56, 256}},
      late_image{bf16, {64, 7, 7, 2048}};
  const Attributes epsilon{{"epsilon", 1e-5}}, no_smoothing{{"smoothing", 0.0}};
  return {
      {"layer norm, GPT-350M", &ops::layer_norm, {x, row, row}, epsilon},
      {"its gradient", &ops::layer_norm_grad, {x, x, row, number, number}},
      {"layer norm, GPT-1.3B", &ops::layer_norm, {wide, wide_row, wide_row}, epsilon},
      {"its gradient", &ops::layer_norm_grad, {wide, wide, wide_row, number, number}},
      {"cross entropy, GPT-350M", &ops::cross_entropy, {logits, ids}, no_smoothing},
      {"its gradient",
       &ops::cross_entropy_grad,
       {logits, ids, number, number, number},
       no_smoothing},
      {"embedding, GPT-350M", &ops::embedding, {table, ids}},
      {"its gradient", &ops::embedding_grad, {x, ids}, {{"rows", std::int64_t{51200}}}},
      adam(),
      {"sums of channels, Wide-ResNet", &ops::channel_sums, {image}},
      {"and of a late layer", &ops::channel_sums, {late_image}},
      {"products of channels, Wide-ResNet", &ops::channel_products, {image, image}},
  };
}

/// The launches of a call, whose tensors are nowhere: it is captured and never runs.
std::vector<emulation::KernelLaunch> launches_of(const Call& c) {
  emulation::restart({});
  const auto tensor = [](const TensorType& type) {
    return KernelTensor{nullptr, type, Shape(type.shape.size(), 0), type.shape};
  };
  KernelCall call;
  call.attributes = &c.attributes;
  for (const TensorType& type : c.operands) call.inputs.push_back(tensor(type));
  for (const TensorType& type : alpa::result_types(*c.op, {c.operands, c.attributes}))
    call.outputs.push_back(tensor(type));
  cuda::Matmuls products({.measured = false, .cached = false});
  const cuda::Launch launch = cuda::find_kernel(*c.op)(*c.op, call, this_card(products));
  std::uintptr_t at = std::uintptr_t{1} << 40;
  const auto place = [&](KernelTensor& t) {
    t.data = reinterpret_cast<std::byte*>(at);
    at += (static_cast<std::uintptr_t>(t.type.bytes()) + 255) / 256 * 256;
  };
  std::for_each(call.inputs.begin(), call.inputs.end(), place);
  std::for_each(call.outputs.begin(), call.outputs.end(), place);
  call.workspace = reinterpret_cast<std::byte*>(at);
  cudaStream_t stream;
  cudaGraph_t graph;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  launch(call, stream);
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
  return emulation::captured_kernels();
}

/// The kernel's name as scripts/sass_report writes it, by the symbols of the library it is in.
std::string name_of(const void* kernel) {
  Dl_info info{};
  REQUIRE(dladdr(kernel, &info) != 0);
  static const std::string symbols =
      run_shell(fmt::format("nm {} | c++filt -p | sed 's/(anonymous namespace):://g; "
                            "s/alpa::cuda:://g; s/void //'",
                            testing::quoted(info.dli_fname)))
          .text;
  const std::string address =
      fmt::format("{:016x} ", reinterpret_cast<std::uintptr_t>(kernel) -
                                  reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  const std::size_t found = symbols.find(address);
  REQUIRE_MESSAGE(found != std::string::npos, address);
  const std::size_t begin = found + address.size() + 2;  // behind the symbol's kind
  return symbols.substr(begin, symbols.find('\n', begin) - begin);
}

/// As sass_report counts it, with dynamic shared memory.
int blocks_per_multiprocessor(const KernelReport& report, std::size_t dynamic) {
  const auto bytes = (report.shared + static_cast<std::int64_t>(dynamic) + 1024 + 127) / 128 * 128;
  return std::min(report.blocks, static_cast<int>(228 * 1024 / bytes));
}

TEST_CASE("kernels of a step lose at most 30 % to their last wave, and do not spill") {
#if !defined(ALPA_CUDA_FILE)
  std::puts("skipped: this build has no machine code of cards");
#else
  const auto reports = testing::library_sass_report(ALPA_CUDA_FILE);
  if (!reports) return;
  std::string rows;
  for (const Call& call : calls())
    for (const emulation::KernelLaunch& launch : launches_of(call)) {
      const std::string name = name_of(launch.kernel);
      CAPTURE(name);
      const auto report = std::find_if(reports->begin(), reports->end(),
                                       [&](const KernelReport& r) { return r.kernel == name; });
      REQUIRE(report != reports->end());
      CHECK(report->spills == 0);
      CHECK(static_cast<int>(launch.threads) <= std::max(report->threads, 1));
      const int resident = blocks_per_multiprocessor(*report, launch.shared_bytes);
      CHECK(resident * static_cast<int>((launch.threads + 31) / 32) >= 8);
      const double waves = launch.blocks / double(kMultiprocessors * resident);
      // The time of whole waves over that of the work, had it no tail.
      const double tail = std::ceil(waves) / waves;
      rows += fmt::format("| {} | `{}` | {} × {} | {} | {} | {:.2f} | {:.2f} |\n", call.what, name,
                          report->registers, launch.threads, resident, launch.blocks, waves, tail);
      if (waves > 1) CHECK(tail <= 1.3);
    }
  MESSAGE("what, kernel, registers × threads, blocks per SM, blocks, waves, tail:\n" << rows);
#endif
}

}  // namespace
}  // namespace alpa::waves_test
