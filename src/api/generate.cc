// src/api/generate.cc — text, token by token: prompts by chunks, then a token of every row per step
#include "alpa/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <fmt/ranges.h>

#include "src/base/fnv.h"
#include "src/processes/world.h"

namespace alpa {
namespace {

/// Takes `count` tokens of each row; returns the logits that follow the last of them.
TrainingStep step_of(const nn::Layer& decoder, const GeneratorOptions& options,
                     std::int64_t count) {
  const std::int64_t rows = options.rows, length = options.length;
  const auto model = [=](const Batch& b) {
    nn::KeyValueCache cache(b["positions"], length, count > 1 ? b["last"] : Value{});
    const Value logits = decoder(b["tokens"]);
    require(logits.rank() == 3 && logits.dim(0) == rows &&
                (logits.dim(1) == count || logits.dim(1) == 1),
            "generate: the decoder gives {}; logits must be [{}, {}, V] or [{}, 1, V]",
            to_string(logits.type()), rows, count, rows);
    require(cache.layers() > 0, "generate: no layer of the decoder attends to the cache");
    return Predictions(std::map<std::string, Value>{
        {"logits", cast(logits.dim(1) == 1 ? logits : cache.last(logits), f32)}});
  };
  std::vector<BatchInput> inputs{{"tokens", {i32, {rows, count}}},
                                 {"positions", {i32, {rows, count}}}};
  if (count > 1) inputs.push_back({"last", {i32, {rows}}});
  return prediction_step(std::move(inputs), model, options.evaluation);
}

GeneratorOptions checked(GeneratorOptions options) {
  require(options.rows >= 1 && options.length >= 1 && options.chunk >= 1,
          "generate: rows, length and chunk must be at least 1, not {}, {} and {}", options.rows,
          options.length, options.chunk);
  options.chunk = std::min(options.chunk, options.length);
  return options;
}

// ---- sampling

void check(const SamplingOptions& o) {
  require(o.count >= 0, "generate: count is {}; it must be 0 or more", o.count);
  require(o.temperature >= 0 && std::isfinite(o.temperature),
          "generate: temperature is {}; it must be 0 or more", o.temperature);
  require(o.top_k >= 0, "generate: top_k is {}; it must be 0, for all tokens, or more", o.top_k);
  require(o.top_p > 0 && o.top_p <= 1, "generate: top_p is {}; it must be above 0 and at most 1",
          o.top_p);
  require(o.vocabulary >= 0, "generate: vocabulary is {}; it must be 0, for all tokens, or more",
          o.vocabulary);
}

/// TokenIds with their shares, which add up to `sum`.
struct Candidates {
  TokenIds tokens;
  std::vector<double> shares;
  double sum = 0;

  void add(std::int32_t token, double share) {
    tokens.push_back(token), shares.push_back(share);
    sum += share;
  }
};

/// The fewest of the first ones whose shares add up to `enough`.
Candidates first_of(const Candidates& all, double enough) {
  Candidates found;
  for (std::size_t i = 0; i < all.tokens.size() && found.sum < enough; ++i)
    found.add(all.tokens[i], all.shares[i]);
  return found;
}

/// The likeliest tokens: top_k of them, and of these those that make up top_p.
Candidates likeliest(std::span<const float> logits, const std::vector<double>& shares, double sum,
                     const SamplingOptions& options) {
  TokenIds heap(logits.size());
  std::iota(heap.begin(), heap.end(), 0);
  const auto below = [&](std::int32_t a, std::int32_t b) {
    return logits[a] < logits[b] || (logits[a] == logits[b] && a > b);
  };
  std::make_heap(heap.begin(), heap.end(), below);
  const auto most = options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : heap.size();
  const double enough = options.top_k == 0 && options.top_p < 1 ? options.top_p * sum : INFINITY;
  Candidates found;
  for (; found.tokens.size() < most && found.sum < enough && !heap.empty(); heap.pop_back()) {
    std::pop_heap(heap.begin(), heap.end(), below);
    found.add(heap.back(), shares[heap.back()]);
  }
  return options.top_k > 0 && options.top_p < 1 ? first_of(found, options.top_p * found.sum)
                                                : found;
}

// ---- rows of a batch

/// Draws what follows a prompt.
class Continuation {
 public:
  Continuation(const TokenIds& prompt, std::size_t number, const SamplingOptions& options)
      : prompt_(&prompt), number_(number), options_(&options), done_(options.count == 0) {
    std::seed_seq seed{static_cast<std::uint32_t>(options.seed),
                       static_cast<std::uint32_t>(options.seed >> 32),
                       static_cast<std::uint32_t>(number)};
    engine_.seed(seed);
  }

