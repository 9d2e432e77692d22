#pragma once
/// Index notation of operators (`OpDef::dims`), parsed and bound to operand shapes.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/op_def.h"

namespace alpa {

/// Factors of each letter of a notation; under '.' those of `...`.
using FactorsOfLetters = std::map<char, std::vector<int>>;

/// Throws Bug if the notation is malformed, or lists of letters have letters that it lacks.
void check_notation(std::string_view dims, const std::vector<std::string>& letters);

/// The rule of `op.dims` for these operands. Factors in order of first appearance in the
/// results, then in the operands. Throws Error when the operands do not fit the notation, Bug
/// when the notation is malformed. Sets `letters` if it is given.
Rule rule_of_notation(const OpDef& op, const OpQuery& query, FactorsOfLetters* letters = nullptr);

}  // namespace alpa
