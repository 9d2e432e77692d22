#include <alpa/base/shape.h>
#include <alpa/version.h>
#include <fmt/core.h>

int main() {
  fmt::print("alpa {} {}\n", alpa::version(), alpa::to_string(alpa::TensorType{alpa::bf16, {8, 768}}));
}
