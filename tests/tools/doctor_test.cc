// alpa doctor: the program on this machine (structure, not numbers), and its texts
// for machines we do not have.
#include <doctest/doctest.h>

#include <cstdio>
#include <map>

#include "src/base/thread_team.h"
#include "src/cuda_loader/cuda_library.h"
#include "tools/doctor_report.h"

namespace doctor_test {

using namespace doctor;
using namespace std::string_literals;
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

/// CUDA of a machine with the toolkit alone.
Json without_driver() {
  return {{"reason", "CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver)"},
          {"library", "/x/libalpa_cuda.so"},
          {"cards_seen", 0},
          {"versions",
           {{"runtime", "13.0"},
            {"driver", ""},
            {"cublas", "13.1.0"},
            {"cublas_lt", "13.1.1"},
            {"cudnn", "9.13.1"},
            {"nccl", "2.28.9"},
            {"nvrtc", "13.0"}}},
          {"devices", Json::array()},
          {"links", Json::array()}};
}

/// Two cards of a machine nobody has.
Json with_two_devices() {
  constexpr std::int64_t kFree = std::int64_t{79} << 30;
  Json cuda = without_driver();
  cuda["reason"] = nullptr;
  cuda["cards_seen"] = 2;
  cuda["versions"]["driver"] = "13.1";
  const Json ceilings = {{"matmul_flops_per_second", {{"f32", 5e13}, {"bf16", 7.5e14}}},
                         {"copy_bytes_per_second", 4.25e12}};
  Json device = {{"name", "NVIDIA Z1"},
                 {"compute_capability", "9.0"},
                 {"multiprocessors", 132},
                 {"clock_hertz", 1'980'000'000},
                 {"memory_bytes", std::int64_t{80} << 30},
                 {"free_bytes", kFree},
                 {"free_behind_bytes", kFree - (std::int64_t{310} << 20)},
                 {"l2_bytes", std::int64_t{50} << 20},
                 {"ceilings", ceilings},
                 {"dnn", "cuDNN convolution and attention run"},
                 {"error", nullptr}};
  cuda["devices"].push_back(device);
  device["error"] =
      "cudaMalloc(1024 bytes): cudaErrorMemoryAllocation (2): out of memory, at x.cc:1";
  cuda["devices"].push_back(device);
  const auto link = [](int from, int to, bool direct, int rank) {
    return Json{{"from", from},
                {"to", to},
                {"peer", direct},
                {"atomics", direct},
                {"performance_rank", rank}};
  };
  cuda["links"] = {link(0, 1, true, 0), link(1, 0, false, 2)};
  return cuda;
}

Json report_of(const Json& cuda) {
  const Json ceilings = {{"matmul_flops_per_second", {{"f32", 1.5e11}}},
                         {"copy_bytes_per_second", 2.5e10}};
  return {{"version", "0.1.0"},
          {"processor",
           {{"model", "Abacus"},
            {"usable_cores", 2},
            {"cores", 4},
            {"instruction_sets", {"avx2", "fma"}},
            {"kernels", "avx2"},
            {"memory_bytes", std::int64_t{8} << 30},
            {"limit_bytes", std::int64_t{8} << 30},
            {"available_bytes", std::int64_t{3} << 29},
            {"ceilings", ceilings}}},
          {"cuda", cuda},
          {"launch", nullptr},
          {"libraries", Json::array()},
          {"missing", missing_for_cuda(cuda)}};
}

/// A launch by `launcher` with Open MPI.
Json launch_of(const Json& launcher, int processes) {
  return {{"launcher", launcher},     {"processes", processes}, {"library", "/x/m.so"},
          {"mpi", "Open MPI v4.1.4"}, {"reason", nullptr},      {"mpirun", nullptr},
          {"hosts", Json::array()},   {"wrong", Json::array()}};
}

Json host(const char* name, const std::vector<int>& ranks, int cores, int fewest, int most,
          int gpus) {
  return {{"name", name},
          {"ranks", ranks},
          {"cores", cores},
          {"offered_cores", 8},
          {"cores_per_process", {fewest, most}},
          {"gpus", gpus}};
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
    const std::string found = library.at("status");
    CHECK(library.at("version").is_null() ==
          (found == "not found" || found.starts_with("left out when alpa was built (ALPA_WITH_")));
    status[library.at("name")] = library.at("status");
  }
  CHECK(status.contains("NCCL") == !cuda.at("library").is_null());
  for (const char* name : {"CBC", "libdeflate", "libpng", "libjpeg", "oneDNN", "Eigen", "fmt"})
    CHECK(status.at(name) != "not found");
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
  Json report = report_of(without_driver());
  const auto text = [&](const Json& launch) {
    report["launch"] = launch;
    const std::string whole = report_text(report);
    const std::size_t begin = whole.find("\nprocesses ") + 1;
    return whole.substr(begin, whole.find("missing ") - begin);
  };
  Json launch = launch_of(nullptr, 1);
  launch["mpirun"] = "mpirun (Open MPI) 4.1.4";
  CHECK(text(launch) ==
        "processes   1, without a launcher; mpirun (Open MPI) 4.1.4 can start several: Open MPI "
        "v4.1.4 (/x/m.so)\n");
  launch["mpirun"] = nullptr;
  CHECK(text(launch) ==
        "processes   1, without a launcher; several cannot be started: no mpirun is on the PATH\n");
  launch["reason"] = "no MPI";
  CHECK(text(launch) == "processes   1, without a launcher; several cannot be started: no MPI\n");
  launch["processes"] = nullptr;
  CHECK(text(launch) == "processes   not started together; no MPI\n");
  launch["launcher"] = "srun";
  CHECK(text(launch) == "processes   several by srun on unknown hosts; no MPI\n");
}

TEST_CASE("the text of a launch has its hosts and what is wrong with bindings") {
  Json report = report_of(without_driver()), launch = launch_of("mpirun", 6);
  launch["hosts"] = {host("n1", {0, 1, 2, 3}, 4, 1, 1, 0), host("n2", {4, 5}, 8, 2, 8, 2)};
  launch["wrong"] = wrong_bindings(launch);
  report["launch"] = launch;
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
  launch["launcher"] = "srun";
  CHECK(wrong_bindings(launch)[0].ends_with(
      "give srun --cpu-bind=none, and the job more of --cpus-per-task"));
}

TEST_CASE("a limit of control groups on memory is told") {
  Json report = report_of(without_driver());
  report["processor"]["limit_bytes"] = std::int64_t{2} << 30;
  CHECK(report_text(report).find(
            "memory      8.0 GiB, control groups allow 2.0 GiB, 1.5 GiB available\n") !=
        std::string::npos);
}

TEST_CASE("a machine without cuDNN says so, and what else is there is used") {
  Json cuda = with_two_devices();
  cuda["versions"]["cudnn"] = "";
  cuda["devices"][0]["dnn"] = nullptr;
  Json report = report_of(cuda);
  report["libraries"] = libraries(cuda, launch_of(nullptr, 1));
  CHECK(report_text(report).find("\n            cuDNN, tested with 9.19.0: not found\n") !=
        std::string::npos);
  CHECK(report_text(report).ends_with(
      "missing     cuDNN: convolutions and attention run on plain kernels, which are slow: "
      "apt-get install -y libcudnn9-cuda-13 (from NVIDIA's Debian repository), "
      "or pip install nvidia-cudnn-cu13 and name its folder in LD_LIBRARY_PATH\n"));
  CHECK(report["libraries"][4]["version"].is_null());
}

TEST_CASE("libraries are compared with the tested versions by number") {
  CHECK(verdict("9.19.0", "9.19.0") == "ok");
  CHECK(verdict("13.0", "13.0.2") == "ok");
  CHECK(verdict("9.8.0", "9.19.0") == "older than tested");
  CHECK(verdict("9.19.1", "9.19.0") == "newer than tested");
  CHECK(verdict("10", "9.19.0") == "newer than tested");
  CHECK(verdict("2.1rc1", "2.1") == "ok");
  CHECK(verdict("13.1", "") == "not tested");
  CHECK(verdict("", "9.19.0") == "not found");
}

TEST_CASE("the libraries of CUDA, MPI and the core are listed, those of CUDA with its backend") {
  Json report = report_of(with_two_devices()), launch = launch_of(nullptr, 1);
  launch["mpi"] = "Open MPI v5.0.1";
  report["libraries"] = libraries(report["cuda"], launch);
  CHECK(report_text(report).find(
            "\nlibraries   CUDA runtime 13.0, tested with 13.0: ok\n"
            "            CUDA driver 13.1, tested with 13.0: newer than tested\n") !=
        std::string::npos);
  CHECK(report["libraries"][7] == Json{{"name", "Open MPI"},
                                       {"version", "5.0.1"},
                                       {"tested", "4.1.4"},
                                       {"status", "newer than tested"}});
  CHECK(report["libraries"].size() == 15);
  Json cuda = without_driver();
  cuda["library"] = cuda["versions"] = nullptr;
  CHECK(libraries(cuda, launch).size() == 8);
  launch["mpi"] = nullptr;
  CHECK(libraries(cuda, launch)[0]["status"] == "not found");
  launch["mpi"] = "MPICH 4.2";
  CHECK(libraries(cuda, launch)[0]["status"] == "not tested");
}

TEST_CASE("what is missing comes with what to do") {
  const std::string driver =
      "apt-get install -y nvidia-open (from NVIDIA's Debian repository), then restart";
  const auto missing = [](const Json& cuda) {
    const Json all = missing_for_cuda(cuda);
    REQUIRE(all.size() == 1);
    return std::pair<std::string, std::string>(all[0]["what"], all[0]["remedy"]);
  };
  CHECK(missing_for_cuda(with_two_devices()).empty());

  Json cuda = without_driver();
  cuda["cards_seen"] = 1;
  CHECK(missing(cuda) == std::pair("NVIDIA driver"s, driver));

  cuda["reason"] =
      "CUDA 13.0 runtime, but the driver only supports CUDA 12.4 (cudaErrorInsufficientDriver)";
  cuda["versions"]["driver"] = "12.4";
  CHECK(missing(cuda) == std::pair("newer NVIDIA driver"s, driver));

  cuda["reason"] =
      "CUDA 13.0 runtime and a driver for CUDA 13.0, but no device (cudaErrorNoDevice)";
  CHECK(missing(cuda) ==
        std::pair("visible GPU"s, "see `nvidia-smi` and the variable CUDA_VISIBLE_DEVICES"s));

  cuda["reason"] = "there is no /nowhere/libalpa_cuda.so";
  cuda["library"] = cuda["versions"] = nullptr;
  CHECK(missing(cuda) ==
        std::pair("CUDA backend"s,
                  "apt-get install -y cuda-toolkit-13-0 libcudnn9-dev-cuda-13 libnccl-dev (from "
                  "NVIDIA's Debian repository), then configure with -DALPA_CUDA=ON and build"s));
}

}  // namespace doctor_test
