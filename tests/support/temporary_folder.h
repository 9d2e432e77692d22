#pragma once
/// A folder of a test, gone at its end with all that is in it.
#include <filesystem>
#include <string>

namespace alpa::testing {

/// A folder in the working folder; it is not made, only removed.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string name) : path_(std::move(name)) { remove(); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { remove(); }

  const std::string& path() const { return path_; }

 private:
  void remove() const {
    std::error_code failure;
    std::filesystem::remove_all(path_, failure);
  }
  std::string path_;
};

}  // namespace alpa::testing
