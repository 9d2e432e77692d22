#include "fuzz/mutate.h"

#include "src/base/philox.h"

#include <algorithm>

namespace alpa::fuzz {
namespace {

constexpr std::size_t kMaxInput = 1 << 16;

const char* const kNumbers[] = {"0",
                                "1",
                                "-1",
                                "2",
                                "16",
                                "17",
                                "255",
                                "256",
                                "1024",
                                "65537",
                                "2147483647",
                                "2147483648",
                                "4294967296",
                                "4294967297",
                                "-2147483649",
                                "1125899906842624",
                                "4611686018427387904",
                                "9223372036854775807",
                                "9223372036854775808",
                                "-9223372036854775808",
                                "18446744073709551615",
                                "99999999999999999999",
                                "1e400",
                                "1e308",
                                "-0.0",
                                "0.1",
                                "nan",
                                "inf",
                                "010",
                                "00"};

/// Draws and changes; every decision is a word of one Philox stream.
class Mutation {
 public:
  Mutation(const std::vector<std::string>& seeds, const std::vector<std::string>& tokens,
           std::uint64_t number)
      : seeds_(seeds), tokens_(tokens), stream_(random_stream(number, 1, 0, 0)), text_(seed()) {}

  std::string run() {
    for (std::size_t changes = 1 + below(below(2) == 0 ? 2 : 8); changes > 0; --changes) change();
    if (text_.size() > kMaxInput) text_.resize(kMaxInput);
    return std::move(text_);
  }

 private:
  /// Uniform in [0, bound); 0 if there is nothing to choose from.
  std::size_t below(std::size_t bound) {
    const Philox4 words = random_words(stream_, drawn_++);
    return bound == 0 ? 0
                      : ((static_cast<std::uint64_t>(words.word[0]) << 32) | words.word[1]) % bound;
  }
  std::size_t place() { return below(text_.size() + 1); }
  const std::string& seed() { return seeds_[below(seeds_.size())]; }
  std::size_t length_from(std::size_t at) {
    return below(std::min<std::size_t>(text_.size() - at, 64) + 1);
  }

  void change() {
    switch (below(11)) {
      case 0: return flip();
      case 1: return overwrite();
      case 2: return text_.insert(place(), 1, static_cast<char>(below(256))), void();
      case 3: return erase();
      case 4: return copy();
      case 5: return repeat();
      case 6: return token();
      case 7:
      case 8: return number();
      case 9: return line();
      default: return splice();
    }
  }

  void flip() {
    if (!text_.empty()) text_[below(text_.size())] ^= static_cast<char>(1 << below(8));
  }
  void overwrite() {
    constexpr unsigned char kBytes[] = {0, 1, 0x7f, 0x80, 0xff, '0', '9', ' ', '\n', '"'};
    if (!text_.empty())
      text_[below(text_.size())] = static_cast<char>(kBytes[below(std::size(kBytes))]);
  }
  void erase() {
    const std::size_t at = place();
    text_.erase(at, below(16) == 0 ? std::string::npos : length_from(at));
  }
  void copy() {
    const std::size_t from = place();
    const std::string piece = text_.substr(from, length_from(from));
    text_.insert(place(), piece);
  }
  void repeat() {
    const std::size_t from = place();
    const std::string piece = text_.substr(from, 1 + below(8));
    std::string many;
    for (std::size_t i = below(below(8) == 0 ? 4000 : 20); i > 0 && many.size() < kMaxInput; --i)
      many += piece;
    text_.insert(from, many);
  }
  void token() {
    if (tokens_.empty()) return;
    const std::size_t at = place();
    text_.replace(at, below(2) == 0 ? 0 : length_from(at) / 8, tokens_[below(tokens_.size())]);
  }
  /// Another number in the place of one.
  void number() {
    const std::size_t from = text_.find_first_of("0123456789", place());
    if (from == std::string::npos) return;
    const std::size_t end = std::min(text_.find_first_not_of("0123456789", from), text_.size());
    text_.replace(from, end - from,
                  below(3) == 0 ? std::to_string(below(20)) : kNumbers[below(std::size(kNumbers))]);
  }
  /// A line is left out, doubled or moved.
  void line() {
    const std::size_t from = text_.rfind('\n', place()) + 1;  // 0 if there is none
    const std::size_t end = std::min(text_.find('\n', from), text_.size());
    const std::string whole = text_.substr(from, end - from) + '\n';
    if (below(2) == 0) text_.erase(from, whole.size());
    const std::size_t to = text_.rfind('\n', place()) + 1;
    if (below(2) == 0) text_.insert(std::min(to, text_.size()), whole);
  }
  void splice() {
    const std::string& other = seed();
    const std::size_t from = below(other.size() + 1);
    text_ = text_.substr(0, place()) + other.substr(from);
  }

  const std::vector<std::string>& seeds_;
  const std::vector<std::string>& tokens_;
  RandomStream stream_;
  std::uint64_t drawn_ = 0;
  std::string text_;
};

}  // namespace

std::string mutated(const std::vector<std::string>& seeds, const std::vector<std::string>& tokens,
                    std::uint64_t number) {
  if (number < seeds.size()) return seeds[number];
  return Mutation(seeds, tokens, number).run();
}

}  // namespace alpa::fuzz
