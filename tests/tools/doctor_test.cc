// alpa doctor: the program on this machine (structure, not numbers), and its texts
// for machines we do not have.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "src/base/thread_team.h"
#include "tools/doctor_report.h"

namespace doctor_test {

using namespace doctor;
using Json = nlohmann::json;

namespace {

struct Output {
  std::string text;
  int status = 0;
};

Output run(const std::string& arguments) {
  std::FILE* pipe = popen((ALPA_TOOL " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Output output;
  char chunk[4096];
  while (const std::size_t size = std::fread(chunk, 1, sizeof chunk, pipe))
    output.text.append(chunk, size);
  output.status = WEXITSTATUS(pclose(pipe));
  return output;
}

template <std::size_t N>
void set(char (&to)[N], const char* text) {
  std::snprintf(to, N, "%s", text);
}

/// What the library reports on a machine with the toolkit alone.
Cuda without_driver() {
  Cuda cuda;
  cuda.reason = "CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver)";
  cuda.library = "/x/libalpa_cuda.so";
  set(cuda.versions.runtime, "13.0");
  set(cuda.versions.cublas, "13.1.0");
  set(cuda.versions.cublas_lt, "13.1.1");
  set(cuda.versions.cudnn, "9.13.1");
  set(cuda.versions.nccl, "2.28.9");
  set(cuda.versions.nvrtc, "13.0");
  return cuda;
}

/// Two cards of a machine nobody has.
Cuda with_two_devices() {
  Cuda cuda = without_driver();
  cuda.reason = "";
  cuda.cards_seen = 2;
  set(cuda.versions.driver, "13.1");
  Gpu gpu;
  set(gpu.device.name, "NVIDIA Z1");
  gpu.device.major = 9;
  gpu.device.multiprocessors = 132;
  gpu.device.clock_hertz = 1'980'000'000;
  gpu.device.memory_bytes = std::int64_t{80} << 30;
  gpu.device.free_bytes = std::int64_t{79} << 30;
  gpu.device.l2_bytes = std::int64_t{50} << 20;
  gpu.matmul = {{"f32", 5e13}, {"bf16", 7.5e14}};
  gpu.copy_bytes_per_second = 4.25e12;
  gpu.dnn = "cuDNN convolution and attention run";
  gpu.free_behind_bytes = gpu.device.free_bytes - (std::int64_t{310} << 20);
  cuda.gpus = {gpu, {}};
  cuda.gpus[1].error =
      "cudaMalloc(1024 bytes): cudaErrorMemoryAllocation (2): out of memory, at x.cc:1";
  cuda.links = {{0, 1, {1, 1, 0}}, {1, 0, {0, 0, 2}}};
  return cuda;
}

Report report_of(const Cuda& cuda) {
  Report report;
  report.version = "0.1.0";
  report.processor = {"Abacus",
                      2,
                      4,
                      {"avx2", "fma"},
                      "avx2",
                      std::int64_t{8} << 30,
                      std::int64_t{8} << 30,
                      std::int64_t{3} << 29,
                      {{"f32", 1.5e11}},
                      2.5e10};
  report.cuda = cuda;
  report.missing = missing_for_cuda(cuda);
  return report;
}

constexpr const char* kProcessorText =
    "alpa        0.1.0\n"
    "processor   Abacus, 2 of 4 cores usable\n"
    "            avx2 fma; kernels for avx2\n"
    "            matmul f32 150 GFLOP/s; copy 25.0 GB/s read and written\n"
    "memory      8.0 GiB, 1.5 GiB available\n";

}  // namespace

TEST_CASE("the report of this machine as JSON has every part, with rates above zero") {
  const Output output = run("doctor --json --seconds 0.01");
  CHECK(output.status == 0);
  const Json json = Json::parse(output.text);
  const Json& processor = json.at("processor");
  CHECK(processor.at("usable_cores") == alpa::usable_cores());
  CHECK(processor.at("memory_bytes") > processor.at("available_bytes"));
  for (const char* dtype : {"f32", "f64", "bf16", "f16"})
    CHECK(processor.at("ceilings").at("matmul_flops_per_second").at(dtype) > 1e6);
  CHECK(processor.at("ceilings").at("copy_bytes_per_second") > 1e6);
  const Json& cuda = json.at("cuda");
  CHECK(cuda.at("reason").is_null() == !cuda.at("devices").empty());
  std::map<std::string, std::string> status;
  for (const Json& library : json.at("libraries")) {
    CHECK(library.at("version").is_null() == (library.at("status") == "not found"));
    status[library.at("name")] = library.at("status");
  }
  CHECK(status.contains("NCCL") == !cuda.at("library").is_null());
  for (const char* name : {"CBC", "oneDNN", "Eigen", "fmt"}) CHECK(status.at(name) != "not found");
  CHECK(json.at("missing").is_array());
}

TEST_CASE("nothing is measured in no time") {
  const Json json = Json::parse(run("doctor --json --seconds 0").text);
  CHECK(json.at("processor").at("ceilings").is_null());
  for (const Json& device : json.at("cuda").at("devices")) CHECK(device.at("ceilings").is_null());
}

TEST_CASE("the text says why there is no CUDA device") {
  const std::string text = run("doctor --seconds 0").text, reason = alpa::cuda_support().reason;
  CHECK_MESSAGE(
      text.find(reason.empty() ? "devices\n" : "\ncuda        " + reason + "\n") != text.npos,
      text);
}

TEST_CASE("the text of a machine with the toolkit, but neither card nor driver") {
  CHECK(report_text(report_of(without_driver())) ==
        std::string(kProcessorText) +
            "cuda        CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver)\n"
            "missing     NVIDIA GPU: none is on the PCI bus; alpa runs on the CPU\n");
}

TEST_CASE("the text of a machine with two devices") {
  CHECK(
      report_text(report_of(with_two_devices())) ==
      std::string(kProcessorText) +
          "cuda        2 devices\n"
          "gpu 0       NVIDIA Z1, sm_90, 132 multiprocessors up to 1.98 GHz, 80.0 GiB, "
          "79.0 GiB free, L2 50 MiB\n"
          "            matmul f32 50.0 TFLOP/s, bf16 750 TFLOP/s; copy 4.25 TB/s read and written\n"
          "            cuDNN convolution and attention run\n"
          "            kernels of these libraries take 310 MiB\n"
          "gpu 1       failed: cudaMalloc(1024 bytes): cudaErrorMemoryAllocation (2): "
          "out of memory, at x.cc:1\n"
          "link        0 -> 1: direct, atomics, rank 0\n"
          "link        1 -> 0: through the host, rank 2\n");
}

TEST_CASE("the text says whether several processes can be started") {
  Report report = report_of(without_driver());
  const auto text = [&](const Launch& launch) {
    report.launch = launch;
    const std::string whole = report_text(report);
    const std::size_t begin = whole.find("\nprocesses ") + 1;
    return whole.substr(begin, whole.find("missing ") - begin);
  };
  Launch launch{.library = "/x/libalpa_mpi.so", .version = "Open MPI v4.1.4"};
  launch.mpirun = "mpirun (Open MPI) 4.1.4";
  CHECK(text(launch) ==
        "processes   1, without a launcher; mpirun (Open MPI) 4.1.4 can start several: Open MPI "
        "v4.1.4 (/x/libalpa_mpi.so)\n");
  launch.mpirun = "";
  CHECK(text(launch) ==
        "processes   1, without a launcher; several cannot be started: no mpirun is on the PATH\n");
  launch.reason = "no MPI";
  CHECK(text(launch) == "processes   1, without a launcher; several cannot be started: no MPI\n");
}

TEST_CASE("the text of a launch has its hosts and what is wrong with bindings") {
  Report report = report_of(without_driver());
  Launch launch{
      .launcher = "mpirun", .size = 6, .library = "/x/m.so", .version = "Open MPI v4.1.4"};
  launch.hosts = {{"n1", {0, 1, 2, 3}, 4, 8, 1, 1, 0}, {"n2", {4, 5}, 8, 8, 2, 8, 2}};
  launch.wrong = wrong_bindings(launch);
  report.launch = launch;
  const std::string text = report_text(report);
  CHECK_MESSAGE(
      text.find(
          "processes   6 by mpirun on 2 hosts; Open MPI v4.1.4 (/x/m.so)\n"
          "host        n1: ranks 0 to 3, 4 of 8 cores (1 per process), no GPU\n"
          "host        n2: ranks 4, 5, 8 of 8 cores (2 to 8 per process), 2 GPUs\n"
          "wrong       host n1: its processes may use 4 of 8 cores, so that devices share "
          "them while others idle; start with mpirun --bind-to none, or with --map-by "
          "slot:PE=N for N cores each\n"
          "wrong       host n1 has 4 processes, host n2 has 2; start as many on every host\n") !=
          text.npos,
      text);
  launch.launcher = "srun";
  CHECK(wrong_bindings(launch)[0].ends_with(
      "give srun --cpu-bind=none, and the job more of --cpus-per-task"));
  const Json json = Json::parse(report_json(report)).at("launch");
  CHECK(json.at("hosts").at(1) == Json{{"name", "n2"},
                                       {"ranks", {4, 5}},
                                       {"cores", 8},
                                       {"offered_cores", 8},
                                       {"cores_per_process", {2, 8}},
                                       {"gpus", 2}});
  CHECK(json.at("wrong").size() == 2);
  CHECK(json.at("reason").is_null());
}

TEST_CASE("a limit of control groups on memory is told") {
  Report report = report_of(without_driver());
  report.processor.limit_bytes = std::int64_t{2} << 30;
  CHECK(report_text(report).find(
            "memory      8.0 GiB, control groups allow 2.0 GiB, 1.5 GiB available\n") !=
        std::string::npos);
  CHECK(Json::parse(report_json(report)).at("processor").at("limit_bytes") == std::int64_t{2}
                                                                                  << 30);
}

TEST_CASE("the JSON of a machine with two devices") {
  const Json cuda = Json::parse(report_json(report_of(with_two_devices()))).at("cuda");
  CHECK(cuda.at("reason").is_null());
  CHECK(cuda.at("devices").at(0).at("compute_capability") == "9.0");
  CHECK(cuda.at("devices").at(0).at("ceilings").at("matmul_flops_per_second").at("bf16") == 7.5e14);
  CHECK(cuda.at("devices").at(0).at("error").is_null());
  CHECK(cuda.at("devices").at(1).at("error").get<std::string>().starts_with("cudaMalloc"));
  CHECK(cuda.at("links").at(0) ==
        Json{{"from", 0}, {"to", 1}, {"peer", true}, {"atomics", true}, {"performance_rank", 0}});
}

TEST_CASE("a machine without cuDNN says so, and what else is there is used") {
  Cuda cuda = with_two_devices();
  set(cuda.versions.cudnn, "");
  cuda.gpus[0].dnn = "";
  Report report = report_of(cuda);
  report.libraries = libraries(cuda, {});
  CHECK(report_text(report).find("\n            cuDNN, tested with 9.19.0: not found\n") !=
        std::string::npos);
  CHECK(report_text(report).ends_with(
      "missing     cuDNN: convolutions and attention run on plain kernels, which are slow: "
      "apt-get install -y libcudnn9-cuda-13 (from NVIDIA's Debian repository), "
      "or pip install nvidia-cudnn-cu13 and name its folder in LD_LIBRARY_PATH\n"));
  CHECK(Json::parse(report_json(report)).at("libraries").at(4).at("version").is_null());
}

TEST_CASE("libraries are compared with the tested versions by number") {
  const auto of = [](const char* version, const char* tested) {
    return verdict({"x", version, tested});
  };
  CHECK(of("9.19.0", "9.19.0") == "ok");
  CHECK(of("13.0", "13.0.2") == "ok");
  CHECK(of("9.8.0", "9.19.0") == "older than tested");
  CHECK(of("9.19.1", "9.19.0") == "newer than tested");
  CHECK(of("10", "9.19.0") == "newer than tested");
  CHECK(of("2.1rc1", "2.1") == "ok");
  CHECK(of("13.1", "") == "not tested");
  CHECK(of("", "9.19.0") == "not found");
}

TEST_CASE("the libraries of CUDA, MPI and the core are listed, those of CUDA with its backend") {
  const Launch launch{.version = "Open MPI v5.0.1"};
  Report report = report_of(with_two_devices());
  report.libraries = libraries(report.cuda, launch);
  CHECK(report_text(report).find(
            "\nlibraries   CUDA runtime 13.0, tested with 13.0: ok\n"
            "            CUDA driver 13.1, tested with 13.0: newer than tested\n") !=
        std::string::npos);
  CHECK(Json::parse(report_json(report)).at("libraries").at(7) ==
        Json{{"name", "Open MPI"},
             {"version", "5.0.1"},
             {"tested", "4.1.4"},
             {"status", "newer than tested"}});
  CHECK(libraries(report.cuda, launch).size() == 12);
  CHECK(libraries({}, launch).size() == 5);
  CHECK(verdict(libraries({}, {}).front()) == "not found");
  CHECK(verdict(libraries({}, {.version = "MPICH 4.2"}).front()) == "not tested");
}

TEST_CASE("what is missing comes with what to do") {
  const std::string driver =
      "apt-get install -y nvidia-open (from NVIDIA's Debian repository), then restart";
  CHECK(missing_for_cuda(with_two_devices()).empty());

  Cuda cuda = without_driver();
  cuda.cards_seen = 1;
  CHECK(missing_for_cuda(cuda) == std::vector<Missing>{{"NVIDIA driver", driver}});

  cuda.reason =
      "CUDA 13.0 runtime, but the driver only supports CUDA 12.4 (cudaErrorInsufficientDriver)";
  set(cuda.versions.driver, "12.4");
  CHECK(missing_for_cuda(cuda) == std::vector<Missing>{{"newer NVIDIA driver", driver}});

  cuda.reason = "CUDA 13.0 runtime and a driver for CUDA 13.0, but no device (cudaErrorNoDevice)";
  CHECK(missing_for_cuda(cuda) ==
        std::vector<Missing>{
            {"visible GPU", "see `nvidia-smi` and the variable CUDA_VISIBLE_DEVICES"}});

  Cuda bare;
  bare.reason = "there is no /nowhere/libalpa_cuda.so";
  bare.cards_seen = 1;
  CHECK(missing_for_cuda(bare) ==
        std::vector<Missing>{
            {"CUDA backend",
             "apt-get install -y cuda-toolkit-13-0 libcudnn9-dev-cuda-13 libnccl-dev (from "
             "NVIDIA's Debian repository), then configure with -DALPA_CUDA=ON and build"}});
}

}  // namespace doctor_test
