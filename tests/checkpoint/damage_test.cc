// Damaged checkpoints are named with file and tensor; none is ever restored, and the state stays.
#include "checkpoint/damage.h"
#include "support/nightly.h"

namespace damage_test {

using namespace alpa;
using namespace alpa::testing;
using namespace alpa::testing::damage;

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
  check_mutations(sampled(500, 5000), 1);
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
