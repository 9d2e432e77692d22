// src/base/writable.cc — asks the system whether files could be made, by making and removing one
#include "src/base/writable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "alpa/base/error.h"

namespace alpa {
namespace {

namespace fs = std::filesystem;

void require_none(int error, const std::string& path) {
  require(error == 0, "{}: cannot be written: {}", path, std::generic_category().message(error));
}

/// What the system answers if a file is made in `folder`; it is gone again. The permissions alone
/// would not tell: root has all of them, and a folder may be read-only or not take files.
int error_of_making_in(const fs::path& folder) {
  std::string name = (folder / "alpa.XXXXXX").string();
  const int file = ::mkstemp(name.data());
  if (file < 0) return errno;
  ::close(file);
  ::unlink(name.c_str());
  return 0;
}

fs::path folder_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? "." : parent;
}

/// Of an existing file: where a link leads decides, since files are replaced by renaming. Devices,
/// pipes and the program's own streams (/dev/stdout) are written to as they are.
int error_of_replacing(const std::string& path, mode_t mode) {
  if (S_ISDIR(mode)) return EISDIR;
  if (!S_ISREG(mode) || path.starts_with("/dev/"))
    return ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
  std::error_code failure;
  const fs::path target = fs::canonical(path, failure);
  return failure ? failure.value() : error_of_making_in(folder_of(target));
}

}  // namespace

void require_writable_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0)
    return require_none(error_of_replacing(path, info.st_mode), path);
  require_none(errno == ENOENT ? error_of_making_in(folder_of(path)) : errno, path);
}

void require_writable_folder(const std::string& path) {
  struct stat info {};
  fs::path existing = path;  // the nearest folder that there is
  while (::stat(existing.c_str(), &info) != 0) {
    if (errno != ENOENT) require_none(errno, path);
    existing = folder_of(existing);
  }
  require_none(S_ISDIR(info.st_mode) ? error_of_making_in(existing) : ENOTDIR, path);
}

}  // namespace alpa
