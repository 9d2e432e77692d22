#pragma once
/// Commands on models: `alpa train`, which is also alpa-gpt, alpa-mlp, …, and `alpa evaluate`.
#include <string_view>

namespace programs {

/// The program `alpa-MODEL`: trains or plans as its flags say, and returns the exit status.
int train_program(std::string_view model, int argc, char** argv);

/// `train MODEL [SIZE] …`: the same with a published size.
int train_command(int argc, char** argv);

/// `evaluate FOLDER --data FILE …`: loss and perplexity of a text (models/common/evaluate.cc).
int evaluate_command(int argc, char** argv);

}  // namespace programs
