// src/ops/random.cc — numbers that are functions of (seed, stream, step, micro-batch, index in the
// whole tensor): Philox4x32-10 (Salmon et al., SC'11)
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "kernels/cpu/kernels.h"
#include "source_rule.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Ten rounds of two multiplications for four numbers, and the transformation to the distribution.
constexpr double kFlopsPerNumber = 20;

/// Rule of random numbers. Requires every attribute of the kernel.
Rule random_rule(const OpQuery& query) {
  query.attributes.real("a"), query.attributes.real("b"),
      query.attributes.integer(kStreamAttribute);
  const DType dtype = query.attributes.dtype("dtype");
  require(is_floating(dtype), "{}: {} is not a floating type; draw f32 and cast", query.op->name,
          name_of(dtype));
  return ops::source_rule(query);
}

OpDef random(std::string_view name, const KernelDef* cpu) {
  return {.name = name,
          .rule = random_rule,
          .result_dtypes = ops::source_dtypes,
          .flops_per_point = kFlopsPerNumber,
          .cpu = cpu};
}

Value emit_random(const OpDef& op, Builder& builder, const TensorType& type, double a, double b) {
  require(is_floating(type.dtype), "{}: {} is not a floating type; draw f32 and cast", op.name,
          to_string(type));
  return recorder(builder).emit_one(
      op, {},
      {{"a", a},
       {"b", b},
       {std::string(kStreamAttribute), recorder(builder).next_stream()},
       {"dtype", type.dtype},
       {"shape", type.shape}});
}

}  // namespace

const OpDef ops::random_normal = random("random_normal", &cpu::random_normal);
const OpDef ops::random_uniform = random("random_uniform", &cpu::random_uniform);

Value random_normal(Builder& builder, const TensorType& type, double mean,
                    double standard_deviation) {
  return emit_random(ops::random_normal, builder, type, mean, standard_deviation);
}

Value random_uniform(Builder& builder, const TensorType& type, double low, double high) {
  return emit_random(ops::random_uniform, builder, type, low, high);
}

}  // namespace alpa
