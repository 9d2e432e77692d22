// kernels/plan/epilogue.cc — text form of epilogues, and epilogues as elementwise programs
#include "kernels/plan/epilogue.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/elementwise.h"

namespace alpa {

std::string to_string(const Epilogue& epilogue) {
  std::string text;
  const auto add = [&](bool present, std::string_view word) {
    if (!present) return;
    if (!text.empty()) text += ' ';
    text += word;
  };
  add(epilogue.bias, "bias");
  add(epilogue.function == Epilogue::Function::relu, "relu");
  add(epilogue.function == Epilogue::Function::gelu, "gelu");
  add(epilogue.keep, "keep");
  add(epilogue.gradient, "gradient");
  add(epilogue.sums_of == 0, "sums0");
  add(epilogue.sums_of == 1, "sums1");
  add(epilogue.add, "add");
  return text;
}

Epilogue parse_epilogue(std::string_view text) {
  Epilogue epilogue;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word == "bias") epilogue.bias = true;
    if (word == "relu") epilogue.function = Epilogue::Function::relu;
    if (word == "gelu") epilogue.function = Epilogue::Function::gelu;
    if (word == "keep") epilogue.keep = true;
    if (word == "gradient") epilogue.gradient = true;
    if (word == "sums0") epilogue.sums_of = 0;
    if (word == "sums1") epilogue.sums_of = 1;
    if (word == "add") epilogue.add = true;
  }
  invariant(to_string(epilogue) == text, "epilogue \"{}\" is not one that to_string writes", text);
  return epilogue;
}

namespace {

/// Appends steps; a value is the register that holds it.
class Steps {
 public:
  Steps(ElementwiseProgram& program, DType dtype) : program_(program), dtype_(dtype) {}

  int add(ElementwiseOp op, int a, int b = -1) {
    program_.steps.push_back({static_cast<int>(op), a, b, -1});
    return program_.register_of_step(static_cast<int>(program_.steps.size()) - 1);
  }

  /// The value after rounding to the stored type.
  int stored(int value) {
    if (dtype_ == bf16) return add(ElementwiseOp::cast_bf16, value);
    return dtype_ == f16 ? add(ElementwiseOp::cast_f16, value) : value;
  }

 private:
  ElementwiseProgram& program_;
  DType dtype_;
};

}  // namespace

ElementwiseProgram epilogue_program(const Epilogue& epilogue, DType dtype) {
  const bool relu = epilogue.function == Epilogue::Function::relu;
  invariant(!(epilogue.gradient && relu), "epilogue \"{}\" is not an elementwise program",
            to_string(epilogue));
  ElementwiseProgram program;
  program.num_inputs =
      1 + static_cast<int>(epilogue.bias || epilogue.gradient) + static_cast<int>(epilogue.add);
  Steps steps(program, dtype);
  if (epilogue.gradient) {
    program.outputs = {
        steps.add(ElementwiseOp::mul, 0, steps.stored(steps.add(ElementwiseOp::gelu_grad, 1)))};
    return program;
  }
  const int before = epilogue.bias ? steps.stored(steps.add(ElementwiseOp::add, 0, 1)) : 0;
  int after = before;
  if (epilogue.function != Epilogue::Function::none)
    after = steps.add(relu ? ElementwiseOp::relu : ElementwiseOp::gelu, before);
  if (epilogue.add) after = steps.add(ElementwiseOp::add, after, program.num_inputs - 1);
  program.outputs = {after};
  if (epilogue.keep && !relu) program.outputs.push_back(before);
  return program;
}

}  // namespace alpa
