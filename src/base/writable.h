#pragma once
/// Whether a result can be written, asked before the work that makes it.
#include <string>

namespace alpa {

/// Throws Error as `write_file(path, …)` would because of the path or its folder. Writes nothing:
/// a file stays as it is, and none is left where there was none.
void require_writable_file(const std::string& path);

/// The same for a folder that files are written to, and that is made with its parents if there is
/// none yet.
void require_writable_folder(const std::string& path);

}  // namespace alpa
