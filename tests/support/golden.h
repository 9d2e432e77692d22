#pragma once
/// Expected texts in files below tests/golden. ALPA_REWRITE_GOLDEN=1 in a test's environment writes
/// the files anew; `git diff` then shows what changed.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "src/base/file.h"

namespace alpa::testing {

inline std::string golden_path(const std::string& name) {
  return std::string(ALPA_SOURCE_DIR "/tests/golden/") + name;
}

/// The content of a golden file; "" if there is none.
inline std::string golden_text(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(golden_path(name)).rdbuf();
  return text.str();
}

/// "line 3: expected …, found …" of the first difference; "" if there is none.
inline std::string first_difference(const std::string& expected, const std::string& found) {
  std::istringstream left(expected), right(found);
  for (int number = 1;; ++number) {
    std::string a, b;
    const bool more_left = static_cast<bool>(std::getline(left, a));
    const bool more_right = static_cast<bool>(std::getline(right, b));
    if (!more_left && !more_right) return expected == found ? "" : "the last line's end differs";
    if (more_left != more_right || a != b)
      return "line " + std::to_string(number) + ": expected \"" + a + "\", found \"" + b + "\"";
  }
}

/// Checks `text` against the golden file, or writes it there.
inline void check_golden(const std::string& name, const std::string& text) {
  if (std::getenv("ALPA_REWRITE_GOLDEN") != nullptr) write_file(golden_path(name), text);
  CHECK_MESSAGE(first_difference(golden_text(name), text) == "",
                name << ": " << first_difference(golden_text(name), text)
                     << "\nALPA_REWRITE_GOLDEN=1 rewrites it");
}

}  // namespace alpa::testing
