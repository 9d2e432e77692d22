// src/ir/notation.cc — parses index notation and binds it to operand shapes
#include "notation.h"

#include <algorithm>
#include <array>
#include <optional>

#include "alpa/base/error.h"

namespace alpa {
namespace {

/// One dimension of a tensor pattern: `...`, or the letters of its factors, major first.
struct DimPattern {
  bool ellipsis = false;
  std::string letters;
};

using Pattern = std::vector<DimPattern>;

struct Notation {
  std::vector<Pattern> operands, results;
  std::string whole;  ///< letters marked `!`
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Notation parse() {
    Notation notation;
    notation.operands = tensors(notation.whole);
    expect("->");
    notation.results = tensors(notation.whole);
    invariant(at_ == text_.size(), "notation \"{}\": unexpected '{}' at position {}", text_,
              text_[at_], at_);
    return notation;
  }

 private:
  bool take(std::string_view token) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    invariant(take(token), "notation \"{}\": expected \"{}\" at position {}", text_, token, at_);
  }

  std::vector<Pattern> tensors(std::string& whole) {
    std::vector<Pattern> all;
    do all.push_back(tensor(whole));
    while (take(","));
    return all;
  }

  Pattern tensor(std::string& whole) {
    Pattern pattern;
    while (std::optional<DimPattern> dim = dimension(whole)) pattern.push_back(*dim);
    return pattern;
  }

  std::optional<DimPattern> dimension(std::string& whole) {
    if (take("...")) return DimPattern{true, {}};
    DimPattern dim;
    if (take("(")) {
      while (letter(dim.letters, whole)) {
      }
      expect(")");
    } else if (!letter(dim.letters, whole)) {
      return std::nullopt;
    }
    return dim;
  }

  bool letter(std::string& letters, std::string& whole) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ == text_.size() || !is_letter(text_[at_])) return false;
    letters += text_[at_++];
    if (take("!")) whole += letters.back();
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// Extents of letters and of the ellipsis, found in the operands.
class Extents {
 public:
  Extents(const OpDef& op, const OpQuery& query) : op_(op), query_(query) { sizes_.fill(-1); }

  void bind(const std::vector<Pattern>& operands) {
    if (operands.size() != query_.operands.size())
      fail("{}: takes {} operands but got {} ({})", op_.name, operands.size(),
           query_.operands.size(), to_string(query_.operands));
    for (std::size_t i = 0; i < operands.size(); ++i) bind_ellipsis(operands[i], i);
    for (bool compound : {false, true})
      for (std::size_t i = 0; i < operands.size(); ++i) bind_letters(operands[i], i, compound);
  }

  const Shape& ellipsis() const { return ellipsis_; }

  std::int64_t of(char letter) {
    std::int64_t& size = sizes_[static_cast<unsigned char>(letter)];
    if (size < 0) {
      const std::string name(1, letter);
      invariant(query_.attributes.contains(name), "{}: nothing gives the extent of {} in \"{}\"",
                op_.name, letter, op_.dims);
      size = query_.attributes.integer(name);
    }
    return size;
  }

 private:
  std::string types() const { return to_string(query_.operands); }

  void bind_ellipsis(const Pattern& pattern, std::size_t i) {
    const auto dots = std::count_if(pattern.begin(), pattern.end(),
                                    [](const DimPattern& d) { return d.ellipsis; });
    const Shape& shape = query_.operands[i].shape;
    const std::int64_t rank = static_cast<std::int64_t>(shape.size()),
                       fixed = static_cast<std::int64_t>(pattern.size()) - dots;
    if (dots > 0 ? rank < fixed : rank != fixed)
      fail("{}: operand {} must have {}{} dimensions ({})", op_.name, i,
           dots > 0 ? "at least " : "", fixed, types());
    if (dots == 0) return;
    std::int64_t first = 0;
    while (!pattern[first].ellipsis) ++first;
    const Shape mine(shape.begin() + first, shape.begin() + first + (rank - fixed));
    if (has_ellipsis_ && mine != ellipsis_)
      fail("{}: operand {} has {} where {} is needed ({})", op_.name, i, to_string(mine),
           to_string(ellipsis_), types());
    ellipsis_ = mine;
    has_ellipsis_ = true;
  }

  void bind_letters(const Pattern& pattern, std::size_t i, bool compound) {
    std::size_t d = 0;
    for (const DimPattern& dim : pattern) {
      if (dim.ellipsis) {
        d += ellipsis_.size();
        continue;
      }
      const std::int64_t extent = query_.operands[i].shape[d++];
      if ((dim.letters.size() > 1) == compound) bind_dimension(dim.letters, extent, i, d - 1);
    }
  }

