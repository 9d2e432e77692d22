#pragma once
/// Inputs for harnesses: seeds changed at random, a function of a number alone.
#include <cstdint>
#include <string>
#include <vector>

namespace alpa::fuzz {

/// Input `number` made from `seeds` and `tokens`; the first ones are the seeds themselves.
/// `seeds` must not be empty.
std::string mutated(const std::vector<std::string>& seeds, const std::vector<std::string>& tokens,
                    std::uint64_t number);

}  // namespace alpa::fuzz
