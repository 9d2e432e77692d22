#pragma once
/// Figures as JSON, one object per line, each beside its aim. Lines are written out at once, so
/// that a program that is cut leaves what it measured.
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace alpa::bench {

struct Figure {
  std::string name;
  double value;
};

/// What a figure of a row should be; "" names none.
struct Aim {
  std::string figure = {};
  double bound = 0;
  bool below = false;  ///< the figure should be below the bound; else at least the bound

  bool met(double value) const { return below ? value < bound : value >= bound; }
};

/// Members of a row that are text.
using Labels = std::vector<std::pair<std::string, std::string>>;

inline std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.5g}", value) : "null";
}

/// {"name": …, labels, figures} and, if `aim` names a figure, "aim" and "met".
inline void print_row(const std::string& name, const std::vector<Figure>& figures,
                      const Aim& aim = {}, const Labels& labels = {}) {
  std::string row = fmt::format(R"({{"name": "{}")", name), verdict;
  for (const auto& [label, text] : labels) row += fmt::format(R"(, "{}": "{}")", label, text);
  for (const Figure& figure : figures) {
    row += fmt::format(R"(, "{}": {})", figure.name, number(figure.value));
    if (figure.name == aim.figure)
      verdict = fmt::format(R"(, "aim": "{} {} {}", "met": {})", aim.figure,
                            aim.below ? "<" : ">=", aim.bound, aim.met(figure.value));
  }
  fmt::print("{}{}}}\n", row, verdict);
  std::fflush(stdout);
}

}  // namespace alpa::bench
