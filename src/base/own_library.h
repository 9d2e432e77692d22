#pragma once
/// Finding and loading libraries that come with alpa and that it loads when they are first asked
/// for: libalpa_cuda.so, libalpa_mpi.so. Each has one entry, a function that returns a table whose
/// first member is the version of its interface, as std::int32_t.
#include <cstdint>
#include <string>

namespace alpa {

struct OwnLibraryKind {
  const char* name;        ///< "libalpa_cuda.so"
  const char* variable;    ///< of the environment, which may name another file
  const char* entry;       ///< name of the function
  std::int32_t interface;  ///< that the table must have
  const char* absent;      ///< what a build without the library lacks: "this build has no CUDA"
};

struct OwnLibrary {
  const void* table = nullptr;  ///< never unloaded
  std::string reason;           ///< why there is none, in one line; "" if there is one
};

/// The file that the environment names, if it names one. Otherwise the library is looked for beside
/// the code of alpa and beside the program, in the library folder of an installed program and where
/// the system looks.
std::string own_library_path(const OwnLibraryKind& kind);

/// Loads the file. Never throws on what it finds. If there is none, the reason names the places
/// that were searched.
OwnLibrary load_own_library(const OwnLibraryKind& kind, const std::string& path);

/// The message as one line.
std::string one_line(std::string text);

}  // namespace alpa
