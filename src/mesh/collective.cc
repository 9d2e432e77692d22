// src/mesh/collective.cc — names of collectives
#include "alpa/mesh/collective.h"

namespace alpa {

std::string_view name_of(CollectiveKind kind) {
  constexpr std::string_view kNames[kNumCollectives] = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "slice",
      "to_partial", "broadcast",      "send",       "receive",    "barrier"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace alpa
