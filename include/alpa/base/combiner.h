#pragma once
/// How partial results are combined into the whole result.
#include <cstdint>

namespace alpa {

enum class Combiner : std::uint8_t { sum, max };  ///< how partial results are combined

}  // namespace alpa
