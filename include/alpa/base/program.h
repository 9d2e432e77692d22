#pragma once
/// The frame of a program: its exit status and error messages, and the files that it writes.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#pragma GCC visibility push(default)

namespace alpa {

class Descriptor;

/// Runs body(argc, argv) and returns its exit status. A failure prints one line on stderr that
/// starts with `name`. A user's mistake, lack of memory or a refusal by the system gives status 2,
/// a bug of ours 3. Output that could not be written, such as to a full disk, counts as a failure.
/// Lack of memory gives 2 also in a thread or a destructor, where it can't be caught.
int run_program(const char* name, int (*body)(int argc, char** argv), int argc, char** argv);

/// Writes `text` to `path`. A regular file is replaced atomically, by renaming a temporary
/// file in the same folder. On failure the old content stays, and Error says why. A pipe or
/// device is written to directly; a pipe without a reader is an Error. Of several processes of a
/// launch, rank 0 writes.
void write_file(const std::string& path, std::string_view text);

/// A file that grows while a program runs, such as a log.
class GrowingFile {
 public:
  /// Replaces the file by `start`, as `write_file`. Throws Error as that does.
  GrowingFile(const std::string& path, std::string_view start);

  /// Adds a text, which is in the file when this returns. Throws Error if it can't be written.
  void add(std::string_view text);

 private:
  std::string path_;
  std::shared_ptr<Descriptor> file_;
};

/// Numbers over the steps of a run, as a file of events that TensorBoard reads:
/// `EventLog board("runs/a"); board.scalars(state.step(), result.metrics.values());`. Of several
/// processes of a launch, rank 0 writes.
class EventLog {
 public:
  /// A new file in `folder`, which is made with its parents if need be. A run that is resumed
  /// gives `first`, the steps that were done before: its curves go on from older files of the
  /// folder, whose later steps no longer count. Throws Error if the file can't be written.
  explicit EventLog(const std::string& folder, std::int64_t first = 0);

  /// Adds the values of a step, each by the name of its curve, in f32. They are in the file when
  /// this returns. Throws Error if it can't be written, or if a name is empty or no UTF-8.
  void scalars(std::int64_t step, const std::map<std::string, double>& values);

 private:
  GrowingFile file_;
};

}  // namespace alpa
#pragma GCC visibility pop
