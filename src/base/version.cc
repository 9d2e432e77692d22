// src/base/version.cc — the version of the library
#include "alpa/version.h"

namespace alpa {

std::string_view version() { return ALPA_VERSION; }

}  // namespace alpa
