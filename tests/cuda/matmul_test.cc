// How cuBLASLt's algorithms are chosen and remembered. What products compute
// is tested through einsum.
#include "src/cuda/matmul.h"

#include <filesystem>

#include "device_call.h"
#include "own_cache.h"
#include "src/cuda/cache_folder.h"
#include "src/cuda/choice_file.h"

namespace alpa::matmul_test {
namespace {

using namespace testing;
using cuda::Matmul;
using cuda::MatmulProblem;
using cuda::Matmuls;

/// C[m, n] = A[m, k] B[k, n] of dense row-major matrices.
MatmulProblem dense(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = f32) {
  MatmulProblem shape;
  shape.matrices = {m, n, k, k, 1, n, 1, n, {}};
  shape.operands = shape.result = dtype;
  shape.workspace_bytes = 1 << 20;
  return shape;
}

HostTensor run(const Matmul& product, const HostTensor& a, const HostTensor& b, TensorType c) {
  const DeviceBuffer a_on(a), b_on(b), c_on(static_cast<std::size_t>(c.bytes()));
  const DeviceBuffer workspace((1 << 20) + 256);
  auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  address = (address + 255) / 256 * 256;
  product.run({.a = a_on.data(), .b = b_on.data(), .c = c_on.data()},
              reinterpret_cast<void*>(address), nullptr);
  return c_on.download(c);
}

std::vector<double> multiplied(const HostTensor& a, const HostTensor& b) {
  const std::int64_t m = a.type.shape[0], k = a.type.shape[1], n = b.type.shape[1];
  std::vector<double> c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        c[static_cast<std::size_t>(i * n + j)] += a.get(i * k + l) * b.get(l * n + j);
  return c;
}

/// The only file in the cache folder.
std::filesystem::path choices_path() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(cuda::cache_folder()))
    files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  return files[0];
}

TEST_CASE("choices are kept as text, added to what is there, and found again") {
  const OwnCache cache;
  CHECK(cuda::read_choices("x.txt").empty());
  cuda::add_choice("x.txt", "2x2 f32", "0a");
  cuda::add_choice("x.txt", "3x3 f32", "0b");
  cuda::add_choice("x.txt", "2x2 f32", "0c");
  CHECK(cuda::read_choices("x.txt") ==
        std::map<std::string, std::string>{{"2x2 f32", "0c"}, {"3x3 f32", "0b"}});
  CHECK(cuda::read_cached("x.txt") == "alpa choices 1\n2x2 f32: 0c\n3x3 f32: 0b\nend\n");
}

TEST_CASE("a damaged file of choices counts as none, and is replaced by the next choice") {
  const OwnCache cache;
  for (const char* damaged : {"", "alpa choices 1\n2x2 f32: 0c\n3x3",
                              "alpa choices 1\n2x2 f32\nend\n", "alpa choices 2\nend\n"}) {
    cuda::write_cached("x.txt", damaged);
    CHECK(cuda::read_choices("x.txt").empty());
    cuda::add_choice("x.txt", "k", "v");
    CHECK(cuda::read_choices("x.txt").size() == 1);
  }
}

TEST_CASE("bytes are written as hexadecimal digits and read back, nothing else is") {
  const unsigned char bytes[] = {0x00, 0x9f, 0xff};
  CHECK(cuda::to_text(bytes, 3) == "009fff");
  unsigned char read[3] = {};
  CHECK(cuda::from_text("009fff", read, 3));
  CHECK(std::equal(bytes, bytes + 3, read));
  for (const char* wrong : {"009ff", "009fff00", "009ffg", "009FFF"})
    CHECK_FALSE(cuda::from_text(wrong, read, 3));
}

TEST_CASE("files of choices are named after card and version") {
  CHECK(cuda::choice_file_name("products", "NVIDIA H200", 130000) ==
        "products_NVIDIA_H200_130000.txt");
}

