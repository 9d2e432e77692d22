// tools/megatron_command.cc — reads command lines of Megatron-LM
#include "tools/megatron_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace plan {

using namespace alpa;

namespace {

/// Flags that change what a step costs in ways that are not priced.
constexpr std::array kUnpriced{"--num-experts",          "--fp8-format",
                               "--fp4-format",           "--multi-latent-attention",
                               "--mtp-num-layers",       "--use-torch-fsdp2",
                               "--use-megatron-fsdp",    "--window-size",
                               "--optimizer-cpu-offload"};

constexpr std::int64_t kMostDegree = 65536;
/// Parts of a layout, layers and ends of stages.
constexpr std::size_t kMostParts = std::size_t{1} << 16;

bool is_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Words of a shell text, without comments, quotes and parentheses around lists.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && c == '#' && words.back().empty()) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
      ++i;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote && quote != 0) {
      quote = 0;
    } else if (std::isspace(static_cast<unsigned char>(c)) ||
               (quote == 0 && (c == '(' || c == ')' || c == ';'))) {
      // A quoted list of flags is several words, too.
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// Variables of a shell text.
class Variables {
 public:
  /// Notes NAME=value. False: the word is no assignment.
  bool note(const std::string& word) {
    const std::size_t end = word.find('=');
    if (end == std::string::npos || end == 0 ||
        !std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), is_name))
      return false;
    values_[word.substr(0, end)] = in(word.substr(end + 1));
    return true;
  }

  /// The word with the values of $NAME, ${NAME} and ${NAME:-default}; unknown ones stay.
  std::string in(const std::string& word) const {
    std::string result;
    for (std::size_t i = 0; i < word.size(); ++i) {
      const bool braced = word.compare(i, 2, "${") == 0;
      const std::size_t begin = i + (braced ? 2 : 1);
      std::size_t end = begin;
      while (end < word.size() && is_name(word[end])) ++end;
      if (word[i] != '$' || end == begin) {
        result += word[i];
        continue;
      }
      const auto known = values_.find(word.substr(begin, end - begin));
      const std::size_t close = braced ? word.find('}', end) : end - 1;
      if (close == std::string::npos) return word;
      if (known != values_.end())
        result += known->second;
      else if (word.compare(end, 2, ":-") == 0)
        result += word.substr(end + 2, close - end - 2);
      else
        result += word.substr(i, close + 1 - i);
      i = close;
    }
    return result;
  }

 private:
  std::map<std::string, std::string> values_;
};

/// Flags by name, with their values.
class Given {
 public:
  Given(const std::string& text, std::string origin) : origin_(std::move(origin)) {
    Variables variables;
    std::string flag;
    for (const std::string& word : words_of(text)) {
      if (!word.starts_with("--") && variables.note(word)) continue;
      const std::string value = variables.in(word);
      if (value.starts_with("--")) {
        const std::size_t equal = value.find('=');
        flag = value.substr(0, equal);
        values_[flag] = equal == std::string::npos ? "" : value.substr(equal + 1);
      } else if (!flag.empty() && values_[flag].empty()) {
        values_[flag] = value;
      }
    }
    require(!values_.empty(), "{}: has no flag of Megatron-LM's, as --num-layers",
            excerpt(origin_));
  }

  bool has(const std::string& flag) const { return values_.contains(flag); }
  std::string text(const std::string& flag, const std::string& otherwise) const {
    const auto found = values_.find(flag);
    return found == values_.end() || found->second.empty() ? otherwise : found->second;
  }

  /// A whole number from 1 to `most`. Without `otherwise`, the flag must be there.
  std::int64_t whole(const std::string& flag, std::optional<std::int64_t> otherwise = {},
                     std::int64_t most = std::int64_t{1} << 31) const {
    if (!has(flag)) {
      require(otherwise.has_value(), "{}: {} is missing", excerpt(origin_), flag);
      return *otherwise;
    }
    const std::string& value = values_.at(flag);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    require(
        error == std::errc() && end == value.data() + value.size() && number >= 1 && number <= most,
        "{}: {} is '{}'; give a whole number from 1 to {}", excerpt(origin_), flag, excerpt(value),
        most);
    return number;
  }

