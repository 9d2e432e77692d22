// src/ilp/search/has_cbc.cc — whether branch.cc is there, and what is said in its place
#include "alpa/base/error.h"
#include "src/ilp/search/branch.h"

namespace alpa::ilp {

#if ALPA_HAS_CBC
bool has_cbc() { return true; }
#else
bool has_cbc() { return false; }

Branched branch(Model, std::optional<Cost>, const Deadline&, Statistics&) {
  fail("this build of alpa has no CBC; configure it with -DALPA_WITH_CBC=ON");
}
#endif

}  // namespace alpa::ilp
