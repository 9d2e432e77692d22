#include "kernels/cpu/epilogue.h"

#include <algorithm>

#include "alpa/base/error.h"

namespace alpa {

std::string to_string(const Epilogue& epilogue) {
  std::string text;
  const auto add = [&](bool present, std::string_view word) {
    if (present) text += (text.empty() ? "" : " ") + std::string(word);
  };
  add(epilogue.bias, "bias");
  add(epilogue.function == Epilogue::Function::relu, "relu");
  add(epilogue.function == Epilogue::Function::gelu, "gelu");
  add(epilogue.keep, "keep");
  add(epilogue.gradient, "gradient");
  add(epilogue.sums_of == 0, "sums0");
  add(epilogue.sums_of == 1, "sums1");
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
  }
  invariant(to_string(epilogue) == text, "epilogue \"{}\"", text);
  return epilogue;
}

}  // namespace alpa