  const TokenIds& prompt() const { return *prompt_; }
  std::int64_t length() const { return std::ssize(*prompt_); }
  bool done() const { return done_; }
  /// The token at `at`, which is known.
  std::int32_t token(std::int64_t at) const {
    return at < length() ? (*prompt_)[at] : tokens_[at - length()];
  }
  std::int64_t known() const { return length() + std::ssize(tokens_); }

  void draw(std::span<const float> logits) {
    const auto size = options_->vocabulary > 0
                          ? std::min<std::size_t>(logits.size(), options_->vocabulary)
                          : logits.size();
    const std::int32_t token = sample(logits.first(size), *options_, uniform_(engine_));
    const TokenIds& stop = options_->stop;
    if (std::find(stop.begin(), stop.end(), token) != stop.end()) {
      done_ = true;
      return;
    }
    tokens_.push_back(token);
    done_ = std::ssize(tokens_) == options_->count;
    if (options_->on_token) options_->on_token(number_, token);
  }

  TokenIds take() { return std::move(tokens_); }

 private:
  const TokenIds* prompt_;
  std::size_t number_;
  const SamplingOptions* options_;
  TokenIds tokens_;
  bool done_;
  std::mt19937_64 engine_;
  std::uniform_real_distribution<double> uniform_;
};

/// What a step is given: `count` tokens of each row. Rows that are not used have token 0 at
/// position 0.
class Chunk {
 public:
  Chunk(const GeneratorOptions& options, std::int64_t count)
      : count_(count),
        most_(options.length - 1),
        tokens_(options.rows * count),
        positions_(tokens_.size()),
        last_(options.rows) {}

  /// The tokens of a row from `first` on, as many as are known.
  void put(std::int64_t row, const Continuation& of, std::int64_t first) {
    const std::int64_t known = std::min(of.known() - first, count_);
    for (std::int64_t t = 0; t < count_; ++t) {
      tokens_[row * count_ + t] = t < known ? of.token(first + t) : 0;
      positions_[row * count_ + t] = static_cast<std::int32_t>(std::min(first + t, most_));
    }
    last_[row] = static_cast<std::int32_t>(std::max<std::int64_t>(known - 1, 0));
  }

  Array run(const Executable& step, TrainState& state) const {
    const auto rows = std::ssize(last_);
    BatchData batch{{"tokens", Array(tokens_, {rows, count_})},
                    {"positions", Array(positions_, {rows, count_})}};
    if (count_ > 1) batch.emplace("last", Array(last_, {rows}));
    return step.run(state, batch).outputs["logits"];
  }

 private:
  std::int64_t count_, most_;
  TokenIds tokens_, positions_, last_;
};

std::span<const float> row_of(const Array& logits, std::int64_t row) {
  const auto width = static_cast<std::size_t>(logits.shape().back());
  return logits.elements_as<float>().subspan(row * width, width);
}

/// The prompts, chunk by chunk. Each row draws its first token where its prompt ends, and then
/// repeats what it has: what padding leaves in the cache is behind all that is read.
void take_prompts(const Generator& generator, TrainState& state, std::span<Continuation> rows) {
  const std::int64_t count = generator.options().chunk;
  std::int64_t longest = 0;
  for (const Continuation& row : rows) longest = std::max(longest, row.length());
  for (std::int64_t first = 0; first < longest; first += count) {
    Chunk chunk(generator.options(), count);
    for (std::int64_t r = 0; r < std::ssize(rows); ++r)
      chunk.put(r, rows[r], std::min(first, rows[r].known() - 1));
    const Array logits = chunk.run(generator.prompts(), state);
    for (std::int64_t r = 0; r < std::ssize(rows); ++r)
      if (first < rows[r].length() && rows[r].length() <= first + count)
        rows[r].draw(row_of(logits, r));
  }
}

/// A token of every row that is not done.
void take_tokens(const Generator& generator, TrainState& state, std::span<Continuation> rows) {
  Chunk chunk(generator.options(), 1);
  for (std::int64_t r = 0; r < std::ssize(rows); ++r)
    if (!rows[r].done()) chunk.put(r, rows[r], rows[r].known() - 1);
  const Array logits = chunk.run(generator.tokens(), state);
  for (std::int64_t r = 0; r < std::ssize(rows); ++r)
    if (!rows[r].done()) rows[r].draw(row_of(logits, r));
}

void check_token(std::int32_t token, std::size_t prompt, std::int64_t vocabulary) {
  require(token >= 0, "generate: prompt {} has token {}; tokens are 0 or more", prompt, token);
  require(vocabulary == 0 || token < vocabulary,
          "generate: prompt {} has token {}, which is not in the vocabulary of {}", prompt, token,
          vocabulary);
}

void check(const std::vector<TokenIds>& prompts, std::int64_t length,
           const SamplingOptions& options) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    require(!prompts[i].empty(), "generate: prompt {} is empty; give at least one token", i);
    // The last token drawn is not fed back.
    require(std::ssize(prompts[i]) + options.count <= length + 1,
            "generate: prompt {} has {} tokens; with {} more they exceed the length of {}", i,
            prompts[i].size(), options.count, length);
    for (const std::int32_t token : prompts[i]) check_token(token, i, options.vocabulary);
  }
}

