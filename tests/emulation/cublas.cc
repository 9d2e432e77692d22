// cuBLASLt: descriptors, algorithms and the call
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "library_data.h"
#include "matmul.h"
#include "stream.h"

struct cublasLtContext {
  int device;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint32_t search_mode = 0, reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint64_t workspace = 0, impl_mask = ~std::uint64_t{0};
  std::uint32_t align_a = 256, align_b = 256, align_c = 256, align_d = 256;
  float waves = 0;
};

namespace alpa::emulation {
namespace {

/// Where an attribute stands in its descriptor.
struct Field {
  int attribute;
  std::size_t offset, bytes;
};
#define ALPA_FIELD(attribute, type, member) \
  Field { attribute, offsetof(type, member), sizeof(type::member) }

using Description = cublasLtMatmulDescOpaque_t;
using Preference = cublasLtMatmulPreferenceOpaque_t;

const std::vector<Field> kLayoutFields = {
    ALPA_FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, Layout, type),
    ALPA_FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, Layout, order),
    ALPA_FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, Layout, rows),
    ALPA_FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, Layout, cols),
    ALPA_FIELD(CUBLASLT_MATRIX_LAYOUT_LD, Layout, ld),
    ALPA_FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, Layout, batch),
    ALPA_FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, Layout, stride)};

const std::vector<Field> kDescriptionFields = {
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, Description, compute),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, Description, scale),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, Description, pointer_mode),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_TRANSA, Description, trans_a),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_TRANSB, Description, trans_b),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_TRANSC, Description, trans_c),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, Description, epilogue),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, Description, bias),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, Description, bias_stride),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, Description, aux),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, Description, aux_ld),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, Description, aux_stride),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, Description, sm_count),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, Description, aux_type),
    ALPA_FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, Description, bias_type)};

const std::vector<Field> kPreferenceFields = {
    ALPA_FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, Preference, search_mode),
    ALPA_FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Preference, workspace),
    ALPA_FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, Preference, reduction_mask),
    ALPA_FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, Preference, align_a),
    ALPA_FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, Preference, align_b),
    ALPA_FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, Preference, align_c),
    ALPA_FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, Preference, align_d),
    ALPA_FIELD(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, Preference, waves),
    ALPA_FIELD(CUBLASLT_MATMUL_PREF_IMPL_MASK, Preference, impl_mask)};
#undef ALPA_FIELD

const Field* find(const std::vector<Field>& fields, int attribute, std::size_t bytes) {
  for (const Field& field : fields)
    if (field.attribute == attribute && field.bytes == bytes) return &field;
  return nullptr;
}

