#pragma once
/// A folder of a test, gone at its end with all that is in it.
#include <unistd.h>

#include <filesystem>
#include <string>

namespace alpa::testing {

/// A folder in the working folder, `name`-`process`, since a test may run as several programs at
/// once; it is not made, only removed.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name) : path_(name + "-" + std::to_string(getpid())) {
    clear();
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { clear(); }

  const std::string& path() const { return path_; }
  void clear() const {
    std::error_code failure;
    std::filesystem::remove_all(path_, failure);
  }

 private:
  std::string path_;
};

}  // namespace alpa::testing