TEST_CASE("equal texts are equal products") {
  MatmulProblem shape = dense(4, 5, 6, bf16);
  CHECK(to_string(shape) == "4x5x6 bf16 bf16 a 6,1 b 5,1 c 5 within 1048576 at 16");
  shape.matrices.batch = {{3, 24, 30, 20}};
  shape.epilogue = {.bias = true, .function = Epilogue::Function::relu};
  CHECK(to_string(shape) ==
        "4x5x6 bf16 bf16 a 6,1 b 5,1 c 5 batch 3 24,30,20 within 1048576 at 16 bias relu");
}

TEST_CASE("a measured product is right, in TF32 nearly so") {
  if (no_device()) return;
  const HostTensor a = random_tensor({f32, {64, 96}}, 1), b = random_tensor({f32, {96, 80}}, 2);
  for (const bool tf32 : {false, true}) {
    Matmuls products({.tf32 = tf32, .measured = true, .cached = false});
    const std::optional<Matmul> product = products.load(dense(64, 80, 96));
    REQUIRE(product);
    const double error = difference(run(*product, a, b, {f32, {64, 80}}), multiplied(a, b));
    CHECK(error < (tf32 ? 2e-2 : 2e-5));
    CHECK((error > 1e-5) == tf32);
  }
}

TEST_CASE(
    "what was measured is remembered by the next process, what was not measured is not kept") {
  if (no_device()) return;
  const OwnCache cache;
  Matmuls({.measured = false}).load(dense(32, 32, 32));
  CHECK_FALSE(std::filesystem::exists(cuda::cache_folder()));
  Matmuls({.measured = true, .cached = false}).load(dense(32, 32, 32));
  CHECK_FALSE(std::filesystem::exists(cuda::cache_folder()));
  Matmuls().load(dense(32, 32, 32));
  const std::string name = choices_path().filename().string();
  const auto choices = cuda::read_choices(name);
  CHECK(choices.size() == 1);
  CHECK(choices.contains(to_string(dense(32, 32, 32))));
  const auto written = std::filesystem::last_write_time(choices_path());
  Matmuls again;
  CHECK(again.load(dense(32, 32, 32)));
  CHECK(std::filesystem::last_write_time(choices_path()) == written);
  CHECK(again.load(dense(32, 32, 64)));
  CHECK(cuda::read_choices(name).size() == 2);
}

TEST_CASE(
    "a remembered algorithm that cuBLASLt does not know is measured anew, and so is a damaged "
    "file") {
  if (no_device()) return;
  const OwnCache cache;
  const HostTensor a = random_tensor({f32, {32, 48}}, 1), b = random_tensor({f32, {48, 40}}, 2);
  Matmuls().load(dense(32, 40, 48));
  const std::string name = choices_path().filename().string(), key = to_string(dense(32, 40, 48));
  const std::string good = cuda::read_choices(name).at(key);
  for (const std::string& content :
       {"alpa choices 1\n" + key + ": " + std::string(good.size(), 'f') + "\nend\n",
        "alpa choices 1\n" + key + ": nonsense\nend\n", std::string("nonsense")}) {
    cuda::write_cached(name, content);
    Matmuls products;
    const std::optional<Matmul> product = products.load(dense(32, 40, 48));
    REQUIRE(product);
    CHECK(difference(run(*product, a, b, {f32, {32, 40}}), multiplied(a, b)) < 2e-5);
    CHECK(cuda::read_cached(name) != content);
    CHECK(cuda::read_choices(name).at(key).size() == good.size());
  }
}

TEST_CASE("whether cuBLASLt takes an epilogue is remembered") {
  if (no_device()) return;
  Matmuls products({.measured = false});
  MatmulProblem shape = dense(8, 12, 16, f64);
  shape.epilogue = {.bias = true, .function = Epilogue::Function::gelu};
  const bool taken = products.load(shape).has_value();  // cuBLASLt 13.1 does, the emulation not
  CHECK(products.load(shape).has_value() == taken);
}

}  // namespace
}  // namespace alpa::matmul_test
