// Manifests with a right checksum that say what cannot be: none is believed.
#include <zlib.h>

#include "checkpoint/damage.h"

namespace forged_test {

using namespace alpa;
using namespace alpa::testing;
using namespace alpa::testing::damage;

namespace {

std::uint32_t crc32_of(const std::string& text) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

/// `manifest` with one text in another's place, and the checksum of the result.
std::string forged(std::string manifest, const std::string& from, const std::string& to) {
  const std::size_t at = manifest.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, manifest.substr(0, 900));
  manifest.replace(at, from.size(), to);
  const std::string rest = manifest.substr(manifest.find('\n') + 1);
  return fmt::format("{{\"crc32\": \"{:08x}\",\n{}", crc32_of(rest), rest);
}

struct Forgery {
  std::string from, to, mistake;
};

}  // namespace

TEST_CASE("a manifest whose steps and position do not go together is refused") {
  const Saved saved("forged_test_position");
  const Checkpoints checkpoints(saved.folder.path(), quiet());
  const std::string manifest = content_of(saved.file("manifest.json"));
  const Forgery forgeries[] = {
      {"\"steps\": [\n  2\n ]", "\"steps\": [\n  7\n ]",
       "steps: says that the first step has run 7 times, but it is of step 2"},
      {"\"steps\": [\n  2\n ]", "\"steps\": []",
       "steps: says that the first step has run 0 times, but it is of step 2"},
      {"\"epoch\": 1", "\"epoch\": 5",
       "data: is at example 0 of epoch 5, but the steps from 0 to 2 lead to example 0 of epoch 1"},
      {"\"example\": 0", "\"example\": 8",
       "data: is at example 8 of epoch 1, but the steps from 0 to 2 lead to example 0 of epoch 1"},
      {"\"example\": 0", "\"example\": 16",
       "data: no batch of 8 begins at example 16, or 0, of 16"},
      {"\"batch\": 8", "\"batch\": 0", "data: no batch of 0 begins at example 0, or 0, of 16"},
      {"\"batch\": 8", "\"batch\": 4",
       "data: is at example 0 of epoch 1, but the steps from 0 to 2 lead to example 8 of epoch 0"},
      {"\"step\": 0", "\"step\": 3",
       "data: batches of 8 began at step 3, behind step 2, at which it was saved"},
  };
  for (const Forgery& forgery : forgeries) {
    write(saved.file("manifest.json"), forged(manifest, forgery.from, forgery.to));
    TrainState state = saved.train.init(3);
    const std::string before = bytes_of(state);
    CHECK(error_of([&] { checkpoints.restore(state, 2); }) ==
          saved.file("manifest.json").string() + ": " + forgery.mistake);
    CHECK(bytes_of(state) == before);
  }
}

TEST_CASE("a checkpoint without the beginning of its loop, of an older version, is restored") {
  const Saved saved("forged_test_older");
  std::string manifest = content_of(saved.file("manifest.json"));
  const std::size_t since = manifest.find(",\n  \"since\": {");
  REQUIRE(since != std::string::npos);
  manifest.erase(since, manifest.find('}', since) + 1 - since);
  write(saved.file("manifest.json"), forged(manifest, "", ""));
  TrainState state = saved.train.init(3);
  Checkpoints older(saved.folder.path(), quiet());
  const ResumedBatches rest =
      older.resume(saved.train, state, batches(linear_dataset(16, kWidth, 1), 8), 2);
  CHECK(rest.restored()->position == DataPosition{1, 0});
  CHECK(bytes_of(state) == bytes_of(saved.state));
}

TEST_CASE("a run does not go on with other data of the same size") {
  const Saved saved("forged_test_data");
  TrainState state = saved.train.init(3);
  Checkpoints other(saved.folder.path(), quiet());
  const std::string error = error_of(
      [&] { other.resume(saved.train, state, batches(linear_dataset(16, kWidth, 2), 8), 2); });
  CHECK(error.starts_with(saved.file("").parent_path().string() +
                          ": was saved in a run over data with hash "));
  CHECK(error.ends_with("; resume with the same data, or restore the state by hand"));
}

TEST_CASE("loops that leave batches out, and other batch sizes, go on where they were") {
  const TemporaryFolder folder("forged_test_loops");
  const Executable train = make(2);
  const Dataset examples = linear_dataset(48, kWidth, 1);
  const auto resume = [&](std::int64_t batch, std::int64_t last) {
    Checkpoints saved(folder.path(), quiet({.every = 1}));
    TrainState state = train.init(1);
    int number = 0;
    std::optional<DataPosition> from;
    {
      ResumedBatches rest = saved.resume(train, state, batches(examples, batch), 4);
      if (rest.restored()) from = rest.restored()->position;
      for (const auto& data : rest) {
        if (++number % 3 == 0) continue;  // left out
        train.run(state, data);
        if (state.step() == last) break;
      }
    }
    saved.save(state);
    saved.wait();
    return from;
  };
  CHECK(!resume(8, 3));
  CHECK(resume(8, 5) == DataPosition{0, 32});
  CHECK(resume(4, 7) == DataPosition{1, 0});
  CHECK(resume(8, 8) == DataPosition{1, 8});
}

}  // namespace forged_test
