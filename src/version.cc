#include "alpa/version.h"

namespace alpa {

std::string_view version() { return ALPA_VERSION; }

}  // namespace alpa
