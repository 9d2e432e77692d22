#pragma once
/// Calls of einsum_epilogue for tests.
#include "device_call.h"
#include "kernels/plan/epilogue.h"
#include "src/spmd/program.h"

namespace alpa::testing {

struct EpilogueCase {
  const char *equation, *epilogue;
  Shape x, y;
  bool wide = false;  ///< bf16 and f16 are added to f32
};

/// Random operands, and results of the right types.
struct EpilogueCall {
  std::vector<HostTensor> inputs, outputs;
  Attributes attributes;
};

inline EpilogueCall prepare(const EpilogueCase& c, DType dtype, unsigned seed) {
  EpilogueCall p;
  p.attributes = {{"equation", c.equation}, {"epilogue", c.epilogue}};
  const Epilogue epilogue = parse_epilogue(c.epilogue);
  std::vector<TensorType> types{{dtype, c.x}, {dtype, c.y}};
  const TensorType z = {
      dtype,
      result_types(ops::einsum_epilogue, {types, {{"equation", c.equation}, {"epilogue", ""}}})[0]
          .shape};
  if (epilogue.bias)
    types.push_back({dtype, Shape(z.shape.end() - (z.rank() > 3 ? 2 : 1), z.shape.end())});
  if (epilogue.gradient) {
    const bool bits = epilogue.function == Epilogue::Function::relu;
    types.push_back({bits ? u8 : dtype, z.shape});
    if (bits) types.back().shape.back() /= 8;
  }
  if (epilogue.add) types.push_back({c.wide && dtype != f64 ? f32 : dtype, z.shape});
  for (const TensorType& type : types) p.inputs.push_back(random_tensor(type, seed++));
  if (types.back().dtype == u8)
    for (std::byte& byte : p.inputs.back().bytes)
      byte = static_cast<std::byte>(seed = seed * 7 + 3);
  for (const TensorType& type : result_types(ops::einsum_epilogue, {types, p.attributes}))
    p.outputs.emplace_back(type);
  return p;
}

/// How many bits i of `bits` are not whether element i of `z` is above 0.
inline std::int64_t wrong_bits(const HostTensor& bits, const HostTensor& z) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < z.type.elements(); ++i)
    wrong += (static_cast<int>(bits.get(i / 8)) >> (i % 8) & 1) != static_cast<int>(z.get(i) > 0);
  return wrong;
}

}  // namespace alpa::testing
