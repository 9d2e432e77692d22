// Matrix products of the emulated cuBLASLt: epilogues, layouts and what is refused.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include "cublasLt.h"
#include "cuda_runtime.h"
#include "emulation.h"

namespace matmul_test {

namespace {

using Floats = std::vector<float>;

/// Device memory that holds `values`.
struct Buffer {
  float* data = nullptr;
  std::size_t size;

  explicit Buffer(const Floats& values) : size(values.size()) {
    REQUIRE(cudaMalloc(&data, size * 4) == cudaSuccess);
    REQUIRE(cudaMemcpy(data, values.data(), size * 4, cudaMemcpyHostToDevice) == cudaSuccess);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
  Floats host() const {
    Floats values(size);
    REQUIRE(cudaMemcpy(values.data(), data, size * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }
};

/// D (3 × 2) = A (3 × 2)·B (2 × 2), column-major f32.
struct Product {
  cublasLtHandle_t lt;
  cublasLtMatmulDesc_t description;
  cublasLtMatrixLayout_t a, b, d;

  Product() {
    cublasLtCreate(&lt);
    cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, 3, 2, 3);
    cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, 2, 2, 2);
    cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, 3, 2, 3);
  }
  ~Product() {
    for (const cublasLtMatrixLayout_t layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(description);
    cublasLtDestroy(lt);
  }
  template <class T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value);
  }
  cublasStatus_t run(const Buffer& x, const Buffer& y, Buffer& result, void* workspace = nullptr,
                     std::size_t bytes = 0, const cublasLtMatmulAlgo_t* algorithm = nullptr) {
    const float one = 1, zero = 0;
    return cublasLtMatmul(lt, description, &one, x.data, a, y.data, b, &zero, result.data, d,
                          result.data, d, algorithm, workspace, bytes, nullptr);
  }
};

const Floats kA = {1, 2, 3, -4, -5, -6}, kIdentity = {1, 0, 0, 1}, kBias = {0.5f, -3, 1};

double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

}  // namespace

TEST_CASE(
    "ReLU keeps the signs that its gradient reads, and the bias' gradient is a sum over columns") {
  Product p;
  const Buffer a(kA), identity(kIdentity), bias(kBias), mask(Floats(8, 0));
  Buffer y(Floats(6)), dx(Floats(6));
  REQUIRE(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_RELU_AUX_BIAS}) ==
          CUBLAS_STATUS_SUCCESS);
  p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask.data);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{128});
  REQUIRE(p.run(a, identity, y) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.host() == Floats{1.5f, 0, 4, 0, 0, 0});

  const Buffer dy({1, 2, 4, 8, 16, 32});
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_DRELU_BGRAD});
  REQUIRE(p.run(dy, identity, dx) == CUBLAS_STATUS_SUCCESS);
  CHECK(dx.host() == Floats{1, 0, 4, 0, 0, 0});
  CHECK(bias.host() == Floats{1, 0, 4});
}

TEST_CASE("the gradient of GELU is the slope at the input that the forward product kept") {
  Product p;
  const Buffer a({0.5f, -1, 2, 0, 3, -0.25f}), identity(kIdentity), ones(Floats(6, 1)),
      aux(Floats(16));
  Buffer y(Floats(6)), dx(Floats(6));
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_GELU_AUX});
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{8});
  REQUIRE(p.run(a, identity, y) == CUBLAS_STATUS_SUCCESS);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_DGELU});
  REQUIRE(p.run(ones, identity, dx) == CUBLAS_STATUS_SUCCESS);
  const Floats x = a.host(), value = y.host(), slope = dx.host();
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(value[i] == doctest::Approx(gelu(x[i])).epsilon(1e-6));
    CHECK(slope[i] ==
          doctest::Approx((gelu(x[i] + 1e-4) - gelu(x[i] - 1e-4)) / 2e-4).epsilon(1e-5));
  }
}

TEST_CASE("the gradients of a bias that was added to an operand are sums over k") {
  Product p;
  const Buffer a(kA), b({1, 10, 100, 1000}), of_a(Floats(3)), of_b(Floats(2));
  Buffer y(Floats(6));
  for (const auto& [epilogue, bias] :
       {std::pair{CUBLASLT_EPILOGUE_BGRADA, &of_a}, {CUBLASLT_EPILOGUE_BGRADB, &of_b}}) {
    p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{epilogue});
    p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias->data);
    REQUIRE(p.run(a, b, y) == CUBLAS_STATUS_SUCCESS);
  }
  CHECK(of_a.host() == Floats{-3, -3, -3});
  CHECK(of_b.host() == Floats{11, 1100});
  CHECK(y.host() == Floats{-39, -48, -57, -3900, -4800, -5700});
}

