#pragma once
/// Hashes of data, by which processes, and a run that is resumed, tell that they have the same.
#include <cstdint>
#include <optional>
#include <string>

#include "alpa/tensor/array.h"

namespace alpa {

/// Hash of names, types and content.
std::uint64_t hash_of(const BatchData& arrays);

/// "shuffled with seed 3" or "not shuffled".
std::string order_text(std::optional<std::uint64_t> seed);

}  // namespace alpa
