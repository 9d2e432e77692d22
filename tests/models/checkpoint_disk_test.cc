// Checkpoints on disks that are full, read-only or gone, and thousands of them: the cause is said
// in one line, whole checkpoints stay, and the run goes on once it can.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "models/killed_runs.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace checkpoint_disk_test {

using namespace alpa::testing;
namespace fs = std::filesystem;

namespace {

const std::string kTool = ALPA_PROGRAMS "/alpa checkpoint ",
                  kMlp = ALPA_PROGRAMS "/alpa-mlp --devices 2 --batch 8 --quiet";

/// What the shell's commands print with a file system in memory mounted on `folder`; "": this
/// system lets nobody mount one.
std::string with_memory_disk(const std::string& folder, const std::string& size,
                             const std::string& commands) {
  if (run_shell("unshare -rm mount -t tmpfs none /tmp").status != 0) {
    MESSAGE("no file system can be mounted here");
    return "";
  }
  fs::create_directory(folder);
  return run_shell(
             "unshare -rm sh -c " +
             quoted(fmt::format("mount -t tmpfs -o size={} none {}; {}", size, folder, commands)))
      .text;
}

/// A program's command that prints its errors and status alone.
std::string ends(const std::string& command) { return command + " > /dev/null; echo status $?; "; }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a full disk ends a run in one line; what it had saved is whole, and is gone on from") {
  const TemporaryFolder folder("checkpoint_disk_test_full");
  const std::string& path = folder.path();
  const std::string run = kMlp + " --dim 512 --hidden-factor 2 --layers 4 --checkpoint-every 1" +
                          " --steps 20 --checkpoint " + path;  // 24 MB each
  const std::string text = with_memory_disk(
      path, "64m",
      ends(run + " --keep 0") + ends(kTool + "verify " + path) + "ls " + path + "; rm -r " + path +
          "/step-00000001; " + ends(run + " --keep 1 --resume") + "ls " + path);
  if (text.empty()) return;
  CAPTURE(text);
  CHECK(text.starts_with("alpa-mlp: " + path + "/.unfinished-"));
  CHECK(text.ends_with(
      "/shard-0-of-1.safetensors: cannot be written: No space left on device\nstatus 2\n"
      "status 0\nstep-00000001\nstep-00000002\nresumed from " +
      path + "/step-00000002\nstatus 0\nstep-00000020\n"));
}

TEST_CASE("a read-only folder is refused before the training; its checkpoints can be looked at") {
  const TemporaryFolder folder("checkpoint_disk_test_read_only");
  const std::string& path = folder.path();
  const std::string run = kMlp + " --dim 16 --layers 2 --checkpoint " + path;
  const std::string text =
      with_memory_disk(path, "64m",
                       ends(run + " --steps 3") + "mount -o remount,ro " + path + "; " +
                           ends(run + " --steps 6 --resume") + kTool + "verify " + path + "; " +
                           ends(kTool + "diff " + path));
  if (text.empty()) return;
  CHECK(text == "status 0\nalpa-mlp: --checkpoint: " + path +
                    ": cannot be written: Read-only file system\nstatus 2\n           3  "
                    "whole\nstatus 0\n");
}

TEST_CASE("a folder that goes away while training is named; elsewhere its run goes on") {
  const TemporaryFolder folder("checkpoint_disk_test_gone"), moved("checkpoint_disk_test_moved"),
      output("checkpoint_disk_test_output");
  const std::string run = kMlp + " --dim 64 --layers 2 --checkpoint-every 5 --checkpoint ";
  const std::string text =
      run_shell(fmt::format("timeout -s KILL 300 {}{} --steps 100000000 > {} 2>&1 & "
                            "for i in $(seq 5000); do ls -d {}/step-* && break; sleep 0.05; done "
                            "> /dev/null 2>&1; mv {} {}; "
                            "wait $!; echo status $?; tail -n 1 {}; rm {}",
                            run, folder.path(), output.path(), folder.path(), folder.path(),
                            moved.path(), output.path(), output.path()))
          .text;
  CAPTURE(text);
  CHECK(text.starts_with("status 2\nalpa-mlp: " + folder.path() + "/"));
  CHECK(text.ends_with(": cannot be written: No such file or directory\n"));
  CHECK(!fs::exists(folder.path()));
  const int newest = newest_in(moved.path());
  const std::string again =
      run_shell(run + moved.path() + fmt::format(" --resume --steps {} 2>&1", newest + 5)).text;
  CHECK(contains(again, fmt::format("resumed from {}/step-{:08}\n", moved.path(), newest)));
  CHECK(newest_in(moved.path()) == newest + 5);
}

TEST_CASE("a clock that goes backwards changes nothing: the newest is the one of most steps") {
  const TemporaryFolder folder("checkpoint_disk_test_clock");
  const std::string run =
      kMlp + " --dim 16 --layers 2 --checkpoint-every 1 --keep 3 --checkpoint " + folder.path();
  REQUIRE(run_shell(run + " --steps 3").status == 0);
  // The newest is the oldest by time, and one is of the year 2100.
  const auto now = fs::file_time_type::clock::now();
  for (const auto& [step, hours] : {std::pair(1, 24 * 365 * 74), {2, 0}, {3, -24 * 365 * 20}})
    for (const char* file : {"", "/manifest.json", "/shard-0-of-1.safetensors"})
      fs::last_write_time(fmt::format("{}/step-{:08}{}", folder.path(), step, file),
                          now + std::chrono::hours(hours));
  const ProgramOutput output = run_shell(run + " --steps 4 --resume");
  CHECK(output.status == 0);
  CHECK(contains(output.text, "resumed from " + folder.path() + "/step-00000003\n"));
  for (const int step : {1, 2, 3, 4})
    CHECK(fs::exists(fmt::format("{}/step-{:08}", folder.path(), step)) == (step > 1));
}

TEST_CASE("a folder of 5,000 checkpoints is listed, verified, resumed from and cleared") {
  const TemporaryFolder folder("checkpoint_disk_test_many");
  const std::string& path = folder.path();
  const std::string run = ALPA_PROGRAMS
                          "/alpa-mlp --dim 4 --layers 1 --batch 2 --devices 1 --quiet"
                          " --checkpoint-every 1 --checkpoint " +
                          path;
  const std::string text = with_memory_disk(
      path, "1g",
      ends(run + " --keep 0 --steps 5000") + "ls " + path + " | wc -l; " + kTool + "list " + path +
          " | wc -l; " + kTool + "verify " + path + " | grep -c whole; " +
          ends(run + " --keep 3 --steps 5002 --resume") + "ls " + path);
  if (text.empty()) return;
  CHECK(text == "status 0\n5000\n5001\n5000\nresumed from " + path +
                    "/step-00005000\nstatus 0\nstep-00005000\nstep-00005001\nstep-00005002\n");
}

}  // namespace checkpoint_disk_test
