// Programs under a limit of addresses (ulimit -v) end with a result or with one line, never by a
// signal.
#include <doctest/doctest.h>

#include "support/program.h"

namespace low_memory_test {

using namespace alpa::testing;

namespace {

/// The loader's own message: it found no room for the shared libraries.
bool is_loaders(const ProgramOutput& output) {
  return output.status == 127 && output.text.find("shared librar") != std::string::npos;
}

/// The program's last line says what happened, and how to mend it.
bool is_told(const ProgramOutput& output, const std::string& program) {
  const std::size_t begin = output.text.rfind('\n', output.text.size() - 2) + 1;
  return output.text.substr(begin).starts_with(program + ": ");
}

}  // namespace

TEST_CASE("with any limit of memory, training and planning end with a result or one line") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve terabytes
  const std::pair<std::string, std::string> programs[] = {
      {"alpa-mlp", " --dim 32 --batch 64 --layers 4"}, {"alpa-gpt", ""}};
  int refused = 0, done = 0;
  for (const auto& [program, flags] : programs)
    for (const int megabytes : {74, 84, 92, 100, 120, 170, 240, 340}) {
      const ProgramOutput output =
          run_shell("ulimit -v " + std::to_string(megabytes * 1000) + "; " ALPA_PROGRAMS "/" +
                    program + flags + " --steps 1 --quiet --backend cpu");
      CAPTURE(program);
      CAPTURE(megabytes);
      CAPTURE(output.text);
      CHECK((output.status == 0 || output.status == 2 || is_loaders(output)));
      if (output.status == 2) CHECK(is_told(output, program));
      refused += output.status == 2 ? 1 : 0;
      done += output.status == 0 ? 1 : 0;
    }
  CHECK(refused > 0);
  CHECK(done > 0);
#endif
}

TEST_CASE("a small stack is enough") {
  const ProgramOutput output =
      run_shell("ulimit -s 512; " ALPA_MLP
                " --plan-only --dim 8 --layers 3 --batch 8 --devices 2 --backend cpu");
  CAPTURE(output.text);
  CHECK(output.status == 0);
}

}  // namespace low_memory_test
