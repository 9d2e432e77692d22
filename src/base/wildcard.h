#pragma once
/// Patterns of names: `*` matches any text, every other character itself.
#include <string_view>

namespace alpa {

/// True if the whole name fits the pattern.
inline bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t skipped = star; skipped <= name.size(); ++skipped)
    if (matches(rest, name.substr(skipped))) return true;
  return false;
}

}  // namespace alpa
