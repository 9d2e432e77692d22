#pragma once
/// Operators that the program defined (alpa/ops/custom.h), for those who run, price and read them.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "alpa/ops/custom.h"
#include "src/ir/op_def.h"
#include "src/tensor/kernel.h"

namespace alpa {

/// `all_ops()`, and the operators defined so far: those that texts of graphs may have.
std::vector<const OpDef*> known_ops();

/// Versions of the graph's operators that the program defined, by name.
std::map<std::string, std::int64_t> versions_of(const Graph& graph);

/// A part whose elements lie side by side, row-major.
TensorView dense_view(void* data, TensorType type, Shape offset, Shape whole);

/// The call as an operator's functions see it; `call.attributes` may be null.
OpCall op_call(const KernelCall& call);

}  // namespace alpa
