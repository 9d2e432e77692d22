// Clusters made of the cards of this machine: nominal rates against NVIDIA's data sheets.
#include "src/cuda_loader/cuda_cluster.h"

#include <doctest/doctest.h>

#include "support/error_text.h"

namespace cuda_cluster_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30, kKernels = kGiB / 2;

CudaDevice card(int major, int multiprocessors, std::int64_t clock, std::int64_t bytes_per_second) {
  CudaDevice card{};
  card.major = major;
  card.multiprocessors = multiprocessors;
  card.clock_hertz = clock;
  card.memory_bytes = 80 * kGiB;
  card.free_bytes = 79 * kGiB;
  card.memory_bytes_per_second = bytes_per_second;
  return card;
}

const CudaDevice kA100 = card(8, 108, 1'410'000'000, 2'039'000'000'000);
const CudaDevice kH100 = card(9, 132, 1'830'000'000, 3'352'000'000'000);

/// Rate of `dtype` in TFLOP/s if products reached all of the nominal rate (the model says 0.75).
double nominal_tera(const CudaDevice& card, DType dtype) {
  return cuda_cluster(1, 1, card, false).device.flops_per_second.at(dtype) / 0.75 * 1e-12;
}

}  // namespace

TEST_CASE("nominal rates are those of the data sheets") {
  CHECK(nominal_tera(kA100, bf16) == doctest::Approx(312).epsilon(0.01));
  CHECK(nominal_tera(kA100, f16) == doctest::Approx(312).epsilon(0.01));
  CHECK(nominal_tera(kA100, f32) == doctest::Approx(19.5).epsilon(0.01));
  CHECK(nominal_tera(kA100, f64) == doctest::Approx(19.5).epsilon(0.01));
  CHECK(nominal_tera(kH100, bf16) == doctest::Approx(989).epsilon(0.01));
}

TEST_CASE("a card per device has its own memory and links; logical devices share one card") {
  const Cluster own = cuda_cluster(4, 4, kH100, true), shared = cuda_cluster(8, 4, kH100, true);
  CHECK(own.backend == "cuda");
  CHECK(own.num_devices() == 4);
  const std::int64_t usable = 79 * kGiB - 79 * kGiB / 50 - kKernels;
  CHECK(own.device.memory_bytes == usable - kGiB);  // which is left to NCCL's buffers
  CHECK(own.within_host.beta_seconds_per_byte == doctest::Approx(1 / 150e9));
  CHECK(cuda_cluster(4, 4, kH100, false).within_host.beta_seconds_per_byte ==
        doctest::Approx(1 / 12e9));
  CHECK(shared.num_devices() == 8);
  CHECK(shared.device.memory_bytes == usable / 8);
  CHECK(8 * shared.device.flops_per_second.at(bf16) ==
        doctest::Approx(own.device.flops_per_second.at(bf16)));
  CHECK(8 * shared.device.memory_bytes_per_second ==
        doctest::Approx(own.device.memory_bytes_per_second));
}

TEST_CASE("of a card's free memory max(1 GiB, 2 %) and 512 MiB are left, at most a half") {
  const auto left = [](std::int64_t free) {
    CudaDevice some = kH100;
    some.free_bytes = free;
    return free - cuda_cluster(1, 1, some, false).device.memory_bytes;
  };
  CHECK(left(140 * kGiB) == 140 * kGiB / 50 + kKernels);
  CHECK(left(50 * kGiB) == kGiB + kKernels);
  CHECK(left(8 * kGiB) == kGiB + kKernels);
  CHECK(left(kGiB) == kGiB / 2);
  CHECK(left(0) == 0);
}

TEST_CASE("a backend that the machine has not, or nobody knows") {
  CHECK(error_of([] { Cluster::local(1, "tpu"); }) ==
        "Cluster::local: backend \"tpu\" is unknown; known are \"cpu\" and \"cuda\"");
}

TEST_CASE("the cards of this process are named, with the versions of CUDA and the library") {
  CudaFunctions functions{};
  functions.versions = [](CudaVersions* versions, CudaMessage*) {
    *versions = {"13.0", "13.1", "", "", "", "", ""};
    return 0;
  };
  functions.device = [](std::int32_t, CudaDevice* device, CudaMessage*) {
    *device = {"NVIDIA H200", 9, 0, 132, 0, 0, 0, 0, 0};
    return 0;
  };
  const CudaDevices two = cuda_devices_of({&functions, "/opt/lib/libalpa_cuda.so", 2, ""});
  CHECK(two.count == 2);
  CHECK(two.text == "2 x NVIDIA H200, CUDA 13.0, driver for 13.1; /opt/lib/libalpa_cuda.so");
  const CudaDevices none = cuda_devices_of({nullptr, "", 0, "no libalpa_cuda.so"});
  CHECK(none.count == 0);
  CHECK(none.text == "no libalpa_cuda.so");
}

}  // namespace cuda_cluster_test
