// Rows of the case table for optimizers: updates of parameters, norms of gradients, and numbers in
// few bits.
#include "cases.h"
#include "reference.h"
#include "tests/support/few_bits.h"

namespace alpa::testing::cases {
namespace {

void squares(std::vector<Case>& table) {
  for (DType dtype : {f64, f32, bf16, f16}) {
    const Attributes result{{"dtype", dtype == f64 ? f64 : f32}};
    table.push_back({&ops::squared_norms, {{{dtype, {5, 3}}}}, squared_norms(), 15 * 2, result});
    table.push_back({&ops::squared_norms,
                     {{{dtype, {}}}, {{dtype, {2, 3, 2}}}, {{dtype, {7}}}},
                     squared_norms(),
                     (1 + 12 + 7) * 2,
                     result});
  }
}

void updates(std::vector<Case>& table) {
  for (DType dtype : {f64, f32})
    for (bool flag : {false, true}) {
      const Operand w{{dtype, {5, 3}}}, v{{dtype, {5, 3}}, 0, 1}, rate{{f32, {}}, 0.01, 0.1},
          step{{f32, {}}, 3, 3}, other{{dtype, {4}}}, other_v{{dtype, {4}}, 0, 1};
      const Attributes adam_settings{{"beta1", 0.9},
                                     {"beta2", 0.99},
                                     {"epsilon", 1e-6},
                                     {"weight_decay", 0.1},
                                     {"decoupled", std::int64_t{flag}}},
          sgd_settings{{"momentum", 0.9}, {"weight_decay", 0.1}, {"nesterov", std::int64_t{flag}}};
      const Reference adam_one = adam(0.9, 0.99, 1e-6, 0.1, flag), sgd_one = sgd(0.9, 0.1, flag);
      table.push_back(
          {&ops::multi_tensor_adam, {w, w, v, w, rate, step}, adam_one, 15 * 14, adam_settings});
      table.push_back({&ops::multi_tensor_adam,
                       {w, w, v, other, other, other_v, w, other, rate, step},
                       two_members(adam_one, 3),
                       (15 + 4) * 14,
                       adam_settings});
      table.push_back({&ops::multi_tensor_sgd, {w, w, w, rate}, sgd_one, 15 * 6, sgd_settings});
      table.push_back({&ops::multi_tensor_sgd,
                       {w, w, other, other, w, other, rate},
                       two_members(sgd_one, 2),
                       (15 + 4) * 6,
                       sgd_settings});
      for (const DType copy : {bf16, dtype == f64 ? f32 : f16}) {
        Attributes adam_copies = adam_settings, sgd_copies = sgd_settings;
        adam_copies.set("copy", copy), sgd_copies.set("copy", copy);
        table.push_back({&ops::multi_tensor_adam_copy,
                         {w, w, v, other, other, other_v, w, other, rate, step},
                         two_members(with_copy(adam_one), 3),
                         (15 + 4) * 14,
                         adam_copies});
        table.push_back({&ops::multi_tensor_sgd_copy,
                         {w, w, other, other, w, other, rate},
                         two_members(with_copy(sgd_one), 2),
                         (15 + 4) * 6,
                         sgd_copies});
      }
    }
}

void few_bits(std::vector<Case>& table) {
  for (const DType dtype : {f64, f32, bf16})
    for (const Shape& numbers : {Shape{5, 6}, Shape{6}})
      table.push_back({&ops::stochastic_bf16,
                       {{{dtype, {5, 6}}}, {{dtype, numbers}, 0, 1}},
                       binary(stochastic_bf16),
                       30 * 9});
  for (const DType dtype : {f64, f32}) {
    const Operand x{{dtype, {5, 60}}, -1.1, 1.1};
    table.push_back({&ops::dynamic_code, {x}, unary(dynamic_code<false>), 300 * 80});
    table.push_back({&ops::signed_dynamic_code, {x}, unary(dynamic_code<true>), 300 * 84});
  }
  const Operand codes{{u8, {5, 60}}, 0, 255};
  table.push_back({&ops::dynamic_value, {codes}, unary(dynamic_value<false>), 300 * 24});
  table.push_back({&ops::signed_dynamic_value, {codes}, unary(dynamic_value<true>), 300 * 28});
}

}  // namespace

std::vector<Case> update_cases() {
  std::vector<Case> table;
  few_bits(table);
  squares(table);
  updates(table);
  return table;
}

}  // namespace alpa::testing::cases
