#pragma once
/// How partial results combine to the whole.
#include <cstdint>

namespace alpa {

enum class Combiner : std::uint8_t { sum, max };

}  // namespace alpa
