// Replicas of a state that are no longer the same: named, and never saved.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cstring>

#include "src/api/checkpoint/state_content.h"
#include "support/error_text.h"
#include "support/processes.h"
#include "support/temporary_folder.h"

namespace replicas_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Executable make() {
  return parallelize(training_step(
                         {{"x", {f32, {8, 4}}}},
                         [dense = nn::Dense(3, {.name = "head"})](const Batch& b) {
                           return mean(square(dense(b["x"])));
                         },
                         optim::Sgd{}),
                     DataParallel{}, Cluster::local(4));
}

const BatchData kBatch = {{"x", Array(std::vector<float>(32, 0.5F), {8, 4})}};

/// Changes a bit of "head.kernel" in the last device of this process that holds it.
void damage(const TrainState& state) {
  const checkpoint::StateContent content(state);
  std::vector<std::byte> snapshot(runtime::snapshot_bytes(content.boxes_here()));
  content.read(content.boxes_here(), snapshot.data());
  for (runtime::StateBox box : content.boxes_here()) {
    if (box.name != "head.kernel") continue;
    snapshot[box.offset] ^= std::byte{1};
    box.holders = {box.holders.back()};
    content.write({box}, snapshot.data(), nullptr);
  }
}

bool is_said(const std::string& error, const std::string& first, const std::string& other) {
  const std::string before =
                        "replicas of the state differ after step 1: \"head.kernel\" has CRC-32 ",
                    between = " on " + first + ", but ",
                    behind = " on " + other +
                             "; look for a device whose memory or arithmetic fails, and resume "
                             "from the checkpoint before";
  constexpr std::size_t kSum = 8;  // digits
  return error.size() == before.size() + between.size() + behind.size() + 2 * kSum &&
         error.starts_with(before) && error.ends_with(behind) &&
         error.compare(before.size() + kSum, between.size(), between) == 0;
}

}  // namespace

TEST_CASE("a device whose replica has another bit is named") {
  const Executable step = make();
  TrainState state = step.init(1);
  step.run(state, kBatch);
  CHECK(error_of([&] { state.check_replicas(); }) == "no error");
  damage(state);
  const std::string error = error_of([&] { state.check_replicas(); });
  CHECK_MESSAGE(is_said(error, "device 0", "device 3"), error);
}

TEST_CASE("in several processes all say which device it is, and of which rank") {
  const std::vector<std::string> errors = run_processes(2, [](int rank) {
    const Executable step = make();
    TrainState state = step.init(1);
    step.run(state, kBatch);
    state.check_replicas();
    if (rank == 1) damage(state);
    state.check_replicas();
  });
  for (const std::string& error : errors)
    CHECK_MESSAGE(is_said(error, "device 0 (rank 0)", "device 3 (rank 1)"), error);
}

TEST_CASE("a state whose replicas differ is not saved, unless that is asked for") {
  const TemporaryFolder folder("replicas_test");
  const Executable step = make();
  TrainState state = step.init(1);
  step.run(state, kBatch);
  damage(state);
  Checkpoints saved(folder.path());
  CHECK(is_said(error_of([&] { saved.save(state); }), "device 0", "device 3"));
  CHECK(saved.steps().empty());
  Checkpoints unchecked(folder.path() + "/other", {.check_replicas = false});
  unchecked.save(state);
  unchecked.wait();
  CHECK(unchecked.steps() == std::vector<std::int64_t>{1});
}

}  // namespace replicas_test
