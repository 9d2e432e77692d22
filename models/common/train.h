#pragma once
/// Training a model by name: `alpa train`, and the programs alpa-gpt, alpa-mlp, ….
#include <string_view>

namespace programs {

/// The program `alpa-MODEL`: trains or plans as its flags say, and returns the exit status.
int train_program(std::string_view model, int argc, char** argv);

/// `train MODEL [SIZE] …`: the same with a published size.
int train_command(int argc, char** argv);

}  // namespace programs