cublasStatus_t set(void* object, const std::vector<Field>& fields, int attribute, const void* value,
                   std::size_t bytes) {
  const Field* const field = find(fields, attribute, bytes);
  if (field == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(static_cast<char*>(object) + field->offset, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t get(const void* object, const std::vector<Field>& fields, int attribute, void* value,
                   std::size_t bytes, std::size_t* written) {
  const Field* const field = find(fields, attribute, bytes);
  if (field == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, static_cast<const char*>(object) + field->offset, bytes);
  if (written != nullptr) *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

// ---- algorithms

/// In the words of cublasLtMatmulAlgo_t.
enum AlgorithmWord { kMagic, kId, kSplits, kTile };
constexpr std::uint64_t kAlgorithm = 0x616c706120616c67;

struct Algorithm {
  int id, splits;
  std::size_t workspace, alignment;
};
/// Best first.
constexpr Algorithm kAlgorithms[] = {{21, 2, 64 * 1024, 16}, {6, 1, 0, 1}, {31, 4, 4 * 1024, 1}};

const Algorithm* algorithm_of(const cublasLtMatmulAlgo_t& algorithm) {
  if (algorithm.data[kMagic] != kAlgorithm) return nullptr;
  for (const Algorithm& known : kAlgorithms)
    if (static_cast<std::uint64_t>(known.id) == algorithm.data[kId]) return &known;
  return nullptr;
}

cublasLtMatmulAlgo_t coded(const Algorithm& algorithm) {
  cublasLtMatmulAlgo_t code{};
  code.data[kMagic] = kAlgorithm;
  code.data[kId] = static_cast<std::uint64_t>(algorithm.id);
  code.data[kSplits] = static_cast<std::uint64_t>(algorithm.splits);
  return code;
}

cublasLtMatmulHeuristicResult_t described(const Algorithm& algorithm) {
  return {coded(algorithm), algorithm.workspace, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
}

/// Whether `products` of the machine have the product with this algorithm.
bool has(std::vector<ProductsOf> Machine::*products, const Product& p, const Algorithm& algorithm) {
  const auto is = [](int wanted, int value) { return wanted == -1 || wanted == value; };
  const auto epilogue = static_cast<int>(p.description.epilogue);
  const Unseen unseen;
  const Lock lock(world().mutex);
  const std::vector<ProductsOf>& listed = world().machine.*products;
  return std::any_of(listed.begin(), listed.end(), [&](const ProductsOf& of) {
    const bool other = of.epilogue == 0 && epilogue != CUBLASLT_EPILOGUE_DEFAULT;
    return is(of.type, p.a.type) && (other || is(of.epilogue, epilogue)) &&
           is(of.algorithm, algorithm.id) && is(of.batched, p.d.batch > 1 ? 1 : 0);
  });
}

bool takes(const Algorithm& algorithm, const Product& p) {
  return is_aligned(p, algorithm.alignment) && !has(&Machine::refused, p, algorithm);
}

/// Whether the algorithm keeps the limits that the program set.
bool is_allowed(const Algorithm& algorithm, const Preference& limits) {
  const std::uint32_t alignment =
      std::min(std::min(limits.align_a, limits.align_b), std::min(limits.align_c, limits.align_d));
  return algorithm.workspace <= limits.workspace && algorithm.alignment <= alignment;
}

// ---- the call

double host_scalar(const void* value, std::int32_t type) {
  return type == CUDA_R_64F ? *static_cast<const double*>(value)
                            : *static_cast<const float*>(value);
}

void set_scalars(Product& p, const void* alpha, const void* beta) {
  if (p.description.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
    p.device_alpha = alpha, p.device_beta = beta;
  } else {
    p.alpha = host_scalar(alpha, p.description.scale),
    p.beta = host_scalar(beta, p.description.scale);
  }
}

Work work_of(const Product& product, void* workspace, std::size_t bytes, bool slow) {
  return [=](std::shared_ptr<void>&) {
    {
      const Lock lock(world().mutex);
      if (!is_addressable(product) || (bytes > 0 && allocation_of(workspace, bytes) == nullptr)) {
        std::fprintf(stderr, "emulated CUDA: a matrix of a product leaves its memory\n");
        throw cudaErrorIllegalAddress;
      }
      if (slow) ++world().lag;
    }
    const Seen seen;
    scribble(workspace, bytes);
    compute(product);
    return true;
  };
}

}  // namespace
}  // namespace alpa::emulation

using namespace alpa::emulation;

extern "C" {

size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return "an internal operation failed";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{current_device()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new Layout{type, CUBLASLT_ORDER_COL, rows, cols, ld, 1, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  return set(layout, kLayoutFields, attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void* value, size_t bytes, size_t* written) {
  return get(layout, kLayoutFields, attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  *description = new Description{};
  (*description)->compute = compute, (*description)->scale = scale;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  return set(description, kDescriptionFields, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, void* value,
                                              size_t bytes, size_t* written) {
  return get(description, kDescriptionFields, attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new Preference{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return set(preference, kPreferenceFields, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  *returned = 0;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested < 1 || preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{*description, *a, *b, *c, *d};
  const cublasStatus_t status = check(product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (has(&Machine::invalid, product, kAlgorithms[0])) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Algorithm& algorithm : kAlgorithms)
    if (*returned < requested && is_allowed(algorithm, *preference) && takes(algorithm, product))
      results[(*returned)++] = described(algorithm);
  return *returned > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, int id, cublasLtMatmulAlgo_t* algorithm) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  for (const Algorithm& known : kAlgorithms)
    if (known.id == id) {
      *algorithm = coded(known);
      return CUBLAS_STATUS_SUCCESS;
    }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Algorithm* const known = algorithm_of(*algorithm);
  if (known == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasLtMatmulAlgo_t untouched = result->algo;
  *result = described(*known);
  result->algo = untouched;
  const Product product{*description, *a, *b, *c, *d};
  result->state = check(product);
  if (result->state == CUBLAS_STATUS_SUCCESS && !takes(*known, product))
    result->state = CUBLAS_STATUS_NOT_SUPPORTED;
  return result->state;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  const AlgorithmWord word = attribute == CUBLASLT_ALGO_CONFIG_ID           ? kId
                             : attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? kSplits
                                                                            : kTile;
  const auto number = static_cast<std::int32_t>(algorithm->data[word]);
  if (bytes != sizeof number || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &number, sizeof number);
  if (written != nullptr) *written = sizeof number;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  Product product{*description, *a_layout, *b_layout, *c_layout, *d_layout, a, b, c, d};
  for (const cublasStatus_t status : {check(product), check_pointers(product)})
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm* const chosen = algorithm == nullptr ? &kAlgorithms[1] : algorithm_of(*algorithm);
  if (chosen == nullptr || workspace_bytes < chosen->workspace ||
      reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0 ||
      !is_aligned(product, chosen->alignment))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!takes(*chosen, product)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (has(&Machine::failing, product, *chosen)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool slow = has(&Machine::slow, product, *chosen);
  product.splits = chosen->splits;
  set_scalars(product, alpha, beta);
  const cudaError_t queued = call([&](Lock&) {
    const int device = resolve(stream)->device;
    if (device != current_device() || device != handle->device)
      return cudaErrorInvalidResourceHandle;
    return enqueue(resolve(stream), work_of(product, workspace, workspace_bytes, slow),
                   NodeKind::kernel);
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
