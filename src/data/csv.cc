// src/data/csv.cc — reads CSV files of numbers
#include <charconv>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <string_view>

#include "alpa/base/text.h"
#include "alpa/data/dataset.h"
#include "src/base/file.h"

namespace alpa {
namespace {

constexpr FileKind kCsvFile{"", std::int64_t{4} << 30};

/// The byte-order mark that some editors put before UTF-8.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The cells of a line; views into it.
std::vector<std::string_view> split_cells(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const std::size_t comma = line.find(',');
    std::string_view cell = line.substr(0, comma);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t' || cell.back() == '\r'))
      cell.remove_suffix(1);
    cells.push_back(cell);
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

/// The whole cell as a T; infinite beyond its range. nullopt if the cell is not a number.
template <class T>
std::optional<T> read_as(std::string_view cell) {
  T value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (end != cell.data() + cell.size() || error == std::errc::invalid_argument) return {};
  return error == std::errc::result_out_of_range ? std::numeric_limits<T>::infinity() : value;
}

/// A number too small for a float becomes 0, one too large becomes infinite.
std::optional<float> parse_number(std::string_view cell) {
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  const std::optional<float> value = read_as<float>(cell);
  if (!value || !std::isinf(*value)) return value;
  return std::abs(*read_as<double>(cell)) < 1 ? 0.0F : value;
}

/// A whole number from 0, written as digits only.
bool is_label(std::string_view cell) {
  return !cell.empty() && cell.size() <= 6 && cell.find_first_not_of("0123456789") == cell.npos;
}

/// Rows read so far.
struct Table {
  std::size_t columns = 0;
  bool labels = true;  ///< every cell of the last column could be a class label
  std::vector<float> features, targets;
};

void add_row(Table& table, const std::vector<std::string_view>& cells, const std::string& path,
             int line) {
  require(cells.size() == table.columns, "{}: line {} has {} columns, but the first has {}", path,
          line, cells.size(), table.columns);
  for (std::size_t column = 0; column < cells.size(); ++column) {
    const std::optional<float> value = parse_number(cells[column]);
    if (!value)
      fail("{}: line {}, column {}: '{}' is not a number", path, line, column + 1,
           excerpt(cells[column]));
    if (!std::isfinite(*value))
      fail(
          "{}: line {}, column {}: '{}' is not a finite number of 32 bits; "
          "leave the row out or give it a value",
          path, line, column + 1, excerpt(cells[column]));
    (column + 1 < cells.size() ? table.features : table.targets).push_back(*value);
  }
  table.labels = table.labels && is_label(cells.back());
}

/// True if no cell is a number: a line of column names.
bool is_header(const std::vector<std::string_view>& cells) {
  for (std::string_view cell : cells)
    if (parse_number(cell)) return false;
  return true;
}

Dataset to_dataset(const Table& table) {
  const auto rows = static_cast<std::int64_t>(table.targets.size());
  Dataset data;
  data.x = Array(table.features, {rows, static_cast<std::int64_t>(table.columns) - 1});
  if (!table.labels) {
    data.y = Array(table.targets, {rows, 1});
    return data;
  }
  std::vector<std::int32_t> labels(table.targets.begin(), table.targets.end());
  for (std::int32_t label : labels) data.classes = std::max<std::int64_t>(data.classes, label + 1);
  data.y = Array(labels, {rows});
  return data;
}

}  // namespace

Dataset parse_csv(std::string_view text, const std::string& path) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Table table;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty() || line == "\r") continue;
    const auto cells = split_cells(line);
    if (table.columns == 0) {
      table.columns = cells.size();
      require(
          cells.size() >= 2,
          "{}: line {} has one column; at least one feature and the value to predict are needed",
          path, number);
      if (is_header(cells)) continue;
    }
    add_row(table, cells, path, number);
  }
  require(!table.targets.empty(), "{}: holds no examples", path);
  return to_dataset(table);
}

Dataset read_csv(const std::string& path) {
  const std::string text = read_file(path, kCsvFile);
  try {
    return parse_csv(text, path);
  } catch (const std::bad_alloc&) {
    fail("{}: its examples do not fit in memory", path);
  }
}

}  // namespace alpa
