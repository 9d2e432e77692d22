#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

#include "alpa/train/dataset.h"

namespace alpa {
namespace {

/// The rows of a file, as text cells; views into `line`.
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

std::optional<float> parse_number(std::string_view cell) {
  if (!cell.empty() && cell.front() == '+') cell.remove_prefix(1);
  float value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc{} || end != cell.data() + cell.size()) return {};
  return value;
}

/// A whole number from 0, written as digits only.
bool is_label(std::string_view cell) {
  return !cell.empty() && cell.size() <= 6 && cell.find_first_not_of("0123456789") == cell.npos;
}

/// What has been read so far.
struct Table {
  std::size_t columns = 0;
  bool labels = true;  ///< every cell of the last column could be a class label
  std::vector<float> features, targets;
};

void add_row(Table& table, const std::vector<std::string_view>& cells, const std::string& path, int line) {
  require(cells.size() == table.columns, "{}: line {} has {} columns, but the first has {}", path, line,
          cells.size(), table.columns);
  for (std::size_t column = 0; column < cells.size(); ++column) {
    const std::optional<float> value = parse_number(cells[column]);
    require(value.has_value(), "{}: line {}, column {}: '{}' is not a number", path, line, column + 1,
            cells[column]);
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

Dataset read_csv(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), "{}: cannot be read", path);
  Table table;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line == "\r") continue;
    const auto cells = split_cells(line);
    if (table.columns == 0) {
      table.columns = cells.size();
      require(cells.size() >= 2,
              "{}: line {} has one column; at least one feature and the value to predict are needed", path,
              number);
      if (is_header(cells)) continue;
    }
    add_row(table, cells, path, number);
  }
  require(!table.targets.empty(), "{}: holds no examples", path);
  return to_dataset(table);
}

}  // namespace alpa
