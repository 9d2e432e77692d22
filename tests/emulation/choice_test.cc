// Which form and which algorithm a product takes where cuBLASLt refuses, fails or is slow.
#include <chrono>
#include <limits>
#include <thread>

#include "cuda/device_run.h"
#include "cuda/epilogue_call.h"
#include "emulation.h"
#include "emulation/on_machine.h"
#include "kernels/cpu/kernels.h"
#include "src/cuda/cache_folder.h"
#include "src/cuda/choice_file.h"
#include "src/cuda/dnn_convolution.h"
#include "src/cuda/trial.h"
#include "support/captured_stderr.h"
#include "support/error_text.h"

namespace alpa::choice_test {
namespace {

using namespace testing;
using cuda::EpilogueForm;
using cuda::Matmuls;
using emulation::ProductsOf;

constexpr ProductsOf kWithEpilogue{.epilogue = 0}, kWithout{.epilogue = CUBLASLT_EPILOGUE_DEFAULT},
    kEvery{}, kFirstAlgorithm{.algorithm = 21};

const EpilogueCase kCases[] = {
    {"mk,kn->mn", "bias", {32, 48}, {48, 128}},
    {"mk,kn->mn", "bias relu", {32, 48}, {48, 128}},
    {"mk,kn->mn", "bias relu keep", {32, 48}, {48, 128}},
    {"mk,kn->mn", "relu keep", {32, 48}, {48, 128}},
    {"mk,kn->mn", "bias gelu keep", {32, 48}, {48, 128}},
    {"mn,kn->mk", "relu gradient", {32, 48}, {128, 48}},
    {"mn,kn->mk", "gelu gradient", {32, 48}, {128, 48}},
    {"mk,mn->kn", "sums1", {32, 48}, {32, 128}},
};
const EpilogueCase& kRelu = kCases[1];

struct Runs {
  EpilogueForm form = EpilogueForm::automatic;
  Matmuls* products = nullptr;
};

std::vector<HostTensor> results_of(const EpilogueCall& call, const Runs& runs) {
  return run_on_device(
      ops::einsum_epilogue, call.inputs, call.outputs,
      {.attributes = call.attributes, .epilogues = runs.form, .products = runs.products});
}

void check(const EpilogueCase& c, DType dtype, const Runs& runs) {
  CAPTURE(std::string(c.epilogue));
  CAPTURE(name_of(dtype));
  const EpilogueCall call = prepare(c, dtype, 3);
  const std::vector<HostTensor> got = results_of(call, runs),
                                expected =
                                    run_kernel(cpu::einsum_epilogue, call.inputs, call.outputs,
                                               {.attributes = call.attributes});
  const double bound = dtype == f32 ? 2e-4 : 8 * epsilon(dtype);
  CHECK(difference(got[0], values_of(expected[0])) <= bound);
  if (got.size() == 2 && got[1].type.dtype == u8)
    CHECK(wrong_bits(got[1], got[0]) == 0);
  else if (got.size() == 2)
    CHECK(difference(got[1], values_of(expected[1])) <= bound);
}

/// cuBLASLt's relu of a NaN is 0, ours a NaN: the results tell which one ran.
bool runs_jointly(Matmuls& products) {
  EpilogueCall call = prepare(kRelu, f32, 3);
  call.inputs[0].put(0, std::numeric_limits<double>::quiet_NaN());
  return results_of(call, {.products = &products})[0].get(0) == 0;
}

/// The choices in the cache folder, of algorithms and forms.
std::map<std::string, std::string> choices() {
  return cuda::read_choices(
      cuda::choice_file_name("products", "alpa emulated device", cublasLtGetVersion()));
}

std::string remembered_form() {
  for (const auto& [key, choice] : choices())
    if (key.starts_with("form of ")) return choice;
  return "none";
}

TEST_CASE("a type whose epilogues cuBLASLt refuses is computed apart") {
  const On machine({.refused = {{.type = CUDA_R_16BF, .epilogue = 0}}});
  for (const EpilogueCase& c : kCases)
    for (const bool measured : {false, true}) {
      Matmuls products({.measured = measured});
      for (DType dtype : {f32, bf16, f16}) check(c, dtype, {.products = &products});
      check(c, f32, {EpilogueForm::joint, &products});
      CHECK(error_of([&] {
              check(c, bf16, {EpilogueForm::joint, &products});
            }).starts_with("einsum_epilogue: cuBLASLt has no algorithm for the product "));
    }
}

TEST_CASE(
    "a type whose epilogues cuBLASLt calls invalid is computed apart, unless it must be joint") {
  const On machine({.invalid = {{.type = CUDA_R_16BF, .epilogue = 0}}});
  for (const EpilogueCase& c : kCases)
    for (const bool measured : {false, true}) {
      Matmuls products({.measured = measured});
      for (DType dtype : {f32, bf16}) check(c, dtype, {.products = &products});
      check(c, f32, {EpilogueForm::joint, &products});
      CHECK(error_of([&] {
              check(c, bf16, {EpilogueForm::joint, &products});
            }).find("CUBLAS_STATUS_INVALID_VALUE") != std::string::npos);
    }
}

TEST_CASE("an algorithm that fails when it is tried is left out") {
  const On machine({.failing = {kFirstAlgorithm}});
  Matmuls products;
  for (const EpilogueCase& c : kCases) check(c, f32, {EpilogueForm::joint, &products});
}

TEST_CASE("where all algorithms of a joint product fail it is computed apart") {
  const On machine({.failing = {kWithEpilogue}});
  Matmuls products;
  for (const EpilogueCase& c : kCases) check(c, f32, {.products = &products});
}

TEST_CASE("where all algorithms of a plain product fail it is an error that names the product") {
  const On machine({.failing = {kEvery}});
  Matmuls products;
  const std::string text = error_of([&] { check(kRelu, f32, {.products = &products}); });
  CHECK(
      text ==
      "einsum_epilogue: cuBLASLt has no algorithm for the product 32x128x48 f32 f32 a 48,1 b 128,1 "
      "c 128 within 131072 at 64 on this card");
}

TEST_CASE("an algorithm that was not tried and fails is an error that names the product") {
  const On machine({.failing = {kFirstAlgorithm}});
  const std::string text = error_of([&] { check(kRelu, f32, {}); });
  CAPTURE(text);
  CHECK(text.starts_with(
      "cublasLtMatmul(32x128x48 f32 f32 a 48,1 b 128,1 c 128 within 131072 at 64 bias relu): "
      "CUBLAS_STATUS_EXECUTION_FAILED (13): "));
}

TEST_CASE("a device that fails in a trial is an error, not an algorithm that is left out") {
  const On machine({});
  Matmuls products;
  emulation::fail_kernel(1);
  const std::string text = error_of([&] { check(kRelu, f32, {.products = &products}); });
  CAPTURE(text);
  CHECK(text.find("cudaErrorIllegalAddress") != text.npos);
}

TEST_CASE("a description that cuBLASLt calls invalid is an error that names the product") {
  const On machine({});
  cuda::MatmulProblem shape;
  shape.matrices = {8, 24, 16, 16, 1, 24, 1, 24, {}};
  // rows of 24 bits, not of 128
  shape.epilogue = {.function = Epilogue::Function::relu, .keep = true};
  const std::string text = error_of([&] { Matmuls({.measured = false}).load(shape); });
  CAPTURE(text);
  CHECK(text.starts_with(
      "cublasLtMatmulAlgoGetHeuristic(8x24x16 f32 f32 a 16,1 b 24,1 c 24 within 0 at 16 relu "
      "keep): CUBLAS_STATUS_INVALID_VALUE (7): "));
}

TEST_CASE(
    "the faster form is taken, the joint one if they are equal, and by other cards and processes, "
    "too") {
  struct Clock {
    ProductsOf slow;
    bool joint;
  };
  for (const auto& [slow, joint] :
       {Clock{kWithEpilogue, false}, Clock{kWithout, true}, Clock{kEvery, true}}) {
    const On machine({.slow = {slow}});
    for (const EpilogueCase& c : kCases) {
      Matmuls products;
      check(c, f32, {.products = &products});
    }
    Matmuls first, second;  // as two cards of one process have them
    CHECK(runs_jointly(first) == joint);
    CHECK(remembered_form() == (joint ? "joint" : "apart"));
    emulation::restart({.slow = {joint ? kWithEpilogue : kWithout}});
    CHECK(runs_jointly(second) == joint);
    Matmuls third;
    CHECK(runs_jointly(third) == joint);
    Matmuls not_measured({.measured = false});
    CHECK(runs_jointly(not_measured));
    std::filesystem::remove_all(cuda::cache_folder());
    Matmuls anew;
    CHECK(runs_jointly(anew) == !joint);
  }
}

/// Algorithms are remembered, the form is not: it is measured by the next that loads the product.
void forget_form() {
  const std::string file =
      cuda::choice_file_name("products", "alpa emulated device", cublasLtGetVersion());
  for (const auto& [key, choice] : choices())
    if (key.starts_with("form of ")) cuda::add_choice(file, key, "sideways");
}

TEST_CASE("a form that is refused when it is tried leaves the product to the other one") {
  const ProductsOf relu{.epilogue = CUBLASLT_EPILOGUE_RELU_BIAS};
  for (const bool joint : {false, true}) {
    const On machine({});
    Matmuls first;
    check(kRelu, f32, {.products = &first});
    forget_form();
    emulation::restart({.failing = {joint ? kWithout : relu}});
    const CapturedStderr captured("choice_forms.txt");
    Matmuls products;
    CHECK(runs_jointly(products) == joint);
    check(kRelu, f32, {.products = &products});
    CHECK(remembered_form() == (joint ? "joint" : "apart"));
    const std::string text = captured.text(), begin = "alpa: cublasLtMatmul(32x128x48 f32 f32 a ",
                      end = "; another form is computed\n";
    CAPTURE(text);
    CHECK(text.starts_with(begin));
    CHECK(text.find("CUBLAS_STATUS_EXECUTION_FAILED (13)") != text.npos);
    CHECK(text.find(end) == text.size() - end.size());
  }
}

TEST_CASE("two forms that are both refused are an error with cuBLASLt's reason") {
  const On machine({});
  Matmuls first;
  check(kRelu, f32, {.products = &first});
  forget_form();
  emulation::restart({.failing = {kEvery}});
  Matmuls products;
  CHECK(
      error_of([&] { check(kRelu, f32, {.products = &products}); })
          .starts_with("cublasLtMatmul(32x128x48 f32 f32 a 48,1 b 128,1 c 128 within 131072 at 64 "
                       "bias relu): CUBLAS_STATUS_EXECUTION_FAILED (13): "));
}

TEST_CASE("once a node has taken 1.5 s no further way is tried, and the first always is") {
  const On machine({});
  const std::optional<cuda::Trial> trial = cuda::Trial::of(0);
  int runs[4] = {};
  std::vector<cuda::Way> ways;
  for (int way = 0; way < 4; ++way)
    ways.push_back([&runs, way](cuda::Stream) {
      ++runs[way];
      std::this_thread::sleep_for(std::chrono::milliseconds(way == 0 ? 800 : 1000));
    });
  const Stopwatch node;
  CHECK(trial->run(ways, node).fastest == 0);
  CHECK(runs[0] == 2);  // tried, and timed once
  CHECK(runs[1] == 2);
  CHECK(runs[2] + runs[3] == 0);
  CHECK(trial->run({ways[3]}, node).fastest == 0);
  CHECK(runs[3] == 1);
}

TEST_CASE("engines that a node has no time for are not planned") {
  const On machine({});
  const cuda::ConvolutionLaunch launch{cuda::ConvolutionResult::y,
                                       bf16,
                                       {.batch = 1,
                                        .channels = 8,
                                        .features = 8,
                                        .h = {.in = 8, .out = 8, .size = 3, .pad = 1},
                                        .w = {.in = 8, .out = 8, .size = 3, .pad = 1}}};
  const cuda::DnnHandle handle = cuda::make_dnn_handle();
  const cuda::DnnEngines engines({.handle = handle.get()}, cuda::convolution_problem(launch),
                                 false);
  const Stopwatch node;
  CHECK(engines.plans(4, node).size() == 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(1600));
  CHECK(engines.plans(4, node).size() == 1);
}

TEST_CASE("a trial leaves as much memory as the kernels of an earlier one took") {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20, kCode = 200 * kMiB;
  const On machine({.memory_bytes = 1 << 30});
  const auto fits = [] { return cuda::Trial::of(cuda::free_bytes() - 65 * kMiB).has_value(); };
  CHECK(fits());
  cuda::DeviceBlock code;
  cuda::Trial::of(0)->run({[&](cuda::Stream) {
    if (!code) code = cuda::allocate_device(kCode);
  }});
  code.reset();
  CHECK_FALSE(fits());
  CHECK(cuda::Trial::of(cuda::free_bytes() - kCode - 65 * kMiB).has_value());
}

TEST_CASE("without memory for a trial the joint form is taken, and not remembered") {
  const On machine({.memory_bytes = 32 << 20, .slow = {kWithEpilogue}});
  Matmuls products;
  CHECK(runs_jointly(products));
  CHECK(choices().empty());
}

TEST_CASE("a remembered form that is not a form is measured anew") {
  const On machine({.slow = {kWithEpilogue}});
  Matmuls first;
  CHECK_FALSE(runs_jointly(first));
  forget_form();
  Matmuls second;
  CHECK_FALSE(runs_jointly(second));
  CHECK(remembered_form() == "apart");
}

}  // namespace
TEST_CASE("choices of another process count before those of the file") {
  const OwnCache cache;
  cuda::Choices measured("a.txt"), other("ab.txt");
  measured.remember("a product", "7");
  other.remember("a product", "8");
  cuda::add_choice("a.txt", "a product", "9");
  const std::string known = other.text() + measured.text();
  CHECK(*cuda::Choices("a.txt", known).find("a product") == "7");
  CHECK(*cuda::Choices("ab.txt", known).find("a product") == "8");
  CHECK(*cuda::Choices("a.txt").find("a product") == "9");
  CHECK(cuda::Choices("a.txt", known).find("another") == nullptr);
}

}  // namespace alpa::choice_test
