// The host's memory on machines and in control groups that are made of files.
#include "src/base/host_memory.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace alpa::host_memory_test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMiB = 1 << 20;

/// The files below a root that goes with the test.
class Machine {
 public:
  Machine() : root_(fs::temp_directory_path() / ("alpa_host_memory_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    add("/proc/meminfo",
        "MemTotal:        8388608 kB\nMemFree:          100 kB\nMemAvailable:    6291456 kB\n");
  }
  ~Machine() { fs::remove_all(root_); }

  Machine& add(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
    return *this;
  }

  /// The process is in `group` of a hierarchy of version 2 whose folder shows the
  /// groups from `mounted` on.
  Machine& version_2(const std::string& group, const std::string& mounted = "/") {
    add("/proc/self/cgroup", "0::" + group + "\n");
    return add("/proc/self/mountinfo",
               "22 1 0:21 / /proc rw - proc proc rw\n"
               "30 25 0:26 " +
                   mounted + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
  }

  Machine& version_1(const std::string& group, const std::string& mounted = "/") {
    add("/proc/self/cgroup", "5:cpu,cpuacct:/elsewhere\n4:memory:" + group + "\n0::/\n");
    return add("/proc/self/mountinfo",
               "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
               "35 31 0:32 " +
                   mounted + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }

  HostMemory memory() const { return host_memory(root_); }

 private:
  std::string root_;
};

std::string mebibytes(std::int64_t n) { return std::to_string(n * kMiB) + "\n"; }

}  // namespace

TEST_CASE("without control groups, memory is the machine's") {
  const HostMemory memory = Machine().memory();
  CHECK(memory.total_bytes == 8192 * kMiB);
  CHECK(memory.limit_bytes == 8192 * kMiB);
  CHECK(memory.available_bytes == 6144 * kMiB);
  CHECK(memory.group == "");
}

TEST_CASE(
    "a group of version 2 limits what may be used, and what is left: cached files count as free") {
  Machine machine;
  machine.version_2("/box")
      .add("/sys/fs/cgroup/box/memory.max", mebibytes(400))
      .add("/sys/fs/cgroup/box/memory.current", mebibytes(300))
      .add("/sys/fs/cgroup/box/memory.stat",
           "anon 104857600\ninactive_file 52428800\nactive_file 20971520\ninactive_file_x 7\n");
  const HostMemory memory = machine.memory();
  CHECK(memory.total_bytes == 8192 * kMiB);
  CHECK(memory.limit_bytes == 400 * kMiB);
  CHECK(memory.available_bytes == (400 - 300 + 50 + 20) * kMiB);
  CHECK(memory.group == "/box");
}

TEST_CASE(
    "the least limit of all groups around it counts, and so does the one with the least left") {
  Machine machine;
  machine.version_2("/a/b/c")
      .add("/sys/fs/cgroup/a/b/c/memory.max", "max\n")
      .add("/sys/fs/cgroup/a/b/memory.max", mebibytes(500))
      .add("/sys/fs/cgroup/a/b/memory.current", mebibytes(100))
      .add("/sys/fs/cgroup/a/memory.max", mebibytes(1000))
      .add("/sys/fs/cgroup/a/memory.current", mebibytes(900));
  const HostMemory memory = machine.memory();
  CHECK(memory.limit_bytes == 500 * kMiB);
  CHECK(memory.available_bytes == 100 * kMiB);
  CHECK(memory.group == "/a");
}

TEST_CASE("memory.high is a limit") {
  Machine machine;
  machine.version_2("/box")
      .add("/sys/fs/cgroup/box/memory.max", mebibytes(400))
      .add("/sys/fs/cgroup/box/memory.high", mebibytes(300));
  CHECK(machine.memory().limit_bytes == 300 * kMiB);
}

TEST_CASE("a group of version 1, whose largest number stands for none") {
  Machine machine;
  machine.version_1("/docker/x")
      .add("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
      .add("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", mebibytes(400))
      .add("/sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", mebibytes(120))
      .add("/sys/fs/cgroup/memory/docker/x/memory.stat",
           "inactive_file 1\ntotal_inactive_file 20971520\n");
  const HostMemory memory = machine.memory();
  CHECK(memory.limit_bytes == 400 * kMiB);
  CHECK(memory.available_bytes == 300 * kMiB);
  CHECK(memory.group == "/docker/x");
}

TEST_CASE("in a container the mounted folder may be the group itself, whatever its path") {
  for (const char* group : {"/docker/x", "/", "/../y", "/other"}) {
    CAPTURE(group);
    Machine machine;
    machine.version_1(group, "/docker/x")
        .add("/sys/fs/cgroup/memory/memory.limit_in_bytes", mebibytes(400))
        .add("/sys/fs/cgroup/memory/memory.usage_in_bytes", mebibytes(390));
    CHECK(machine.memory().limit_bytes == 400 * kMiB);
    CHECK(machine.memory().available_bytes == 10 * kMiB);
    CHECK(machine.memory().group == "/");
  }
}

TEST_CASE("more used than allowed leaves nothing, and a limit above the machine's memory is none") {
  Machine machine;
  machine.version_2("/box")
      .add("/sys/fs/cgroup/box/memory.max", mebibytes(400))
      .add("/sys/fs/cgroup/box/memory.current", mebibytes(500));
  CHECK(machine.memory().available_bytes == 0);
  machine.add("/sys/fs/cgroup/box/memory.max", mebibytes(9000));
  CHECK(machine.memory().limit_bytes == 8192 * kMiB);
  CHECK(machine.memory().available_bytes == 6144 * kMiB);
}

TEST_CASE("files that hold something else set no limit") {
  for (const char* nonsense : {"", "many", "-5", "\n"}) {
    Machine machine;
    machine.version_2("/box").add("/sys/fs/cgroup/box/memory.max", nonsense);
    CHECK(machine.memory().limit_bytes == 8192 * kMiB);
    machine.add("/proc/self/mountinfo", nonsense);
    CHECK(machine.memory().limit_bytes == 8192 * kMiB);
    machine.add("/proc/meminfo", nonsense);
    CHECK(machine.memory().total_bytes == host_memory("/nowhere").total_bytes);
  }
}

TEST_CASE("this machine has memory, and no more is available than may be used") {
  const HostMemory memory = host_memory();
  CHECK(memory.available_bytes > 0);
  CHECK(memory.available_bytes <= memory.limit_bytes);
  CHECK(memory.limit_bytes <= memory.total_bytes);
}

}  // namespace alpa::host_memory_test
