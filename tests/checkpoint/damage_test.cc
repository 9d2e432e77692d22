// Damaged checkpoints are named with file and tensor; none is ever restored, and the state stays.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace damage_test {

using namespace alpa;
using alpa::testing::error_of;
using alpa::testing::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kWidth = 160;  // kernels of more than one block

struct Model {
  nn::Dense first{kWidth, {.name = "first"}}, last{kWidth, {.name = "last"}};
  LossAndMetrics operator()(const Batch& b) const {
    return {nn::mean_squared_error(last(relu(first(b["x"]))), b["y"])};
  }
};

Executable make(int devices) {
  return parallelize(training_step({{"x", {f32, {8, kWidth}}}, {"y", {f32, {8, kWidth}}}}, Model(),
                                   optim::Adam{.learning_rate = 0.01}),
                     ShardParallel{}, Cluster::local(devices));
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// All bytes of a state.
std::string bytes_of(const TrainState& state) {
  std::string bytes;
  for (const std::string& name : state.names()) {
    const Array array = state[name].to_host();
    bytes.append(reinterpret_cast<const char*>(array.data()), array.bytes());
  }
  return bytes;
}

CheckpointOptions quiet(CheckpointOptions options = {}) {
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

constexpr const char* kShard = "shard-0-of-1.safetensors";

/// A mutation of `content`: flips a bit, cuts, adds, swaps two parts or copies one over another.
std::string mutated(std::string content, std::mt19937& random) {
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

}  // namespace

TEST_CASE("a flipped bit is named with its file and tensor; the state stays as it was") {
  const Saved saved("damage_test_bit");
  const Checkpoints checkpoints(saved.folder.path(), quiet());
  const Executable other = make(1);
  TrainState state = other.init(3);
  const std::string before = bytes_of(state);
  const fs::path shard = saved.file(kShard);
  std::string content = content_of(shard);
  const std::size_t place = content.find("data_offsets");
  REQUIRE(place != std::string::npos);
  content[content.size() / 2] ^= 4;
  write(shard, content);
  const std::string error = error_of([&] { checkpoints.restore(state, 2); });
  CHECK(error.starts_with(shard.string() + ": tensor"));
  CHECK(error.ends_with(" damaged"));
  CHECK(bytes_of(state) == before);
  CHECK(state.step() == 0);

  const Restored restored =
      Checkpoints(saved.folder.path(), quiet()).restore(state, 2, {.fallback = true});
  CHECK(restored.step == 1);
  CHECK(restored.damaged == std::vector<std::string>{error});
  CHECK(state.step() == 1);
}

TEST_CASE("files of another checkpoint, and missing ones, are found out") {
  const Saved saved("damage_test_swap");
  const Checkpoints checkpoints(saved.folder.path(), quiet());
  TrainState state = saved.state;
  const std::string shard = content_of(saved.file(kShard)),
                    manifest = content_of(saved.file("manifest.json"));
  write(saved.file(kShard), content_of(saved.file(kShard, 1)));
  CHECK(error_of([&] { checkpoints.restore(state, 2); }) ==
        saved.file(kShard).string() + ": its header is damaged, or it is of another checkpoint");
  write(saved.file("manifest.json"), content_of(saved.file("manifest.json", 1)));
  CHECK(error_of([&] { checkpoints.restore(state, 2); }) ==
        saved.file("manifest.json").string() + ": is of step 1, another checkpoint's");
  fs::remove(saved.file("manifest.json"));
  CHECK(error_of([&] { checkpoints.restore(state, 2); }) ==
        saved.file("manifest.json").string() + ": cannot be read: No such file or directory");
  write(saved.file("manifest.json"), manifest);
  fs::remove(saved.file(kShard));
  CHECK(error_of([&] { checkpoints.restore(state, 2); }) ==
        saved.file(kShard).string() + ": cannot be read: No such file or directory");
  write(saved.file(kShard), shard);
  CHECK(error_of([&] { checkpoints.restore(state, 2); }) == "no error");
}

TEST_CASE("no mutation of manifests and shards is restored") {
  const Saved saved("damage_test_mutations");
  const Checkpoints checkpoints(saved.folder.path(), quiet());
  TrainState state = saved.train.init(3);
  const std::string before = bytes_of(state);
  std::mt19937 random(1);
  for (const char* name : {kShard, "manifest.json"}) {
    const std::string whole = content_of(saved.file(name));
    for (int i = 0; i < 500; ++i) {
      const std::string changed = mutated(whole, random);
      if (changed == whole) continue;
      write(saved.file(name), changed);
      const std::string error = error_of([&] { checkpoints.restore(state, 2); });
      CAPTURE(i);
      CHECK(error.starts_with(saved.file(name).string() + ": "));
    }
    write(saved.file(name), whole);
  }
  CHECK(bytes_of(state) == before);
  CHECK(error_of([&] { checkpoints.restore(state, 2); }) == "no error");
  CHECK(bytes_of(state) == bytes_of(saved.state));
}

TEST_CASE("a checkpoint of another model, or of other data, is refused with the difference") {
  const Saved saved("damage_test_other");
  const Checkpoints checkpoints(saved.folder.path(), quiet());
  const Executable other = parallelize(
      training_step(
          {{"x", {f32, {8, kWidth}}}, {"y", {f32, {8, 3}}}},
          [first = nn::Dense(kWidth, {.name = "first"}),
           head = nn::Dense(3, {.name = "head"})](const Batch& b) {
            return LossAndMetrics{nn::mean_squared_error(head(relu(first(b["x"]))), b["y"])};
          },
          optim::Sgd{.learning_rate = 0.1}),
      Serial{}, Cluster::local(1));
  TrainState state = other.init(1);
  const std::string error = error_of([&] { checkpoints.restore(state, 2); });
  CHECK(error ==
        saved.file("").parent_path().string() +
            ": its tensors are not those of the state. The state wants \"head.kernel\", "
            "\"head.bias\", which it lacks; it has \"first.bias.adam_m\", \"first.bias.adam_v\", "
            "\"first.kernel.adam_m\", \"first.kernel.adam_v\", \"last.bias\", "
            "\"last.bias.adam_m\", \"last.bias.adam_v\", \"last.kernel\" and 2 more, which the "
            "state lacks. RestoreOptions{.only = \"pattern\"} restores some");
  Restored restored =
      Checkpoints(saved.folder.path(), quiet()).restore(state, 2, {.only = "first.*"});
  CHECK(restored.missing.empty());
  CHECK(restored.left_over.size() == 4);  // the moments
  CHECK(state.step() == 0);
  TrainState same = saved.train.init(1);
  Checkpoints again(saved.folder.path(), quiet());
  CHECK(error_of([&] {
          again.resume(saved.train, same, batches(linear_dataset(24, kWidth, 1), 8), 1);
        }) ==
        saved.file("").parent_path().string() +
            ": was saved in a run over 16 examples, these batches have 24; resume with the same "
            "data, or restore the state by hand");
}

}  // namespace damage_test
