// src/tensor/elementwise_program.cc — elementwise programs as attributes, and back
#include "src/tensor/elementwise_program.h"

#include "alpa/base/error.h"

namespace alpa {
namespace {

void check_registers(const ElementwiseProgram& program) {
  for (int i = 0; i < static_cast<int>(program.steps.size()); ++i)
    for (int r : {program.steps[i].a, program.steps[i].b, program.steps[i].c})
      invariant(r >= -1 && r < program.register_of_step(i),
                "elementwise program: step {} reads register {}", i, r);
  for (int r : program.outputs)
    invariant(r >= 0 && r < program.num_registers(),
              "elementwise program: no register {} for a result", r);
}

}  // namespace

ElementwiseProgram one_step(int op, int arity) {
  ElementwiseProgram program;
  program.num_inputs = arity;
  program.steps = {{op, 0, arity > 1 ? 1 : -1, arity > 2 ? 2 : -1}};
  program.outputs = {arity};
  return program;
}

Attributes to_attributes(const ElementwiseProgram& program) {
  std::vector<std::int64_t> code;
  for (const ElementwiseStep& s : program.steps) code.insert(code.end(), {s.op, s.a, s.b, s.c});
  Attributes attributes{{"code", code}};
  if (!program.constants.empty()) attributes.set("constants", program.constants);
  attributes.set("outputs",
                 std::vector<std::int64_t>(program.outputs.begin(), program.outputs.end()));
  if (!program.dims.empty()) attributes.set("dims", program.dims);
  return attributes;
}

ElementwiseProgram parse_elementwise_program(const Attributes& attributes, int num_inputs) {
  ElementwiseProgram program;
  program.num_inputs = num_inputs;
  if (attributes.contains("constants")) program.constants = attributes.reals("constants");
  const auto& code = attributes.integers("code");
  invariant(code.size() % 4 == 0,
            "elementwise program: {} integers of code are not a multiple of 4", code.size());
  for (std::size_t i = 0; i < code.size(); i += 4)
    program.steps.push_back({static_cast<int>(code[i]), static_cast<int>(code[i + 1]),
                             static_cast<int>(code[i + 2]), static_cast<int>(code[i + 3])});
  for (std::int64_t r : attributes.integers("outputs"))
    program.outputs.push_back(static_cast<int>(r));
  if (attributes.contains("dims")) program.dims = attributes.integers("dims");
  check_registers(program);
  return program;
}

}  // namespace alpa