  void bind_dimension(const std::string& letters, std::int64_t extent, std::size_t i,
                      std::size_t d) {
    Shape given_sizes;
    char unknown = 0;
    for (char letter : letters) {
      const bool given = sizes_[static_cast<unsigned char>(letter)] >= 0 ||
                         query_.attributes.contains(std::string(1, letter));
      if (given || unknown)
        given_sizes.push_back(of(letter));
      else
        unknown = letter;
    }
    const std::int64_t known = num_elements(given_sizes);
    if (unknown && known > 0 && extent % known == 0) {
      sizes_[static_cast<unsigned char>(unknown)] = extent / known;
      return;
    }
    if (unknown || known != extent)
      fail("{}: dimension {} of operand {} has extent {} but {}={} ({})", op_.name, d, i, extent,
           letters, known, types());
  }

  const OpDef& op_;
  const OpQuery& query_;
  std::array<std::int64_t, 128> sizes_{};
  Shape ellipsis_;
  bool has_ellipsis_ = false;
};

/// Numbers the factors while tensors are laid out.
class Layout {
 public:
  Layout(const Notation& notation, Extents& extents, Rule& rule)
      : notation_(notation), extents_(extents), rule_(rule) {
    ids_.fill(-1);
  }

  DimFactors lay_out(const Pattern& pattern) {
    DimFactors dims;
    for (const DimPattern& dim : pattern) {
      if (dim.ellipsis) {
        for (std::size_t i = 0; i < extents_.ellipsis().size(); ++i)
          dims.push_back({ellipsis_factor(i)});
        continue;
      }
      std::vector<int> factors;
      for (char letter : dim.letters) factors.push_back(letter_factor(letter));
      mark_compound(factors);
      dims.push_back(std::move(factors));
    }
    return dims;
  }

  FactorsOfLetters letters() const {
    FactorsOfLetters factors{{'.', ellipsis_}};
    for (std::size_t letter = 0; letter < ids_.size(); ++letter)
      if (ids_[letter] >= 0) factors[static_cast<char>(letter)] = {ids_[letter]};
    return factors;
  }

 private:
  int add(std::int64_t size) {
    rule_.factors.push_back({size});
    return static_cast<int>(rule_.factors.size()) - 1;
  }

  int ellipsis_factor(std::size_t i) {
    if (ellipsis_.size() <= i) ellipsis_.push_back(add(extents_.ellipsis()[i]));
    return ellipsis_[i];
  }

  int letter_factor(char letter) {
    int& id = ids_[static_cast<unsigned char>(letter)];
    if (id < 0) {
      id = add(extents_.of(letter));
      rule_.factors[id].whole = notation_.whole.find(letter) != std::string::npos;
    }
    return id;
  }

  void mark_compound(const std::vector<int>& factors) {
    if (factors.size() < 2) return;
    rule_.factors[factors[0]].even_only = true;
    for (std::size_t i = 1; i < factors.size(); ++i) rule_.factors[factors[i]].whole = true;
  }

  const Notation& notation_;
  Extents& extents_;
  Rule& rule_;
  std::array<int, 128> ids_{};
  std::vector<int> ellipsis_;
};

/// Free factors of the operands are summed into every result that lacks them.
void reduce_missing(Rule& rule) {
  rule.reduced.resize(rule.results.size());
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    const auto has = [f](const DimFactors& dims) { return has_factor(dims, f); };
    if (rule.factors[f].whole || std::none_of(rule.operands.begin(), rule.operands.end(), has))
      continue;
    for (std::size_t i = 0; i < rule.results.size(); ++i)
      if (!has(rule.results[i])) rule.reduced[i].push_back({f});
  }
}

}  // namespace

void check_notation(std::string_view dims, const std::vector<std::string>& letters) {
  Parser(dims).parse();
  for (const std::string& list : letters)
    for (char letter : list)
      invariant((letter == '.' || is_letter(letter)) && dims.find(letter) != std::string::npos,
                "\"{}\" has '{}', which it lacks", list, letter);
}

Rule rule_of_notation(const OpDef& op, const OpQuery& query, FactorsOfLetters* letters) {
  const Notation notation = Parser(op.dims).parse();
  Extents extents(op, query);
  extents.bind(notation.operands);
  Rule rule;
  Layout layout(notation, extents, rule);
  for (const Pattern& pattern : notation.results) rule.results.push_back(layout.lay_out(pattern));
  for (const Pattern& pattern : notation.operands) rule.operands.push_back(layout.lay_out(pattern));
  if (letters) *letters = layout.letters();
  reduce_missing(rule);
  rule.linear = op.linear;
  rule.flops_per_point = op.flops_per_point;
  return rule;
}

}  // namespace alpa
