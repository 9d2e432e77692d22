#pragma once
// The public names that a header declares, and whether a comment documents them.
#include <map>
#include <string>
#include <vector>

#include "structure/source_files.h"

namespace alpa::testing::structure {

/// Whether the public names of `header` are documented, by qualified name: types, functions,
/// variables, members and enumerators of named namespaces, without what is private. A comment
/// `///` before a declaration documents it, and one `///<` on its lines. Of overloads one is
/// enough. Constructors, destructors, operators of a type and what is defaulted or deleted need
/// none: the type's comment says what they do. The header is formatted by clang-format.
std::map<std::string, bool> public_names(const SourceFile& header);

}  // namespace alpa::testing::structure
