// libFuzzer's entry (ALPA_FUZZ=ON, clang): ALPA_FUZZ_HARNESS=graph fuzz_parsers [CORPUS FOLDER].
// The harness's seeds are put into the folder first.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "fuzz/harness.h"

using alpa::fuzz::Harness;

namespace {

const Harness& chosen() {
  const char* const name = std::getenv("ALPA_FUZZ_HARNESS");
  for (const Harness& harness : alpa::fuzz::harnesses())
    if (name != nullptr && std::string_view(name) == harness.name) return harness;
  std::fputs("set ALPA_FUZZ_HARNESS to one of:", stderr);
  for (const Harness& harness : alpa::fuzz::harnesses()) std::fprintf(stderr, " %s", harness.name);
  std::fputs("\n", stderr);
  std::exit(2);
}

const Harness& harness() {
  static const Harness& once = chosen();
  return once;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const Harness& chosen = harness();
  int number = 0;
  for (int i = 1; i < *argc; ++i)
    if ((*argv)[i][0] != '-')
      for (const std::string& seed : chosen.seeds())
        std::ofstream(std::string((*argv)[i]) + "/seed_" + std::to_string(number++),
                      std::ios::binary)
            << seed;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return harness().run(data, size);
}
