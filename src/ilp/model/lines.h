#pragma once
/// Lines of row-major tables.
#include <string_view>
#include <unordered_map>
#include <vector>

namespace alpa::ilp {

/// Lines of a table with equal contents, as classes: the class of each line, and a line of each
/// class.
struct LineClasses {
  std::vector<int> of_line, first;
};

/// Of the rows of a table of plain numbers.
template <class Number>
LineClasses classes_of_rows(const std::vector<Number>& table, std::size_t rows,
                            std::size_t columns) {
  LineClasses result;
  std::unordered_map<std::string_view, int> known;
  for (std::size_t p = 0; p < rows; ++p) {
    const std::string_view line(reinterpret_cast<const char*>(table.data() + p * columns),
                                columns * sizeof(Number));
    const auto [at, added] = known.try_emplace(line, static_cast<int>(result.first.size()));
    if (added) result.first.push_back(static_cast<int>(p));
    result.of_line.push_back(at->second);
  }
  return result;
}

template <class Number>
std::vector<Number> transposed(const std::vector<Number>& table, std::size_t rows,
                               std::size_t columns) {
  std::vector<Number> result(table.size());
  for (std::size_t p = 0; p < rows; ++p)
    for (std::size_t q = 0; q < columns; ++q) result[q * rows + p] = table[p * columns + q];
  return result;
}

}  // namespace alpa::ilp
