#pragma once
/// Files of a test, gone at its end.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace alpa::testing {

/// A file in the working folder.
class TemporaryFile {
 public:
  TemporaryFile(std::string name, const std::string& content) : path_(std::move(name)) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::remove(path_.c_str()); }

  const std::string& path() const { return path_; }
  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

}  // namespace alpa::testing
