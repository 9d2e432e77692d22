// Checkpoints of several processes: any number of them saves, any other goes on with the same bits,
// and what one process finds wrong all of them say. The processes are threads, with wires in
// memory; tests/models/checkpoint_processes_test.cc has real ones.
#include <alpa/alpa.h>
#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "src/api/checkpoint/folder.h"
#include "src/api/checkpoint/inspect.h"
#include "src/runtime/executor.h"
#include "support/at_once.h"
#include "support/error_text.h"
#include "support/processes.h"
#include "support/temporary_folder.h"

namespace launch_test {

using namespace alpa;
using alpa::testing::error_of;
using alpa::testing::MemberFate;
using alpa::testing::MemoryCall;
using alpa::testing::MemoryFault;
using alpa::testing::ProcessesOptions;
using alpa::testing::run_processes;
using alpa::testing::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kWidth = 24, kBatch = 16, kEpochs = 3;

Executable make(const Method& method, int devices, std::int64_t width = kWidth) {
  return parallelize(training_step(
                         {{"x", {f32, {kBatch, width}}}, {"y", {f32, {kBatch, width}}}},
                         [=, first = nn::Dense(width, {.name = "first"}),
                          last = nn::Dense(width, {.name = "last"})](const Batch& b) {
                           const Value h = mark_pipeline_boundary(tanh(first(b["x"])));
                           return LossAndMetrics{nn::mean_squared_error(last(h), b["y"])};
                         },
                         optim::Adam{.learning_rate = 0.01}),
                     method, Cluster::local(devices));
}

Batches data() { return batches(linear_dataset(50, kWidth, 3), kBatch, 7); }

CheckpointOptions quiet(CheckpointOptions options = {}) {
  if (!options.notify) options.notify = [](const std::string&) {};
  return options;
}

/// The bits of all tensors, by name.
std::map<std::string, std::string> bits_of(const TrainState& state) {
  std::map<std::string, std::string> bits;
  for (const std::string& name : state.names()) {
    const Array array = state[name].to_host();
    bits[name] = std::string(reinterpret_cast<const char*>(array.data()), array.bytes());
  }
  return bits;
}

/// What a process has in the end.
struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::string> bits;
  std::int64_t step = 0;
  bool operator==(const Outcome&) const = default;
};

/// Runs to the end of all epochs, or until step `last`.
Outcome train_on(const Executable& train, const std::string& folder, std::int64_t last = 1000,
                 SaveInterval every = 2) {
  Checkpoints saved(folder, quiet({.every = every, .on_signals = false}));
  TrainState state = train.init(5);
  Outcome outcome;
  for (const auto& batch : saved.resume(train, state, data(), kEpochs)) {
    outcome.losses.push_back(train.run(state, batch).loss());
    if (state.step() == last) break;
  }
  outcome.bits = bits_of(state);
  outcome.step = state.step();
  return outcome;
}

/// In so many processes; 1: alone.
void in_processes(int size, const std::function<void(int)>& body, ProcessesOptions options = {}) {
  if (size == 1) return body(0);
  const std::vector<std::string> errors = run_processes(size, body, std::move(options));
  for (const std::string& error : errors) CHECK(error == "");
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != ".lock") names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Bytes that this program has read from files so far.
std::int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string key;
  std::int64_t value = 0;
  while (file >> key >> value)
    if (key == "rchar:") return value;
  return -1;
}

/// Calls find(path) for every unfinished checkpoint, when rank `rank` sends a message and `on`.
ProcessesOptions at_messages_of(int rank, const std::string& folder, const std::atomic<bool>& on,
                                const std::function<void(const std::string& path)>& find) {
  ProcessesOptions options;
  options.launch.fault = [=, &on](const MemoryCall& call) {
    std::error_code failure;
    if (on && call.sends && call.rank == rank)
      for (const auto& entry : fs::directory_iterator(folder, failure))
        if (entry.path().filename().string().starts_with(".unfinished-"))
          find(entry.path().string());
    return MemoryFault{};
  };
  return options;
}

void flip_byte(const std::string& path, std::int64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
  REQUIRE(file.good());
}

}  // namespace

