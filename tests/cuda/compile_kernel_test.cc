// The run-time compiler needs no card.
#include "src/cuda/compile_kernel.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "own_cache.h"
#include "src/cuda/cache_folder.h"

namespace alpa::compile_kernel_test {
namespace {

/// A source that no other test or run compiles.
std::string unique_source() {
  static int count = 0;
  return "extern \"C\" __global__ void own(int* x) { *x = " +
         std::to_string(getpid() * 100 + count++) + "; }";
}

TEST_CASE("machine code is kept on disk with its source, and taken from there") {
  const testing::OwnCache cache;
  const std::string source = unique_source();
  const std::vector<char> code = cuda::compile_kernel(source, 90);
  const std::string content = cuda::read_cached(cuda::kernel_file(source, 90)).value();
  CHECK(content.substr(0, source.size()) == source);
  CHECK(content.substr(content.size() - code.size()) == std::string(code.begin(), code.end()));
  // What this process has not seen yet is read from a file of the right name:
  // put another kernel there.
  const std::string other = unique_source();
  cuda::write_cached(cuda::kernel_file(other, 90), other + content.substr(source.size()));
  CHECK(cuda::compile_kernel(other, 90) == code);
}

TEST_CASE("a damaged file, or another source's, is compiled anew and replaced") {
  const testing::OwnCache cache;
  const std::string source = unique_source();
  const std::vector<char> code = cuda::compile_kernel(source, 90);
  const std::string content = cuda::read_cached(cuda::kernel_file(source, 90)).value();
  std::string flipped = content.substr(source.size());
  flipped.back() ^= 1;
  for (const std::string& damaged : {flipped, content.substr(source.size(), 4), std::string()}) {
    const std::string other = unique_source();
    cuda::write_cached(cuda::kernel_file(other, 90), other + damaged);
    CHECK(cuda::compile_kernel(other, 90).size() > 500);
    CHECK(cuda::read_cached(cuda::kernel_file(other, 90))->size() > other.size() + 500);
  }
  const std::string other = unique_source();
  cuda::write_cached(cuda::kernel_file(other, 90), content);
  CHECK(cuda::compile_kernel(other, 90) != code);
}

TEST_CASE("a kernel takes 32764 bytes of parameters, and no more") {
  const auto source = [](int bytes) {
    return "struct Large { char bytes[" + std::to_string(bytes) +
           "]; };\nextern \"C\" __global__ void last(const Large large, "
           "char* to) { *to = large.bytes[0]; }\n";
  };
  const testing::OwnCache cache;
  CHECK(cuda::compile_kernel(source(32752), 90).size() > 500);
  std::string refusal;
  try {
    cuda::compile_kernel(source(32768), 90);
  } catch (const Bug& bug) {
    refusal = bug.what();
  }
  CHECK(refusal.find("Formal parameter space overflowed") != std::string::npos);
}

TEST_CASE("files differ by source and architecture") {
  CHECK(cuda::kernel_file("a", 90) != cuda::kernel_file("b", 90));
  CHECK(cuda::kernel_file("a", 90) != cuda::kernel_file("a", 80));
  CHECK(cuda::kernel_file("a", 90) == cuda::kernel_file("a", 90));
}

TEST_CASE("the compiler knows the cards of its time and none of a later one") {
  CHECK(cuda::can_compile_for(80));
  CHECK(cuda::can_compile_for(90));
  CHECK_FALSE(cuda::can_compile_for(990));
}

}  // namespace
}  // namespace alpa::compile_kernel_test
