#pragma once
/// Numbers and tables for people.
#include <string>
#include <vector>

namespace models {

/// "1.5 MiB", "12 bytes".
std::string bytes_text(double bytes);

/// "0:07", "1:02:03".
std::string duration_text(double seconds);

/// "1.25 ms", "3.4 s".
std::string seconds_text(double seconds);

/// Columns as wide as their widest cell; the first is aligned left, the others right. The first row is the
/// heading.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace models