TEST_CASE("a run of 8 devices saved by 4 processes goes on in 1, 2, 3 and 8, to the bit") {
  for (const Method& method : {Method(Zero3Parallel{}), Method(ShardParallel{}),
                               Method(PipeshardParallel{.num_micro_batches = 2})}) {
    const TemporaryFolder whole("launch_test_whole"), folder("launch_test_any");
    const Outcome expected = train_on(make(method, 8), whole.path());
    constexpr std::int64_t kBroken = 5;
    in_processes(4, [&](int) { train_on(make(method, 8), folder.path(), kBroken); });
    CHECK(names_in(folder.path()) == std::vector<std::string>{"step-00000002", "step-00000004"});
    for (const int size : {1, 2, 3, 8}) {
      CAPTURE(size);
      const TemporaryFolder copy("launch_test_copy");
      fs::copy(folder.path(), copy.path(), fs::copy_options::recursive);
      std::vector<Outcome> outcomes(size);
      in_processes(size,
                   [&](int rank) { outcomes[rank] = train_on(make(method, 8), copy.path()); });
      for (const Outcome& outcome : outcomes) {
        CHECK(outcome.losses ==
              std::vector<double>(expected.losses.begin() + 4, expected.losses.end()));
        CHECK(outcome.bits == expected.bits);
        CHECK(outcome.step == expected.step);
      }
    }
  }
}

TEST_CASE("each process writes its share; other devices and methods restore it, and it verifies") {
  const TemporaryFolder folder("launch_test_shares");
  std::map<std::string, std::string> expected;
  in_processes(4, [&](int rank) {
    const Executable train = make(DataParallel{}, 4);
    const TrainState state = train.init(3);
    Checkpoints saved(folder.path(), quiet());
    saved.save(state, {.user = {{"by", fmt::format("rank {}", rank)}}});
    saved.wait();
    const auto bits = bits_of(state);
    if (rank == 0) expected = bits;
  });
  CHECK(names_in(folder.path() + "/step-00000000") ==
        std::vector<std::string>{"manifest.json", "plan.json", "shard-0-of-4.safetensors",
                                 "shard-1-of-4.safetensors", "shard-2-of-4.safetensors",
                                 "shard-3-of-4.safetensors"});
  checkpoint::verify(folder.path(), 0);
  for (const int devices : {2, 3}) {
    in_processes(devices, [&](int) {
      TrainState state = make(Zero3Parallel{}, devices).init(9);
      const Restored restored = Checkpoints(folder.path(), quiet()).restore(state, 0);
      CHECK(restored.user == std::map<std::string, std::string>{{"by", "rank 0"}});
      CHECK(bits_of(state) == expected);
    });
  }
}

TEST_CASE("files do not depend on the number of processes, but for the division into shards") {
  std::set<std::string> manifests;
  for (const int size : {1, 2, 4}) {
    const TemporaryFolder folder("launch_test_files");
    in_processes(size, [&](int) { train_on(make(Zero3Parallel{}, 4), folder.path(), 5); });
    checkpoint::Manifest manifest = checkpoint::read_manifest(folder.path(), 4);
    CHECK(std::ssize(manifest.shards) == size);
    manifest.shards.clear();
    for (auto& [name, tensor] : manifest.tensors)
      for (checkpoint::StoredBox& box : tensor.boxes) box.shard = 0, box.offset = 0;
    manifests.insert(checkpoint::to_json(manifest));
  }
  CHECK(manifests.size() == 1);
}

TEST_CASE("3 processes read at most 1.25 times what they need of the shards of 8") {
  constexpr std::int64_t kWide = 1440;
  const TemporaryFolder folder("launch_test_bytes");
  in_processes(8, [&](int) {
    Checkpoints saved(folder.path(), quiet());
    saved.save(make(Zero3Parallel{}, 8, kWide).init(3));
    saved.wait();
  });
  std::atomic<std::int64_t> needed = 0, before = 0, after = 0;
  in_processes(3, [&](int rank) {
    const Executable train = make(Zero3Parallel{}, 6, kWide);
    TrainState state = train.init(9);
    needed += runtime::snapshot_bytes(train.executor().state_boxes_here());
    const Checkpoints saved(folder.path(), quiet());
    saved.steps();  // waits for rank 0, and that for all others:
    processes::world()->all_gather("");
    if (rank == 0) before = bytes_read();
    processes::world()->all_gather("");
    saved.restore(state, 0);
    processes::world()->all_gather("");
    if (rank == 0) after = bytes_read();
  });
  CHECK(needed > 2 * 3 * kWide * kWide * 4);
  CHECK(after - before >= needed);
  CHECK(static_cast<double>(after - before) <= 1.25 * static_cast<double>(needed));
}

