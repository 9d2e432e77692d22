#pragma once
/// Hashes of data, by which processes, and a run that is resumed, tell that they have the same.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "alpa/tensor/array.h"

namespace alpa {

/// Hash of names, types and content.
std::uint64_t hash_of(const BatchData& arrays);

/// Hash of all bytes, or, of more than 64 MiB, of 1,024 blocks of 64 KiB that are spread evenly.
std::uint64_t hash_of(std::span<const std::byte> bytes);

/// "shuffled with seed 3" or "not shuffled".
std::string order_text(std::optional<std::uint64_t> seed);

}  // namespace alpa
