#include "src/cuda/cache_folder.h"

#include <doctest/doctest.h>

#include "own_cache.h"

namespace alpa::cache_folder_test {
namespace {

namespace fs = std::filesystem;
using testing::Variable;

TEST_CASE("the cache is where XDG says, else under the home folder, else nowhere") {
  const Variable home("HOME", "/somewhere");
  {
    const Variable cache("XDG_CACHE_HOME", "/elsewhere");
    CHECK(cuda::cache_folder() == "/elsewhere/alpa");
  }
  for (const char* const absent : {static_cast<const char*>(nullptr), "", "relative/path"}) {
    const Variable cache("XDG_CACHE_HOME", absent);
    CHECK(cuda::cache_folder() == "/somewhere/.cache/alpa");
    const Variable homeless("HOME", nullptr);
    CHECK(cuda::cache_folder().empty());
    cuda::write_cached("a", "1");
    CHECK_FALSE(cuda::read_cached("a").has_value());
  }
}

TEST_CASE("what is kept is found again byte for byte, and nothing else lies in the folder") {
  const testing::OwnCache cache;
  CHECK_FALSE(cuda::read_cached("a").has_value());
  const std::string content("\0\n\xff binary", 10);
  cuda::write_cached("a", "an earlier content, which is longer");
  cuda::write_cached("a", content);
  CHECK(cuda::read_cached("a") == content);
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache.path() / "alpa"))
    files += entry.is_regular_file();
  CHECK(files == 1);
}

TEST_CASE("a folder that cannot be written keeps nothing and disturbs nobody") {
  const Variable cache("XDG_CACHE_HOME", "/proc/no/such");
  cuda::write_cached("a", "1");
  CHECK_FALSE(cuda::read_cached("a").has_value());
}

}  // namespace
}  // namespace alpa::cache_folder_test
