// The operators of tests/api/custom_ops.h, as a library that `alpa --operators` loads.
#include "api/custom_ops.h"

namespace {

[[maybe_unused]] const alpa::CustomOp kOperators[] = {
    alpa::testing::own_rms_norm(), alpa::testing::own_attention(), alpa::testing::wrong_softmax()};

}  // namespace