  [[noreturn]] void refuse(const std::string& flag, const std::string& why) const {
    fail("{}: {}{} {}", excerpt(origin_), flag,
         has(flag) ? fmt::format(" {}", excerpt(text(flag, ""))) : "", why);
  }

 private:
  std::string origin_;
  std::map<std::string, std::string> values_;
};

/// Layers of the stages of a layout such as "Et*3|(tt|)*2tL".
std::vector<int> layers_of(const Given& given, std::string layout) {
  std::erase(layout, ',');
  const auto repeat = [&](std::size_t begin, std::size_t end, std::size_t first, std::size_t last) {
    std::size_t stop = end;
    while (stop < layout.size() && std::isdigit(static_cast<unsigned char>(layout[stop]))) ++stop;
    int times = 0;
    std::from_chars(layout.data() + end, layout.data() + stop, times);
    const std::string part = layout.substr(first, last - first);
    if (times < 1 || part.size() * times > kMostParts || layout.size() > kMostParts)
      given.refuse("--pipeline-model-parallel-layout", "repeats a part by no number, or too often");
    std::string all;
    for (int i = 0; i < times; ++i) all += part;
    layout.replace(begin, stop - begin, all);
  };
  for (std::size_t open; (open = layout.find('(')) != std::string::npos;) {
    const std::size_t close = layout.find(")*", open);
    if (close == std::string::npos)
      given.refuse("--pipeline-model-parallel-layout", "has a parenthesis that no )*N closes");
    repeat(open, close + 2, open + 1, close);
  }
  for (std::size_t star; (star = layout.find('*')) != std::string::npos;) {
    if (star == 0) given.refuse("--pipeline-model-parallel-layout", "begins with *");
    repeat(star - 1, star + 1, star - 1, star);
  }
  std::vector<int> layers(1, 0);
  for (const char c : layout) {
    if (c == '|')
      layers.push_back(0);
    else if (c == 't')
      ++layers.back();
    else if (c != 'E' && c != 'L')
      given.refuse("--pipeline-model-parallel-layout", "has parts other than E, t and L");
  }
  return layers;
}

models::DecoderOptions decoder_of(const Given& given, int tensor, std::int64_t vocabulary) {
  const bool gated = given.has("--swiglu");
  const bool llama = gated && given.text("--normalization", "LayerNorm") == "RMSNorm" &&
                     given.text("--position-embedding-type", "learned_absolute") == "rope";
  if (gated && !llama)
    given.refuse("--swiglu",
                 "is planned beside --normalization RMSNorm and "
                 "--position-embedding-type rope alone, as in Llama");
  if (!gated && given.text("--position-embedding-type", "learned_absolute") != "learned_absolute")
    given.refuse("--position-embedding-type", "is planned beside --swiglu alone, as in Llama");
  models::DecoderOptions o{
      .kind = llama ? models::DecoderKind::llama : models::DecoderKind::gpt,
      .layers = given.whole("--num-layers"),
      .hidden = given.whole("--hidden-size"),
      .heads = given.whole("--num-attention-heads"),
      .sequence = given.whole("--max-position-embeddings", given.whole("--seq-length")),
      .head_bias = false,
      .tied_head = !given.has("--untie-embeddings-and-output-weights"),
      .query_bias = given.has("--add-qkv-bias"),
      .rotary_base = static_cast<double>(given.whole("--rotary-base", 10000))};
  if (o.layers > models::kMostBlocks)
    given.refuse("--num-layers", fmt::format("is above {}", models::kMostBlocks));
  const std::int64_t usual = gated ? o.hidden * 8 / 3 / 64 * 64 : 4 * o.hidden;
  o.feed_forward = given.whole("--ffn-hidden-size", usual);
  if (given.has("--group-query-attention")) o.key_heads = given.whole("--num-query-groups");
  if (given.has("--kv-channels")) {
    o.head_width = given.whole("--kv-channels");
    if (o.head_width * o.heads == o.hidden) o.head_width = 0;
  } else if (o.hidden % o.heads != 0) {
    given.refuse("--num-attention-heads",
                 "does not divide --hidden-size; give the width of heads as --kv-channels");
  }
  o.variant.head_norms = llama && given.has("--qk-layernorm");
  // Rows of the table are a multiple of this many on every device.
  const std::int64_t multiple = given.whole("--make-vocab-size-divisible-by", 128) * tensor;
  const std::int64_t tokens =
      given.whole("--vocab-size", vocabulary > 0 ? std::optional(vocabulary) : std::nullopt);
  o.vocabulary = (tokens + multiple - 1) / multiple * multiple;
  return o;
}

}  // namespace

