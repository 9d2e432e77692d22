#pragma once
/// cuBLASLt objects that are freed when they go out of scope.
#include <cublasLt.h>

#include "handles.h"

namespace alpa::cuda {

using LtHandle = Handle<Opaque<cublasLtHandle_t>, cublasLtDestroy>;
using LtMatmul = Handle<Opaque<cublasLtMatmulDesc_t>, cublasLtMatmulDescDestroy>;
using LtLayout = Handle<Opaque<cublasLtMatrixLayout_t>, cublasLtMatrixLayoutDestroy>;
using LtPreference = Handle<Opaque<cublasLtMatmulPreference_t>, cublasLtMatmulPreferenceDestroy>;

}  // namespace alpa::cuda
