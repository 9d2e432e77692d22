// What goes wrong while a run saves is said once, by name, and loses nothing.
#include <alpa/alpa.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace failure_test {

using namespace alpa;
using alpa::testing::error_of;
using alpa::testing::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kWidth = 64;

Executable make() {
  return parallelize(training_step(
                         {{"x", {f32, {8, kWidth}}}, {"y", {f32, {8, kWidth}}}},
                         [dense = nn::Dense(kWidth, {.name = "dense"})](const Batch& b) {
                           return LossAndMetrics{nn::mean_squared_error(dense(b["x"]), b["y"])};
                         },
                         optim::Adam{.learning_rate = 0.01}),
                     ShardParallel{}, Cluster::local(2));
}

Batches data() { return batches(linear_dataset(64, kWidth, 1), 8, 5); }

/// Lines that a run told.
struct Told {
  std::vector<std::string> lines;
  CheckpointOptions options(SaveInterval every = {}, int keep = 3) {
    return {.every = every, .keep = keep, .notify = [this](const std::string& line) {
              lines.push_back(line);
            }};
  }
};

/// No file of this process may be larger, as on a disk that is full; until it is gone.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

/// Names in a folder, but for the lock.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != ".lock") names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("a save that fails is told by the loop; older checkpoints and the state stay") {
  const TemporaryFolder folder("failure_test_full");
  const Executable train = make();
  Told told;
  Checkpoints saved(folder.path(), told.options(2));
  TrainState state = train.init(1);
  std::string error = "no error";
  {
    std::optional<FileLimit> full;
    try {
      for (const auto& batch : saved.resume(train, state, data(), 1)) {
        train.run(state, batch);
        if (state.step() != 3) continue;
        saved.wait();
        full.emplace(4096);
      }
    } catch (const Error& thrown) {
      error = thrown.what();
    }
  }
  CHECK(error.starts_with(folder.path() + "/.unfinished-"));
  CHECK(error.ends_with("/shard-0-of-1.safetensors: cannot be written: File too large"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"step-00000002"});
  // The loop goes on where the disk has room again.
  for (const auto& batch : saved.resume(train, state, data(), 1)) train.run(state, batch);
  CHECK(saved.steps() == std::vector<std::int64_t>{4, 6, 8});
}

TEST_CASE("a failure that nobody asked for is told when the checkpoints end") {
  const TemporaryFolder folder("failure_test_late");
  const Executable train = make();
  const TrainState state = train.init(1);
  Told told;
  {
    Checkpoints saved(folder.path(), told.options());
    const FileLimit full(4096);
    saved.save(state);
    CHECK(error_of([&] { saved.wait(); }).ends_with("cannot be written: File too large"));
    CHECK(error_of([&] { saved.wait(); }) == "no error");  // told once
    saved.save(state);
    sleep(1);
  }
  REQUIRE(told.lines.size() == 1);
  CHECK(told.lines[0].ends_with("cannot be written: File too large"));
}

TEST_CASE("a failed save is thrown by the next step, which then may be repeated") {
  const TemporaryFolder folder("failure_test_step");
  const Executable train = make();
  TrainState state = train.init(1);
  const BatchData batch = *data().epoch(0).begin();
  Checkpoints saved(folder.path());
  {
    const FileLimit full(4096);
    saved.save(state);
    sleep(1);
  }
  CHECK(error_of([&] { train.run(state, batch); }).ends_with("cannot be written: File too large"));
  CHECK(state.step() == 0);
  CHECK(error_of([&] { train.run(state, batch); }) == "no error");
  CHECK(error_of([&] { saved.wait(); }) == "no error");
}

TEST_CASE("two runs cannot save into one folder; what killed ones left goes") {
  const TemporaryFolder folder("failure_test_lock");
  const Executable train = make();
  const TrainState state = train.init(1);
  fs::create_directories(folder.path() + "/.unfinished-1-2/deep");
  std::ofstream(folder.path() + "/.lock") << "process 1 on another machine";  // dead: nothing locks
  {
    Checkpoints first(folder.path()), second(folder.path());
    first.save(state);
    const std::string error = error_of([&] { second.save(state); });
    CHECK(error.starts_with(fmt::format("{}: process {} on ", folder.path(), getpid())));
    CHECK(error.ends_with(" saves into this folder; give each run its own"));
    first.wait();
    CHECK(names_in(folder.path()) == std::vector<std::string>{"step-00000000"});
  }
  Checkpoints third(folder.path());
  CHECK(error_of([&] { third.save(state); }) == "no error");
}

