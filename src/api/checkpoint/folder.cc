// src/api/checkpoint/folder.cc — lists, locks and changes the folder of a run's checkpoints, so
// that a program may be killed at any instant
#include "src/api/checkpoint/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/file.h"

namespace alpa::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporary = ".unfinished-";  // written, or being removed
constexpr const char* kLockFile = ".lock";
constexpr FileKind kManifestKind{"", std::int64_t{1} << 30, false};
constexpr FileKind kLockKind{"", 4096, false};

/// The step of a checkpoint's folder name; -1: it is none.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool whole = error == std::errc() && end == name.data() + name.size() && step >= 0;
  return whole && folder_of_step(step).substr(kPrefix.size()) == name ? step : -1;
}

/// Makes what was renamed in a folder, or made in it, durable.
void sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.number()) != 0) fail_write(path, errno);
}

/// A name in the folder for something unfinished, that nothing has.
std::string temporary_in(const std::string& folder) {
  static std::atomic<int> count{0};
  return fmt::format("{}/{}{}-{}", folder, kTemporary, ::getpid(), count++);
}

/// Renames `path` first, so that no part of it is ever taken for the whole.
void remove_whole(const std::string& folder, const std::string& path) {
  const std::string temporary = temporary_in(folder);
  if (::rename(path.c_str(), temporary.c_str()) != 0) {
    if (errno != ENOENT) fail_write(path, errno);
    return;
  }
  std::error_code failure;
  fs::remove_all(temporary, failure);
}

/// What killed programs left; the caller has the lock.
void remove_unfinished(const std::string& folder) {
  std::error_code failure;
  std::vector<fs::path> unfinished;
  for (fs::directory_iterator at(folder, failure); !failure && at != fs::directory_iterator();
       at.increment(failure))
    if (at->path().filename().string().starts_with(kTemporary)) unfinished.push_back(at->path());
  for (const fs::path& path : unfinished) fs::remove_all(path, failure);
}

std::string manifest_path(const std::string& folder, std::int64_t step) {
  return folder + "/" + folder_of_step(step) + "/" + kManifestFile;
}

std::string this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {}", ::getpid(), host);
}

}  // namespace

std::string folder_of_step(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code failure;
  fs::directory_iterator at(folder, failure);
  if (failure == std::errc::no_such_file_or_directory) return steps;
  for (; !failure && at != fs::directory_iterator(); at.increment(failure))
    if (const std::int64_t step = step_of(at->path().filename().string()); step >= 0)
      steps.push_back(step);
  require(!failure, "{}: cannot be read: {}", shown_path(folder), failure.message());
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string read_manifest_text(const std::string& folder, std::int64_t step) {
  return read_file(manifest_path(folder, step), kManifestKind);
}

Manifest read_manifest(const std::string& folder, std::int64_t step) {
  return parse_manifest_of(read_manifest_text(folder, step), folder, step);
}

Manifest parse_manifest_of(const std::string& text, const std::string& folder, std::int64_t step) {
  const std::string path = manifest_path(folder, step);
  Manifest manifest = parse_manifest(text, shown_path(path));
  require(manifest.step == step, "{}: is of step {}, another checkpoint's", shown_path(path),
          manifest.step);
  return manifest;
}

FolderLock::FolderLock(const std::string& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) fail_write(folder, failure.value());
  const std::string path = folder + "/" + kLockFile;
  file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file_) fail_write(path, errno);
  if (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail_write(path, errno);
    const std::string holder = read_file(path, kLockKind);
    fail("{}: {} saves into this folder; give each run its own", shown_path(folder),
         holder.empty() ? "another program" : excerpt(holder));
  }
  const std::string own = this_process();
  const std::string_view text = own;  // the file is at its start
  if (::ftruncate(file_.number(), 0) != 0 || !write_all(file_.number(), std::span(&text, 1)))
    fail_write(path, errno);
  remove_unfinished(folder);
}

void publish(const std::string& folder, std::int64_t step,
             const std::function<void(const std::string& path)>& write) {
  const std::string temporary = temporary_in(folder), path = folder + "/" + folder_of_step(step);
  if (::mkdir(temporary.c_str(), 0777) != 0) fail_write(temporary, errno);
  try {
    write(temporary);
    sync_folder(temporary);
    // In place of one of the same step: both exist at every instant, under one name or the other.
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      if (errno != EEXIST && errno != ENOTEMPTY) fail_write(path, errno);
      if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0)
        fail_write(path, errno);
    }
    sync_folder(folder);
  } catch (...) {
    std::error_code failure;
    fs::remove_all(temporary, failure);
    throw;
  }
  std::error_code failure;
  fs::remove_all(temporary, failure);  // the one that was replaced
}

void remove_old(const std::string& folder, std::int64_t step, int keep) {
  std::vector<std::int64_t> steps = steps_in(folder);
  std::erase_if(steps, [&](std::int64_t other) { return other > step; });
  for (std::int64_t i = 0; i < std::ssize(steps) - keep; ++i)
    remove_whole(folder, folder + "/" + folder_of_step(steps[i]));
}

}  // namespace alpa::checkpoint
