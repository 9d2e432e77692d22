// Loading libalpa_cuda.so: every way it can fail ends in one line.
#include "src/cuda_loader/cuda_library.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <set>
#include <thread>
#include <vector>

#include "support/error_text.h"

namespace cuda_library_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

/// A library of tests/cuda_loader/fake.
std::string fake(const std::string& name) {
  return fmt::format("{}/libfake_cuda_{}.so", ALPA_FAKE_CUDA_FOLDER, name);
}

}  // namespace

TEST_CASE("without the library, the reason names the file that is not there") {
  for (const std::string path : {"libalpa_cuda_of_nobody.so", "/nowhere/libalpa_cuda.so"}) {
    const CudaSupport support = load_cuda_library(path);
    CHECK(support.reason == "there is no " + path);
    CHECK(support.functions == nullptr);
    CHECK_FALSE(support.usable());
  }
}

TEST_CASE("a file that is not a library is named with the system's reason") {
  const std::string path = __FILE__;
  CHECK(load_cuda_library(path).reason ==
        path + " does not load: " + path + ": invalid ELF header");
}

TEST_CASE("a library that lacks another one is not taken for a missing library") {
  CHECK(load_cuda_library(fake("incomplete")).reason ==
        fake("incomplete") + " does not load: " + fake("incomplete") +
            ": undefined symbol: alpa_a_function_of_nobody");
}

TEST_CASE("a library of somebody else is refused") {
  CHECK(load_cuda_library("libz.so.1").reason ==
        "libz.so.1 is not alpa's: it has no alpa_cuda_functions");
}

TEST_CASE("a library of another interface is refused") {
  const CudaSupport support = load_cuda_library(fake("newer"));
  CHECK(support.reason == fake("newer") + fmt::format(" has interface {}, this program needs {}: "
                                                      "install both from one build",
                                                      kCudaInterface + 1, kCudaInterface));
  CHECK(support.functions == nullptr);
}

TEST_CASE("a library that finds no device keeps its functions and gives the reason in one line") {
  const CudaSupport support = load_cuda_library(fake("driverless"));
  CHECK(support.reason == "CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver)");
  CHECK(support.functions != nullptr);
  CHECK(support.path == fake("driverless"));
  CHECK_FALSE(support.usable());
}

TEST_CASE("a library that finds devices is usable and gives no reason") {
  const CudaSupport support = load_cuda_library(fake("two_devices"));
  CHECK(support.reason == "");
  CHECK(support.devices == 2);
  CHECK(support.usable());
}

TEST_CASE("devices have a card each or share the only one, and never leave cards idle") {
  CudaSupport cuda = load_cuda_library(fake("two_devices"));
  for (int devices : {1, 2})
    CHECK(error_of([&] { require_cards(cuda, devices, "x"); }) == "no error");
  CHECK(error_of([&] { require_cards(cuda, 3, "Cluster::local"); }) ==
        "Cluster::local: 3 devices, but the machine has 2 cards; "
        "take at most 2, or leave one card visible (CUDA_VISIBLE_DEVICES=0), "
        "which any number of devices may share");
  cuda.devices = 1;
  CHECK(error_of([&] { require_cards(cuda, 8, "x"); }) == "no error");
}

TEST_CASE("all threads see one answer, found once") {
  std::vector<const CudaSupport*> seen(8);
  std::vector<std::thread> threads;
  for (const CudaSupport*& at : seen) threads.emplace_back([&at] { at = &cuda_support(); });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::set(seen.begin(), seen.end()).size() == 1);
  CHECK(seen.front()->usable() == seen.front()->reason.empty());
  CHECK(seen.front()->reason.find('\n') == std::string::npos);
}

TEST_CASE("the library is found exactly where it was built") {
  const bool absent = cuda_support().reason.starts_with("no libalpa_cuda.so in ");
  CHECK(absent == !ALPA_HAS_CUDA);
}

}  // namespace cuda_library_test
