#pragma once
/// How tokenizers cut text into words before they merge the bytes of each.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace alpa {

/// GPT-2's pattern of words (Radford et al. 2019).
inline constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// A regular expression that cuts text: every match is a part, and so is the text between two.
/// Copies share it; safe to use from several threads.
class WordPattern {
 public:
  using Visit = std::function<void(std::string_view)>;

  /// A pattern as Hugging Face's `tokenizers` reads it, by Oniguruma. Throws Error if it is no
  /// regular expression, or has what PCRE2 reads in another way.
  explicit WordPattern(std::string_view regex);
  /// Visits the parts of `text`, which is UTF-8, in order. None is empty. Throws Error if a match
  /// takes too many steps.
  void cut(std::string_view text, const Visit& visit) const;

 private:
  std::string regex_;
  std::shared_ptr<void> code_;
};

/// Visits the words of `text`, which is UTF-8: the parts that the last pattern cuts the parts of
/// the others into.
void for_each_word(std::string_view text, std::span<const WordPattern> patterns,
                   const WordPattern::Visit& visit);

}  // namespace alpa