TEST_CASE("a shard that rank 0 does not see is noticed before the manifest is written") {
  const TemporaryFolder folder("launch_test_unseen");
  std::atomic<bool> on = false;
  std::set<std::string> errors;
  std::mutex mutex;
  in_processes(
      3,
      [&](int rank) {
        Checkpoints saved(folder.path(), quiet());
        const Executable train = make(Zero3Parallel{}, 3);
        TrainState state = train.init(3);
        saved.save(state);
        saved.wait();
        const BatchData batch = *data().epoch(0).begin();
        train.run(state, batch);
        if (rank == 0) on = true;
        processes::world()->all_gather("");
        saved.save(state);
        const std::string error = error_of([&] { saved.wait(); });
        {
          const std::lock_guard lock(mutex);
          errors.insert(error);
        }
        processes::world()->all_gather("");
        if (rank == 0) {
          CHECK(names_in(folder.path()) == std::vector<std::string>{"step-00000000"});
          on = false;
        }
        processes::world()->all_gather("");
        saved.save(state);
        saved.wait();
        CHECK(saved.steps() == std::vector<std::int64_t>{0, 1});
      },
      at_messages_of(1, folder.path(), on, [&](const std::string& path) {
        fs::remove(path + "/shard-1-of-3.safetensors");
      }));
  REQUIRE(errors.size() == 1);
  const std::string& error = *errors.begin();
  CHECK(error.starts_with("rank 1 of 3 (host "));
  CHECK(error.find(") has written " + folder.path() + "/.unfinished-") != error.npos);
  CHECK(error.find("/shard-1-of-3.safetensors, but rank 0 of 3 (host ") != error.npos);
  CHECK(error.find(") does not see it (") != error.npos);
  CHECK(error.ends_with("; give a folder that all hosts share"));
}

TEST_CASE("a process that does not see rank 0's folder says so") {
  const TemporaryFolder folder("launch_test_folder"), elsewhere("launch_test_elsewhere");
  fs::create_directories(elsewhere.path());
  std::atomic<bool> may = true;
  in_processes(2, [&](int rank) {
    // A disk of its own: only this thread and those that it starts see another working folder.
    if (rank == 1 && (::unshare(CLONE_FS) != 0 || ::chdir(elsewhere.path().c_str()) != 0))
      may = false;
    processes::world()->all_gather("");
    if (!may) {
      MESSAGE("skipped: no thread may have a working folder of its own");
      return;
    }
    Checkpoints saved(folder.path(), quiet());
    saved.save(make(Zero3Parallel{}, 2).init(3));
    const std::string error = error_of([&] { saved.wait(); });
    CHECK(error.starts_with("rank 1 of 2 (host "));
    CHECK(error.find("): " + folder.path() + "/.unfinished-") != error.npos);
    CHECK(error.ends_with(
        ": rank 0 has made this folder, but it is not there; give a folder that all hosts share"));
  });
}

TEST_CASE("a disk that fails in one process fails the save in all, at the same step") {
  const TemporaryFolder folder("launch_test_disk");
  std::atomic<bool> on = false, made = false;
  std::vector<std::int64_t> thrown_before(4, -1);
  std::vector<std::string> errors(4);
  in_processes(
      4,
      [&](int rank) {
        Checkpoints saved(folder.path(), quiet());
        const Executable train = make(Zero3Parallel{}, 4);
        TrainState state = train.init(3);
        saved.save(state);
        saved.wait();
        const BatchData batch = *data().epoch(0).begin();
        train.run(state, batch);
        processes::world()->all_gather("");
        on = true;
        saved.save(state);
        while (errors[rank].empty() && state.step() < 100'000)
          if (const std::string error = error_of([&] { train.run(state, batch); });
              error != "no error")
            errors[rank] = error;
        on = false;
        thrown_before[rank] = state.step();
        processes::world()->all_gather("");
        CHECK(error_of([&] { train.run(state, batch); }) == "no error");
        CHECK(error_of([&] { saved.wait(); }) == "no error");
        CHECK(saved.steps() == std::vector<std::int64_t>{0});
      },
      at_messages_of(0, folder.path(), on, [&](const std::string& path) {
        // A name that is taken, like a broken disk, makes no file.
        if (!made.exchange(true)) fs::create_directory(path + "/shard-2-of-4.safetensors");
      }));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"step-00000000"});
  CHECK(thrown_before[0] >= 1);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(errors[rank].starts_with("rank 2 of 4 (host "));
    CHECK(errors[rank].ends_with("/shard-2-of-4.safetensors: cannot be written: File exists"));
    CHECK(errors[rank] == errors[0]);
    CHECK(thrown_before[rank] == thrown_before[0]);
  }
}

