#pragma once
/// Environment variables and a cache folder for the time of a test.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace alpa::testing {

/// An environment variable for the time of a test; nullptr: unset.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const text = std::getenv(name)) before_ = text;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) { value == nullptr ? unsetenv(name_) : setenv(name_, value, 1); }
  const char* name_;
  std::optional<std::string> before_;
};

/// An empty cache folder that nothing else uses, removed at the end.
class OwnCache {
 public:
  OwnCache() : variable_("XDG_CACHE_HOME", path().c_str()) {}
  ~OwnCache() { std::filesystem::remove_all(path()); }

  static std::filesystem::path path() {
    return std::filesystem::temp_directory_path() / ("alpa_cache_test." + std::to_string(getpid()));
  }

 private:
  Variable variable_;
};

}  // namespace alpa::testing
