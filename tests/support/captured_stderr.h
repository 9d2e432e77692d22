#pragma once
/// What this process prints on stderr, for a test.
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "support/temporary_file.h"

namespace alpa::testing {

/// stderr of this process goes to a file while this lives.
class CapturedStderr {
 public:
  explicit CapturedStderr(const std::string& file) : file_(file, ""), before_(dup(2)) {
    const int to = open(file.c_str(), O_WRONLY | O_APPEND);
    dup2(to, 2);
    close(to);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;
  ~CapturedStderr() {
    dup2(before_, 2);
    close(before_);
  }
  std::string text() const { return file_.content(); }

 private:
  TemporaryFile file_;
  int before_;
};

}  // namespace alpa::testing