TEST_CASE("damage that one process finds keeps all states as they were, or all fall back") {
  const TemporaryFolder folder("launch_test_damage");
  in_processes(4, [&](int) { train_on(make(Zero3Parallel{}, 4), folder.path(), 5); });
  flip_byte(folder.path() + "/step-00000004/shard-3-of-4.safetensors",
            static_cast<std::int64_t>(
                fs::file_size(folder.path() + "/step-00000004/shard-3-of-4.safetensors")) -
                100);
  std::vector<std::string> errors(3), damaged(3);
  in_processes(3, [&](int rank) {
    const Executable train = make(Zero3Parallel{}, 3);
    TrainState state = train.init(9);
    const auto before = bits_of(state);
    const Checkpoints saved(folder.path(), quiet());
    errors[rank] = error_of([&] { saved.restore(state, 4); });
    CHECK(bits_of(state) == before);
    CHECK(state.step() == 0);
    const Restored restored = saved.restore(state, 4, {.fallback = true});
    CHECK(restored.step == 2);
    CHECK(state.step() == 2);
    CHECK(bits_of(state) != before);
    REQUIRE(restored.damaged.size() == 1);
    damaged[rank] = restored.damaged[0];
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(errors[rank].starts_with("rank 2 of 3 (host "));
    CHECK(errors[rank].find("/step-00000004/shard-3-of-4.safetensors: tensor") !=
          errors[rank].npos);
    CHECK(errors[rank] == errors[0]);
    CHECK(damaged[rank] == errors[0]);
  }
}

TEST_CASE("saves by the clock are at rank 0's time: all save at the same steps") {
  const TemporaryFolder whole("launch_test_plain"), folder("launch_test_clock");
  const Outcome expected = train_on(make(Zero3Parallel{}, 4), whole.path());
  std::vector<Outcome> outcomes(4);
  in_processes(4, [&](int rank) {
    outcomes[rank] =
        train_on(make(Zero3Parallel{}, 4), folder.path(), 1000, std::chrono::milliseconds(1));
  });
  for (const Outcome& outcome : outcomes) CHECK(outcome == expected);
  CHECK(!names_in(folder.path()).empty());
}

TEST_CASE("a process that is lost at any time ends all, and leaves checkpoints that are whole") {
  const TemporaryFolder whole("launch_test_whole");
  const Outcome expected = train_on(make(Zero3Parallel{}, 6), whole.path());
  // Messages of rank 2 in a run that nothing befalls.
  std::atomic<std::int64_t> last = 0;
  const auto options = [&](std::int64_t lost_at) {
    ProcessesOptions options;
    if (lost_at >= 0) options.protocol.silence = std::chrono::seconds(1);
    options.launch.fault = [&last, lost_at](const MemoryCall& call) {
      if (call.rank != 2) return MemoryFault{};
      last = call.number;
      const bool lost = call.number == lost_at;
      return MemoryFault{.caller = lost ? MemberFate::lost : MemberFate::runs};
    };
    return options;
  };
  const auto body = [](const std::string& folder) {
    return [=](int) { train_on(make(Zero3Parallel{}, 6), folder, 1000, 1); };
  };
  const TemporaryFolder counted("launch_test_counted");
  in_processes(3, body(counted.path()), options(-1));
  const std::int64_t messages = last;
  constexpr int kTimes = 5;
  // They wait for the silence of rank 2 most of the time.
  alpa::testing::at_once(kTimes - 1, [&](int turn) {
    const int i = turn + 1;
    CAPTURE(i);
    const TemporaryFolder folder("launch_test_lost_" + std::to_string(i));
    const auto errors = run_processes(3, body(folder.path()), options(messages * i / kTimes));
    for (const int rank : {0, 1})
      CHECK(errors[rank].find("lost rank 2 of 3 (host ") != errors[rank].npos);
    if (fs::exists(folder.path()))
      for (const std::string& name : names_in(folder.path()))
        if (name.starts_with("step-"))
          checkpoint::verify(folder.path(), std::stoll(name.substr(5)));
    Outcome outcome;
    in_processes(2, [&](int rank) {
      const Outcome own = train_on(make(Zero3Parallel{}, 6), folder.path());
      if (rank == 0) outcome = own;
    });
    CHECK(outcome.bits == expected.bits);
    CHECK(outcome.step == expected.step);
    for (const std::string& name : names_in(folder.path())) CHECK(name.starts_with("step-"));
  });
}

TEST_CASE("processes that save into different folders, or other steps, are told so") {
  const TemporaryFolder folder("launch_test_ways"), other("launch_test_ways_other");
  const std::vector<std::string> errors = run_processes(2, [&](int rank) {
    const Executable train = make(Zero3Parallel{}, 2);
    const TrainState state = train.init(3);
    Checkpoints saved(rank == 0 ? folder.path() : other.path(), quiet());
    saved.save(state);
    saved.wait();
  });
  for (const std::string& error : errors) {
    CHECK(error.find(" of rank 0 is saving step 0 in " + folder.path()) != error.npos);
    CHECK(error.find(" of rank 1 is saving step 0 in " + other.path()) != error.npos);
  }
}

}  // namespace launch_test