MegatronCommand read_megatron(const std::string& text, const std::string& origin,
                              std::int64_t vocabulary) {
  const Given given(text, origin);
  for (const char* flag : kUnpriced)
    if (given.has(flag)) given.refuse(flag, "is not priced");
  for (const char* flag : {"--context-parallel-size", "--expert-model-parallel-size"})
    if (given.whole(flag, 1) > 1) given.refuse(flag, "is not priced");
  MegatronCommand command{
      .sequence = given.whole("--seq-length"),
      .batch = given.has("--global-batch-size") ? given.whole("--global-batch-size") : 0,
      .rows = given.whole("--micro-batch-size"),
      .tensor = static_cast<int>(given.whole("--tensor-model-parallel-size", 1, kMostDegree)),
      .pipeline = static_cast<int>(given.whole("--pipeline-model-parallel-size", 1, kMostDegree)),
      .sequence_parallel = given.has("--sequence-parallel"),
      .distributed_optimizer = given.has("--use-distributed-optimizer"),
      .recomputes = given.text("--recompute-granularity", "") == "full",
      .optimizer = given.text("--optimizer", "adam")};
  command.decoder = decoder_of(given, command.tensor, vocabulary);
  if (given.has("--bf16")) command.precision = "bf16_mixed";
  if (given.has("--fp16")) command.precision = "f16_mixed";
  if (command.optimizer != "adam" && command.optimizer != "sgd")
    given.refuse("--optimizer", "is neither adam nor sgd");
  const auto layers = static_cast<std::int64_t>(command.decoder.layers);
  if (given.has("--pipeline-model-parallel-layout")) {
    command.layers = layers_of(given, given.text("--pipeline-model-parallel-layout", ""));
    const auto stages = static_cast<std::int64_t>(command.layers.size());
    if (stages % command.pipeline != 0 || std::ranges::count(command.layers, 0) > 0 ||
        std::accumulate(command.layers.begin(), command.layers.end(), std::int64_t{0}) != layers)
      given.refuse("--pipeline-model-parallel-layout",
                   fmt::format("has {} stages for a degree of {}, or not each of {} layers once; "
                               "stages without layers are not planned",
                               stages, command.pipeline, layers));
    command.virtual_stages = static_cast<int>(stages / command.pipeline);
  } else if (given.has("--num-layers-per-virtual-pipeline-stage")) {
    const std::int64_t each = given.whole("--num-layers-per-virtual-pipeline-stage");
    command.virtual_stages =
        static_cast<int>(std::max<std::int64_t>(1, layers / (each * command.pipeline)));
  } else if (given.has("--num-virtual-stages-per-pipeline-rank")) {
    command.virtual_stages =
        static_cast<int>(given.whole("--num-virtual-stages-per-pipeline-rank", 1, kMostDegree));
  }
  return command;
}

}  // namespace plan