TEST_CASE("a row-major product is that of the transposed column-major matrices") {
  Product p;
  const auto by_row = [](cublasLtMatrixLayout_t layout, std::int64_t ld) {
    const std::int32_t order = CUBLASLT_ORDER_ROW;
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld);
  };
  for (const cublasLtMatrixLayout_t layout : {p.a, p.b, p.d}) by_row(layout, 2);
  const Buffer a({1, -4, 2, -5, 3, -6}), b({1, 100, 10, 1000});
  Buffer y(Floats(6));
  REQUIRE(p.run(a, b, y) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.host() == Floats{-39, -3900, -48, -4800, -57, -5700});
}

TEST_CASE("a product may use all of its workspace, and needs what the heuristic says") {
  Product p;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulPreferenceCreate(&preference);
  const std::uint64_t limit = 1 << 20;
  REQUIRE(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &limit, sizeof limit) == CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t results[8];
  int found = 0;
  REQUIRE(cublasLtMatmulAlgoGetHeuristic(p.lt, p.description, p.a, p.b, p.d, p.d, preference, 8,
                                         results, &found) == CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreferenceDestroy(preference);
  REQUIRE(found == 2);  // of columns of 12 bytes; the third wants 16
  const cublasLtMatmulHeuristicResult_t& last = results[1];
  REQUIRE(last.workspaceSize > 0);
  const Buffer a(kA), identity(kIdentity), workspace(Floats(last.workspaceSize / 4, 0));
  Buffer y(Floats(6));
  CHECK(p.run(a, identity, y, workspace.data, last.workspaceSize - 1, &last.algo) ==
        CUBLAS_STATUS_INVALID_VALUE);
  REQUIRE(p.run(a, identity, y, workspace.data, last.workspaceSize, &last.algo) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(y.host() == kA);
  for (const float left : workspace.host()) REQUIRE(left != 0);
}

TEST_CASE(
    "attributes that are unknown or of another size are refused, and so are shapes that do not "
    "fit") {
  Product p;
  CHECK(p.set(static_cast<cublasLtMatmulDescAttributes_t>(99), std::int32_t{0}) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint64_t{1}) == CUBLAS_STATUS_INVALID_VALUE);
  const Buffer a(kA), identity(kIdentity);
  Buffer y(Floats(6));
  p.set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t{CUBLAS_OP_T});
  CHECK(p.run(a, identity, y) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("ReLU turns a NaN into 0, whose bit is not set") {
  Product p;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Buffer a({nan, 2, -3, 4, 5, 6}), identity(kIdentity), mask(Floats(8, 0)), dy(Floats(6, 1));
  Buffer y(Floats(6)), dx(Floats(6));
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_RELU_AUX});
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask.data);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{128});
  REQUIRE(p.run(a, identity, y) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.host()[0] == 0);
  CHECK(y.host()[1] == 2);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_DRELU});
  REQUIRE(p.run(dy, identity, dx) == CUBLAS_STATUS_SUCCESS);
  CHECK(dx.host() == Floats{0, 1, 0, 0, 1, 1});
}

TEST_CASE("pointers of elements, vectors and kept matrices must be aligned, and there") {
  Product p;
  const Buffer a(kA), identity(kIdentity), bias(Floats(16)), mask(Floats(16));
  Buffer y(Floats(8));
  const auto shifted = [](float* data, int bytes) { return reinterpret_cast<char*>(data) + bytes; };
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_RELU_AUX_BIAS});
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{128});
  CHECK(p.run(a, identity, y) == CUBLAS_STATUS_INVALID_VALUE);
  for (const auto& [of_bias, of_mask, status] : {std::tuple{4, 0, CUBLAS_STATUS_INVALID_VALUE},
                                                 {0, 8, CUBLAS_STATUS_INVALID_VALUE},
                                                 {16, 16, CUBLAS_STATUS_SUCCESS}}) {
    p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, shifted(bias.data, of_bias));
    p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, shifted(mask.data, of_mask));
    CHECK(p.run(a, identity, y) == status);
  }
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{64});
  CHECK(p.run(a, identity, y) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("an algorithm for aligned matrices refuses others") {
  Product p;
  cublasLtMatmulAlgo_t aligned;
  REQUIRE(cublasLtMatmulAlgoInit(p.lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                                 CUDA_R_32F, CUDA_R_32F, 21, &aligned) == CUBLAS_STATUS_SUCCESS);
  const Buffer a(Floats(8)), b(Floats(8)), workspace(Floats(1 << 14));
  Buffer y(Floats(16));
  const auto run = [&] { return p.run(a, b, y, workspace.data, 1 << 16, &aligned); };
  CHECK(run() == CUBLAS_STATUS_INVALID_VALUE);  // columns of 12 bytes
  const std::int64_t four = 4;
  for (const cublasLtMatrixLayout_t layout : {p.a, p.b, p.d})
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_LD, &four, sizeof four);
  CHECK(run() == CUBLAS_STATUS_SUCCESS);
  float* const begin = y.data;
  y.data += 1;
  CHECK(run() == CUBLAS_STATUS_INVALID_VALUE);
  y.data = begin;
}

}  // namespace matmul_test
