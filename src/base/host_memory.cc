// src/base/host_memory.cc — reads /proc and control groups for the memory this process may use
#include "src/base/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace alpa {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// The files of one version of control groups. `reclaimable`: keys of
/// `memory.stat`, bytes of cached files.
struct Version {
  std::vector<const char*> limits;
  const char* usage;
  std::vector<std::string_view> reclaimable;
};
const Version kVersion1{{"memory.limit_in_bytes"},
                        "memory.usage_in_bytes",
                        {"total_inactive_file", "total_active_file"}};
// Above memory.high the kernel does not kill a group; it slows the group
// down, in the end to a halt.
const Version kVersion2{
    {"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}};

/// A mounted hierarchy of groups: the folder `point` shows the groups from `root` on.
struct Mount {
  std::string root, point;
};

/// The process's group in a hierarchy that limits memory.
struct Hierarchy {
  const Version* version;
  std::string folder;  ///< of the mounted hierarchy
  std::string group;   ///< path below it; "" for the folder itself
};

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& parts, std::string_view part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

/// The number from 0 that `text` begins with, after blanks.
std::optional<std::int64_t> number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return kNoLimit;
  return error == std::errc() && value >= 0 ? std::optional(value) : std::nullopt;
}

/// The number after `key` and a separator in a file of such lines.
std::optional<std::int64_t> value_of(const std::vector<std::string>& lines, std::string_view key) {
  for (const std::string& line : lines)
    if (line.size() > key.size() && line.starts_with(key) &&
        (line[key.size()] == ':' || line[key.size()] == ' '))
      return number_at(std::string_view(line).substr(key.size() + 1));
  return std::nullopt;
}

std::optional<std::int64_t> number_in(const std::string& path) {
  const std::vector<std::string> lines = lines_of(path);
  return lines.empty() ? std::nullopt : number_at(lines[0]);
}

/// Lines of /proc/self/mountinfo: "36 35 0:29 ROOT POINT options … - TYPE source superoptions".
std::optional<Mount> find_mount(const std::vector<std::string>& mounts, bool version_2) {
  for (const std::string& line : mounts) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4) continue;
    const bool wanted = version_2 ? dash[1] == "cgroup2"
                                  : dash[1] == "cgroup" && contains(split(dash[3], ','), "memory");
    if (wanted) return Mount{words[3], words[4]};
  }
  return std::nullopt;
}

/// A group's path below the mount; the mount itself if the group is not below
/// it, as in some containers.
std::string below(const Mount& mount, const std::string& group) {
  if (mount.root == "/") return group == "/" || group.starts_with("/..") ? "" : group;
  const bool inside = group.starts_with(mount.root + "/");
  return inside ? group.substr(mount.root.size()) : "";
}

/// Lines of /proc/self/cgroup: "4:memory:/a/b" of version 1, "0::/a/b" of version 2.
std::vector<Hierarchy> hierarchies(const std::string& root) {
  const std::vector<std::string> mounts = lines_of(root + "/proc/self/mountinfo");
  std::vector<Hierarchy> found;
  for (const std::string& line : lines_of(root + "/proc/self/cgroup")) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version_2 = line.starts_with("0::");
    if (!version_2 && !contains(split(controllers, ','), "memory")) continue;
    if (const std::optional<Mount> mount = find_mount(mounts, version_2))
      found.push_back({version_2 ? &kVersion2 : &kVersion1, root + mount->point,
                       below(*mount, line.substr(second + 1))});
  }
  return found;
}

std::int64_t limit_of(const Version& version, const std::string& folder) {
  std::int64_t limit = kNoLimit;
  for (const char* file : version.limits)
    limit = std::min(limit, number_in(folder + "/" + file).value_or(kNoLimit));
  return limit;
}

/// Bytes that the group in `folder` has left below `limit`.
std::int64_t room_of(const Version& version, const std::string& folder, std::int64_t limit) {
  std::int64_t used = number_in(folder + "/" + version.usage).value_or(0);
  const std::vector<std::string> statistics = lines_of(folder + "/memory.stat");
  for (const std::string_view key : version.reclaimable)
    used -= value_of(statistics, key).value_or(0);
  return std::clamp<std::int64_t>(limit - std::max<std::int64_t>(used, 0), 0, limit);
}

/// Applies the limits of a group and of all that it is part of.
void apply(const Hierarchy& hierarchy, HostMemory& memory) {
  for (std::string group = hierarchy.group;; group.resize(group.rfind('/'))) {
    const std::string folder = hierarchy.folder + group;
    const std::int64_t limit = limit_of(*hierarchy.version, folder);
    if (limit < memory.total_bytes) {
      memory.limit_bytes = std::min(memory.limit_bytes, limit);
      const std::int64_t room = room_of(*hierarchy.version, folder, limit);
      if (room < memory.available_bytes) {
        memory.available_bytes = room;
        memory.group = group.empty() ? "/" : group;
      }
    }
    if (group.find('/') == group.npos) return;
  }
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  const std::vector<std::string> machine = lines_of(root + "/proc/meminfo");
  const auto bytes = [&](std::string_view key) -> std::optional<std::int64_t> {
    const std::optional<std::int64_t> kibibytes = value_of(machine, key);
    return kibibytes && *kibibytes < kNoLimit / 1024 ? std::optional(*kibibytes * 1024)
                                                     : std::nullopt;
  };
  const std::int64_t pages =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  HostMemory memory;
  memory.total_bytes = bytes("MemTotal").value_or(pages);
  memory.limit_bytes = memory.total_bytes;
  memory.available_bytes = bytes("MemAvailable").value_or(memory.total_bytes);
  for (const Hierarchy& hierarchy : hierarchies(root)) apply(hierarchy, memory);
  return memory;
}

}  // namespace alpa