TEST_CASE("folders that cannot be made, and options out of range, are named") {
  const Executable train = make();
  const TrainState state = train.init(1);
  std::ofstream("failure_test_file") << "a file";
  Checkpoints saved("failure_test_file/deep");
  CHECK(error_of([&] { saved.save(state); }) ==
        "failure_test_file/deep: cannot be written: Not a directory");
  std::remove("failure_test_file");
  CHECK(error_of([] { Checkpoints({}); }) == "Checkpoints: the folder's name is empty");
  CHECK(error_of([] { Checkpoints("a", {.keep = -1}); }) ==
        "CheckpointOptions: keep is -1; give 0 for all, or more");
  CHECK(error_of([] { Checkpoints("a", {.every = -5}); }) ==
        "CheckpointOptions: every is -5 steps; give steps or a time above 0");
  CHECK(Checkpoints("no such folder").steps().empty());
  CHECK(!Checkpoints("no such folder").newest());
  CHECK(error_of([&] {
          TrainState none = state;
          Checkpoints("no such folder").restore(none, 3);
        }).starts_with("no such folder/step-00000003/manifest.json: "));
}

TEST_CASE("a folder removed while training fails the save, not the training") {
  const TemporaryFolder folder("failure_test_removed");
  const Executable train = make();
  TrainState state = train.init(1);
  Checkpoints saved(folder.path());
  saved.save(state);
  saved.wait();
  fs::remove_all(folder.path());
  saved.save(state);
  CHECK(error_of([&] { saved.wait(); }).ends_with("cannot be written: No such file or directory"));
  CHECK(std::isfinite(train.run(state, *data().epoch(0).begin()).loss()));
}

TEST_CASE("saves are due after a time as after a number of steps") {
  const TemporaryFolder folder("failure_test_time"), never("failure_test_never");
  const Executable train = make();
  Told told;
  for (const auto& [path, time, steps] :
       {std::tuple(folder.path(), std::chrono::milliseconds(1),
                   std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}),
        std::tuple(never.path(), std::chrono::milliseconds(3'600'000),
                   std::vector<std::int64_t>{8})}) {
    TrainState state = train.init(1);
    Checkpoints saved(path, told.options(time, 0));
    for (const auto& batch : saved.resume(train, state, data(), 1)) {
      train.run(state, batch);
      usleep(2000);
    }
    CHECK(saved.steps() == steps);
  }
}

TEST_CASE("the data of a shard begin at a page, from which disks take it without a copy") {
  const TemporaryFolder folder("failure_test_page");
  const Executable train = make();
  Checkpoints saved(folder.path());
  saved.save(train.init(1));
  saved.wait();
  std::ifstream shard(folder.path() + "/step-00000000/shard-0-of-1.safetensors", std::ios::binary);
  std::uint64_t header = 0;
  shard.read(reinterpret_cast<char*>(&header), sizeof header);
  CHECK(shard.good());
  CHECK((header + sizeof header) % 4096 == 0);
}

TEST_CASE("the newest checkpoints stay, by number or by all; others are not touched") {
  const TemporaryFolder folder("failure_test_keep");
  const Executable train = make();
  fs::create_directories(folder.path() + "/mine");
  fs::create_directories(folder.path() + "/step-7");  // not a name of ours
  Told told;
  TrainState state = train.init(1);
  {
    Checkpoints all(folder.path(), told.options(1, 0));
    for (const auto& batch : all.resume(train, state, data(), 1)) train.run(state, batch);
    CHECK(all.steps() == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  }
  Checkpoints two(folder.path(), told.options(1, 2));
  for (const auto& batch : two.resume(train, state, data(), 2)) train.run(state, batch);
  CHECK(two.steps() == std::vector<std::int64_t>{15, 16});
  CHECK(names_in(folder.path()).size() == 4);
  CHECK(told.lines == std::vector<std::string>{"resumed from " + folder.path() + "/step-00000008"});
}

TEST_CASE(
    "a run that is over has nothing left; batches of another size begin at the next example") {
  const TemporaryFolder folder("failure_test_over");
  const Executable train = make();
  Told told;
  TrainState state = train.init(1);
  Checkpoints saved(folder.path(), told.options(1, 0));
  for (const auto& batch : saved.resume(train, state, data(), 2)) train.run(state, batch);
  int left = 0;
  for (const auto& batch : saved.resume(train, state, data(), 2)) left += batch.empty() ? 0 : 1;
  CHECK(left == 0);
  fs::remove_all(folder.path() + "/step-00000016");
  for (int step = 15; step > 3; --step)
    fs::remove_all(fmt::format("{}/step-{:08}", folder.path(), step));
  // Three batches of 8 of 64 have been used: 40 examples are left, three batches of 16.
  const Batches larger = batches(linear_dataset(64, kWidth, 1), 16, 5);
  for (const auto& batch : saved.resume(train, state, larger, 1)) {
    CHECK(batch.at("x").shape()[0] == (left < 2 ? 16 : 8));
    ++left;
  }
  CHECK(left == 3);
}

}  // namespace failure_test
