#pragma once
// The repository's own text, for the tests that read it.
#include <string>
#include <string_view>
#include <vector>

namespace alpa::testing::structure {

/// A text file: its path from the root of the repository, and its lines.
struct SourceFile {
  std::string path;
  std::vector<std::string> lines;
};

/// The files below `folder` whose name ends with one of `endings`, sorted by path.
std::vector<SourceFile> source_files(const std::string& folder,
                                     const std::vector<std::string>& endings);

/// The sources of the library: include, src and kernels.
std::vector<SourceFile> library_files();

/// Every committed text file; without git, every file but build folders and hidden ones.
std::vector<SourceFile> committed_files();

/// `#include "target"` or `#include <target>`.
struct Include {
  std::string target;
  bool quoted = false;
  int line = 0;
};

/// The includes of `file`, in order.
std::vector<Include> includes_of(const SourceFile& file);

}  // namespace alpa::testing::structure
