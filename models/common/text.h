#pragma once
/// Durations and tables as text.
#include <string>
#include <vector>

namespace programs {

/// "0:07", "1:02:03".
std::string duration_text(double seconds);

/// Columns as wide as their widest cell; the first is aligned left, the others right. The
/// first row is the heading.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace programs