/// Of several processes each draws for itself: all must draw alike.
void note_call(const std::vector<TokenIds>& prompts, const SamplingOptions& o) {
  processes::World* const world = processes::world();
  if (!world) return;
  world->note_call(
      fmt::format(
          "generate {} tokens behind {} prompts at temperature {}, top_k {}, top_p {}, seed "
          "{}, vocabulary {}, stop at {}",
          o.count, prompts.size(), o.temperature, o.top_k, o.top_p, o.seed, o.vocabulary, o.stop),
      fnv1a(fmt::format("{}", prompts)));
}

}  // namespace

Generator::Generator(const nn::Layer& decoder, const GeneratorOptions& options, Executable prompts)
    : options_(options),
      prompts_(std::move(prompts)),
      tokens_(prompts_.follower(step_of(decoder, options_, 1))) {}

Generator::Generator(const nn::Layer& decoder, const Executable& trained,
                     const GeneratorOptions& options)
    : Generator(decoder, checked(options),
                trained.follower(step_of(decoder, checked(options), checked(options).chunk))) {}

Generator::Generator(const nn::Layer& decoder, const Method& method, const Cluster& cluster,
                     const GeneratorOptions& options)
    : Generator(decoder, checked(options),
                parallelize(step_of(decoder, checked(options), checked(options).chunk), method,
                            cluster)) {}

std::int32_t sample(std::span<const float> logits, const SamplingOptions& options, double number) {
  const auto top = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0 || options.top_k == 1)
    return static_cast<std::int32_t>(top - logits.begin());
  Candidates all;
  std::vector<double> shares(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < shares.size(); ++i)
    sum += shares[i] = std::exp((logits[i] - *top) / options.temperature);
  if (options.top_k == 0 && options.top_p == 1) {
    all.tokens.resize(shares.size());
    std::iota(all.tokens.begin(), all.tokens.end(), 0);
    all.shares = std::move(shares), all.sum = sum;
  } else {
    all = likeliest(logits, shares, sum, options);
  }
  double left = number * all.sum;
  std::size_t drawn = 0;
  while (drawn + 1 < all.shares.size() && (left -= all.shares[drawn]) >= 0) ++drawn;
  return all.tokens[drawn];
}

std::vector<TokenIds> generate(const Generator& generator, TrainState& state,
                               const std::vector<TokenIds>& prompts,
                               const SamplingOptions& options) {
  check(options);
  check(prompts, generator.options().length, options);
  note_call(prompts, options);
  std::vector<Continuation> all;
  for (std::size_t i = 0; i < prompts.size(); ++i) all.emplace_back(prompts[i], i, options);
  const auto at_once = static_cast<std::size_t>(generator.options().rows);
  for (std::size_t first = 0; first < all.size() && options.count > 0; first += at_once) {
    const auto rows = std::span(all).subspan(first, std::min(at_once, all.size() - first));
    take_prompts(generator, state, rows);
    while (std::any_of(rows.begin(), rows.end(), [](const auto& row) { return !row.done(); }))
      take_tokens(generator, state, rows);
  }
  std::vector<TokenIds> continuations;
  for (Continuation& of : all) continuations.push_back(of.take());
  return continuations;
}

}  // namespace alpa
