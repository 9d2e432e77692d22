#pragma once
/// A folder of checkpoints, and mutations of its files.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace alpa::testing::damage {

namespace fs = std::filesystem;

inline constexpr std::int64_t kWidth = 160;  // kernels of more than one block

struct Model {
  nn::Dense first{kWidth, {.name = "first"}}, last{kWidth, {.name = "last"}};
  LossAndMetrics operator()(const Batch& b) const {
    return {nn::mean_squared_error(last(relu(first(b["x"]))), b["y"])};
  }
};

inline Executable make(int devices) {
  return parallelize(training_step({{"x", {f32, {8, kWidth}}}, {"y", {f32, {8, kWidth}}}}, Model(),
                                   optim::Adam{.learning_rate = 0.01}),
                     ShardParallel{}, Cluster::local(devices));
}

inline std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// All bytes of a state.
inline std::string bytes_of(const TrainState& state) {
  std::string bytes;
  for (const std::string& name : state.names()) {
    const Array array = state[name].to_host();
    bytes.append(reinterpret_cast<const char*>(array.data()), array.bytes());
  }
  return bytes;
}

inline CheckpointOptions quiet(CheckpointOptions options = {}) {
  options.notify = [](const std::string&) {};
  return options;
}

/// A folder with checkpoints of steps 1 and 2, made on two devices.
struct Saved {
  explicit Saved(const char* name) : folder(name), train(make(2)), state(train.init(1)) {
    Checkpoints saved(folder.path(), quiet());
    const Batches data = batches(linear_dataset(16, kWidth, 1), 8);
    for (const auto& batch : saved.resume(train, state, data, 1)) {
      train.run(state, batch);
      if (state.step() == 1) saved.save(state);
    }
  }
  fs::path file(const char* name, int step = 2) const {
    return fs::path(folder.path()) / fmt::format("step-{:08}", step) / name;
  }

  TemporaryFolder folder;
  Executable train;
  TrainState state;
};

inline constexpr const char* kShard = "shard-0-of-1.safetensors";

/// A mutation of `content`: flips a bit, cuts, adds, swaps two parts or copies one over another.
inline std::string mutated(std::string content, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  const std::size_t n = content.size(), part = 1 + below(std::min<std::size_t>(n / 3, 70000));
  const std::size_t a = below(n / 2 - part / 2), b = n / 2 + below(n - n / 2 - part);
  switch (below(6)) {
    case 0: content[below(n)] ^= static_cast<char>(1 << below(8)); break;
    case 1: content.resize(below(n)); break;
    case 2: content += content.substr(0, part); break;
    case 3:
      std::swap_ranges(content.begin() + a, content.begin() + a + part, content.begin() + b);
      break;
    case 4: content.replace(a, part, content, b, part); break;
    default: content.erase(a, part);
  }
  return content;
}

/// Whether two shards have the same size, header and checksums.
inline bool only_data_differ(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  std::uint64_t header = 0;
  std::memcpy(&header, b.data(), sizeof header);
  const std::size_t begin = header + sizeof header, sums = (b.size() - begin) / (64 << 10) + 1;
  return a.substr(0, begin) == b.substr(0, begin) &&
         a.substr(a.size() - 4 * sums) == b.substr(b.size() - 4 * sums);
}

/// Restores `each` mutations of the shard, and so many of the manifest: none may succeed.
inline void check_mutations(int each, unsigned seed) {
  const Saved saved("damage_test_mutations");
  const Checkpoints checkpoints(saved.folder.path(), quiet());
  TrainState state = saved.train.init(3);
  const std::string before = bytes_of(state);
  std::mt19937 random(seed);
  int named = 0;
  for (const char* name : {kShard, "manifest.json"}) {
    const std::string whole = content_of(saved.file(name));
    for (int i = 0; i < each; ++i) {
      const std::string changed = mutated(whole, random);
      if (changed == whole) continue;
      write(saved.file(name), changed);
      const std::string error = error_of([&] { checkpoints.restore(state, 2); });
      CAPTURE(i);
      CHECK(error.starts_with(saved.file(name).string() + ": "));
      if (name == kShard && only_data_differ(changed, whole)) {
        CHECK(error.find(": tensor") != std::string::npos);
        ++named;
      }
    }
    write(saved.file(name), whole);
  }
  CHECK(named > each / 5);
  CHECK(bytes_of(state) == before);
  CHECK(error_of([&] { checkpoints.restore(state, 2); }) == "no error");
  CHECK(bytes_of(state) == bytes_of(saved.state));
}

}  // namespace alpa::testing::damage
