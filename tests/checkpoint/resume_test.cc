// A run that ends anywhere and is resumed computes what an uninterrupted one computes, to the bit.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "support/error_text.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace resume_test {

using namespace alpa;
using alpa::testing::error_of;
using alpa::testing::TemporaryFolder;

namespace {

constexpr std::int64_t kWidth = 12, kExamples = 50, kBatch = 16;  // the last batch is short

/// Dropout draws by step and seed; batch norm keeps statistics; the loss is scaled.
struct Model {
  nn::Dense first{kWidth}, last{kWidth};
  nn::BatchNorm norm;
  nn::Dropout dropout{0.25};

  LossAndMetrics operator()(const Batch& b) const {
    const Value h = mark_pipeline_boundary(norm(relu(first(b["x"]))));
    return {nn::mean_squared_error(last(dropout(h)), b["y"])};
  }
};

Dataset data() { return linear_dataset(kExamples, kWidth, 3); }

Executable make(const Method& method, int devices) {
  const TrainingStep step =
      training_step({{"x", {f32, {kBatch, kWidth}}}, {"y", {f32, {kBatch, kWidth}}}}, Model(),
                    optim::Adam{.learning_rate = warmup_cosine(0.01, 2, 40)},
                    {.precision = f16_mixed, .ema = 0.9});
  return parallelize(step, method, Cluster::local(devices));
}

bool same_bits(const Array& a, const Array& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

/// Names of tensors that differ in a bit.
std::vector<std::string> differences(const TrainState& a, const TrainState& b) {
  std::vector<std::string> names;
  for (const std::string& name : a.names())
    if (!same_bits(a[name].to_host(), b[name].to_host())) names.push_back(name);
  return names;
}

CheckpointOptions quiet(CheckpointOptions options = {}) {
  options.notify = [](const std::string&) {};
  return options;
}

/// A step whose product is scaled by an operator of the program: by its version, of which a process
/// has one.
Executable make_scaled(int version) {
  static const CustomOp scale =
      define_op({.name = "tests.scale",
                 .dims = "... -> ...",
                 .gradient =
                     [version](const GradientCall& call) {
                       return Values{call.result_gradients[0] * version};
                     },
                 .cpu =
                     [version](const OpCall& call) {
                       for (std::int64_t i = 0; i < call.results[0].type.elements(); ++i)
                         call.results[0].set(i, version * call.operands[0].get(i));
                     },
                 .version = version});
  const TrainingStep step = training_step(
      {{"x", {f32, {kBatch, kWidth}}}, {"y", {f32, {kBatch, kWidth}}}},
      [](const Batch& b) {
        return nn::mean_squared_error(scale({nn::Dense(kWidth)(b["x"])})[0], b["y"]);
      },
      optim::Adam{.learning_rate = 0.01});
  return parallelize(step, DataParallel{}, Cluster::local(2));
}

/// The losses of a run of `epochs`, saved at its end, or resumed there.
std::vector<double> scaled_losses(Checkpoints& saved, const Executable& train, TrainState& state,
                                  int epochs) {
  std::vector<double> losses;
  for (const auto& batch : saved.resume(train, state, batches(data(), kBatch, 7), epochs))
    losses.push_back(train.run(state, batch).loss());
  return losses;
}

}  // namespace

TEST_CASE("saves a run with version 1 of an operator" * doctest::skip()) {
  Checkpoints saved(std::getenv("SAVED_BY_VERSION_1"), quiet());
  const Executable train = make_scaled(1);
  TrainState state = train.init(5);
  scaled_losses(saved, train, state, 1);
}

TEST_CASE("a run with an operator of the program is resumed bitwise; another version is told of") {
  const Executable train = make_scaled(2);
  std::vector<std::string> notes;
  const CheckpointOptions tells{.notify = [&](const std::string& line) { notes.push_back(line); }};
  const TemporaryFolder in_one("resume_test_in_one"), in_two("resume_test_in_two");
  TrainState whole = train.init(5), first = train.init(5), second = train.init(99);
  Checkpoints one(in_one.path(), quiet());
  const std::vector<double> losses = scaled_losses(one, train, whole, 2);
  std::vector<double> parts;
  for (TrainState* state : {&first, &second}) {
    Checkpoints two(in_two.path(), tells);
    const std::vector<double> part = scaled_losses(two, train, *state, state == &first ? 1 : 2);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  CHECK(parts == losses);
  CHECK(differences(whole, second) == std::vector<std::string>{});
  CHECK(notes.size() == 1);  // resumed from …

  const TemporaryFolder other("resume_test_version1");
  setenv("SAVED_BY_VERSION_1", other.path().c_str(), 1);
  CHECK(alpa::testing::run_skipped_case("saves a run with version 1 of an operator").status == 0);
  Checkpoints saved(other.path(), tells);
  saved.restore(first, saved.newest().value());
  CHECK(notes.back() ==
        other.path() +
            "/step-00000004: was saved with version 1 of operator tests.scale, and goes on with "
            "version 2");
}

TEST_CASE("a run that breaks off after any step continues bitwise as one that was never broken") {
  constexpr int kEpochs = 3;
  const Executable train = make(Serial{}, 1);
  TrainState whole = train.init(5);
  std::vector<double> losses;
  for (const auto& batch : batches(data(), kBatch, 7).epochs(0, kEpochs))
    losses.push_back(train.run(whole, batch).loss());
  for (int broken = 3; broken < std::ssize(losses); broken += 3) {
    const TemporaryFolder folder("resume_test_run");
    {
      Checkpoints saved(folder.path(), quiet({.every = 2}));
      TrainState state = train.init(5);
      int steps = 0;
      for (const auto& batch : saved.resume(train, state, batches(data(), kBatch, 7), kEpochs)) {
        train.run(state, batch);
        if (++steps == broken) break;
      }
    }
    Checkpoints saved(folder.path(), quiet({.every = 2}));
    TrainState state = train.init(99);
    std::vector<double> rest;
    for (const auto& batch : saved.resume(train, state, batches(data(), kBatch, 7), kEpochs))
      rest.push_back(train.run(state, batch).loss());
    CAPTURE(broken);
    const std::size_t begin = losses.size() - rest.size();
    CHECK(begin == (broken - 1) / 2 * 2);
    CHECK(std::vector<double>(losses.begin() + begin, losses.end()) == rest);
    CHECK(differences(whole, state) == std::vector<std::string>{});
    CHECK(state.step() == std::ssize(losses));
    CHECK(saved.newest() == std::ssize(losses));
  }
}

TEST_CASE("a state of 8 devices is restored to the bit on 1 to 16, by any method, and back") {
  const TemporaryFolder folder("resume_test_any"), back("resume_test_back");
  const Executable from = make(ShardParallel{}, 8);
  TrainState state = from.init(1);
  const Batches examples = batches(data(), kBatch, 7);
  from.run(state, examples.epoch(0));
  Checkpoints saved(folder.path(), quiet()), returned(back.path(), quiet());
  saved.save(state, {.user = {{"note", "eight devices"}}});
  saved.wait();
  TrainState before = from.init(9);
  saved.restore(before, state.step());
  CHECK(differences(state, before) == std::vector<std::string>{});
  std::vector<double> losses;
  for (const auto& batch : examples.epoch(1)) losses.push_back(from.run(state, batch).loss());
  const Method methods[] = {Serial{},        Serial{.num_micro_batches = 4},
                            DataParallel{},  Zero3Parallel{},
                            ShardParallel{}, PipeshardParallel{.num_micro_batches = 2}};
  for (const Method& method : methods)
    for (const int devices : {1, 2, 3, 7, 16}) {
      if (std::holds_alternative<Serial>(method) ? devices > 1 : devices == 1) continue;
      CAPTURE(devices);
      const Executable to = make(method, devices);
      TrainState other = to.init(2);
      const Restored restored = saved.restore(other, before.step());
      CHECK(restored.user == std::map<std::string, std::string>{{"note", "eight devices"}});
      CHECK(differences(before, other) == std::vector<std::string>{});
      CHECK(other.step() == before.step());

      returned.save(other);
      returned.wait();
      TrainState again = from.init(3);
      returned.restore(again, other.step());
      CHECK(differences(before, again) == std::vector<std::string>{});

      // Batch norm's statistics are those of a micro-batch.
      if (to.graph().num_micro_batches > 1) continue;
      std::size_t i = 0;
      for (const auto& batch : examples.epoch(1)) {
        const double loss = to.run(other, batch).loss();
        CHECK(std::abs(loss - losses[i]) < 2e-3 * losses[i]);  // products are rounded to f16
        ++i;
      }
    }
}

TEST_CASE("a layer of two stages is saved once, and the run goes on under any plan") {
  const TemporaryFolder folder("resume_test_tied");
  const auto make_tied = [](const Method& method, int devices) {
    return parallelize(training_step(
                           {{"x", {f32, {kBatch, kWidth}}}, {"y", {f32, {kBatch, kWidth}}}},
                           [dense = nn::Dense(kWidth)](const Batch& b) {
                             const Value h = mark_pipeline_boundary(tanh(dense(b["x"])));
                             return LossAndMetrics{nn::mean_squared_error(dense(h), b["y"])};
                           },
                           optim::Adam{.learning_rate = 0.01}),
                       method, Cluster::local(devices));
  };
  const Executable staged = make_tied(PipeshardParallel{.num_micro_batches = 2}, 4),
                   single = make_tied(Serial{}, 1), split = make_tied(Zero3Parallel{}, 3);
  const Batches examples = batches(data(), kBatch, 7);
  TrainState whole = staged.init(5);
  std::vector<double> losses;
  for (const auto& batch : examples.epochs(0, 6)) losses.push_back(staged.run(whole, batch).loss());
  // Two epochs in stages, two on one device, two split over three.
  std::vector<double> resumed;
  for (const Executable* train : {&staged, &single, &split}) {
    TrainState state = train->init(5);
    Checkpoints saved(folder.path(), quiet());
    const auto epochs = static_cast<std::int64_t>(resumed.size()) / examples.size() + 2;
    for (const auto& batch : saved.resume(*train, state, examples, epochs))
      resumed.push_back(train->run(state, batch).loss());
  }
  REQUIRE(resumed.size() == losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    CHECK(std::abs(resumed[i] - losses[i]) < 1e-5 * losses[i]);
  CHECK(Checkpoints(folder.path()).newest() == std::ssize(losses));
}

TEST_CASE("with every option at its default, a decoder of odd sizes goes on bitwise") {
  const TemporaryFolder folder("resume_test_defaults");
  constexpr std::int64_t kRows = 5, kTokens = 7, kHidden = 15, kWords = 13;
  struct Decoder {
    nn::Embedding words{kWords, kHidden};
    nn::LayerNorm norm;
    nn::SelfAttention attention{kHidden, 3};
    nn::Dense up{29}, down{kHidden}, head{kWords};

    LossAndMetrics operator()(const Batch& b) const {
      const Value x = words(b["tokens"]), y = x + attention(norm(x));
      return {nn::cross_entropy(head(y + down(gelu(up(y)))), b["labels"])};
    }
  };
  const TrainingStep step =
      training_step({{"tokens", {i32, {kRows, kTokens}}}, {"labels", {i32, {kRows, kTokens}}}},
                    Decoder(), optim::Adam{});
  std::vector<std::int32_t> text;
  for (int i = 0; i < 18 * kTokens + 1; ++i) text.push_back(i * i % kWords);
  const Batches data = token_batches(Tokens(text), kRows, kTokens, 3);
  const Executable train = parallelize(step, ShardParallel{}, Cluster::local(8));
  TrainState whole = train.init(0), state = train.init(0);
  for (const auto& batch : data.epochs(0, 3)) train.run(whole, batch);
  {
    Checkpoints saved(folder.path());
    for (const auto& batch : saved.resume(train, state, data, 3)) {
      train.run(state, batch);
      if (state.step() == 6) saved.save(state);
      if (state.step() == 7) break;
    }
  }
  TrainState again = train.init(0);
  Checkpoints saved(folder.path());
  for (const auto& batch : saved.resume(train, again, data, 3)) train.run(again, batch);
  CHECK(differences(whole, again) == std::vector<std::string>{});
  CHECK(saved.steps() == std::vector<std::int64_t>{6, 12});
}

TEST_CASE("another element type is restored if asked for") {
  const TemporaryFolder folder("resume_test_cast");
  const auto make_of = [](DType dtype) {
    return parallelize(training_step(
                           {{"x", {dtype, {8, kWidth}}}, {"y", {dtype, {8, kWidth}}}},
                           [dense = nn::Dense(kWidth)](const Batch& b) {
                             return LossAndMetrics{nn::mean_squared_error(dense(b["x"]), b["y"])};
                           },
                           optim::Sgd{.learning_rate = 0.1}),
                       ShardParallel{}, Cluster::local(2));
  };
  const Executable single = make_of(f32), twice = make_of(f64);
  const TrainState state = single.init(1);
  Checkpoints saved(folder.path(), quiet());
  saved.save(state);
  saved.wait();
  TrainState wide = twice.init(2);
  const std::string name = wide.names()[0];
  CHECK(error_of([&] {
          saved.restore(wide, 0);
        }).ends_with("RestoreOptions{.cast = true} converts it"));
  saved.restore(wide, 0, {.cast = true});
  for (const std::string& each : wide.names())
    CHECK(same_bits(wide[each].to_host(), state[each].to_host().cast(f64)));
  CHECK(wide[name].type().dtype == f64);
}

}  // namespace resume_test
