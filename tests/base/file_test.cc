// Reading and writing files.
#include "src/base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "support/error_text.h"
#include "support/gzip.h"
#include "support/temporary_file.h"

namespace file_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr FileKind kSmall{"plan file", 1000};

std::string read_error(const std::string& path, const FileKind& kind = kSmall) {
  return error_of([&] { read_file(path, kind); });
}

/// Files of this process can't grow beyond so many bytes, as on a full disk, while this lives. The
/// system's signal of it would end the process.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

/// A named pipe, gone at the end.
struct Pipe {
  explicit Pipe(const std::string& name) : path(name) { REQUIRE(mkfifo(name.c_str(), 0600) == 0); }
  ~Pipe() { unlink(path.c_str()); }
  std::string path;
};

int files_in_folder() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(".")) ++count;
  return count;
}

}  // namespace

TEST_CASE("a file is read as it is, and unpacked if it is gzip'd") {
  const std::string text = "some\0text\n";
  CHECK(read_file(TemporaryFile("file_test.txt", text).path(), kSmall) == text);
  CHECK(read_file(TemporaryFile("file_test.txt", "").path(), kSmall).empty());
  CHECK(read_file(TemporaryFile("file_test.gz", gzipped(text)).path(), kSmall) == text);
  CHECK(read_file(TemporaryFile("file_test.gz", gzipped(text) + gzipped("more")).path(), kSmall) ==
        text + "more");
  CHECK(read_file("/proc/self/comm", kSmall).ends_with("\n"));  // a regular file of size 0
}

TEST_CASE("a pipe is read to its end") {
  const Pipe pipe("file_test.pipe");
  std::thread writer([&] { write_file(pipe.path, std::string(900, 'x')); });
  CHECK(read_file(pipe.path, kSmall) == std::string(900, 'x'));
  writer.join();
}

TEST_CASE("a pipe is waited for as long as its writer needs, but not for a writer") {
  const Pipe pipe("file_test.pipe");
  CHECK(read_error(pipe.path) ==
        "plan file file_test.pipe: cannot be read: it is a pipe that no program writes to");
  std::atomic<int> running = 0;
  std::thread slow([&] {
    running = 1;
    const int file = open(pipe.path.c_str(), O_WRONLY);  // waits for the reader
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    CHECK(write(file, "late", 4) == 4);
    close(file);
  });
  while (running < 1) std::this_thread::yield();
  CHECK(read_file(pipe.path, kSmall) == "late");
  slow.join();
  std::thread silent([&] {
    running = 2;
    close(open(pipe.path.c_str(), O_WRONLY));
  });
  while (running < 2) std::this_thread::yield();
  CHECK(read_file(pipe.path, kSmall).empty());
  silent.join();
  CHECK(read_error(pipe.path, {.name = "", .max_bytes = 9, .pipes = false}) ==
        "file_test.pipe: cannot be read: it is a pipe, not a file");
}

TEST_CASE("a pipe is written if a program reads it") {
  const Pipe pipe("file_test.pipe");
  CHECK(error_of([&] { write_file(pipe.path, "x"); }) ==
        "file_test.pipe: cannot be written: it is a pipe that no program reads");
  CHECK(error_of([&] { GrowingFile(pipe.path, "x"); }) ==
        "file_test.pipe: cannot be written: it is a pipe that no program reads");
  std::string read;
  std::thread reader([&] { read = read_file(pipe.path, {"", 1 << 20}); });
  {
    GrowingFile file(pipe.path, "start,");
    file.add(std::string(200'000, 'x'));  // more than a pipe holds
  }
  reader.join();
  CHECK(read == "start," + std::string(200'000, 'x'));
}

TEST_CASE("a file grows by what is added") {
  const TemporaryFile file("file_test.txt", "before");
  GrowingFile growing(file.path(), "a");
  CHECK(file.content() == "a");
  growing.add("b");
  CHECK(file.content() == "ab");
  CHECK(error_of([&] { GrowingFile("nowhere/x", ""); }) ==
        "nowhere/x: cannot be written: No such file or directory");
}

TEST_CASE("whatever is in a file's place is replaced, except a folder") {
  const TemporaryFile other("file_test.other", "other");
  const auto is_replaced = [] {
    replace_file("file_test.place", "new");
    const bool regular =
        std::filesystem::is_regular_file(std::filesystem::symlink_status("file_test.place"));
    const std::string content = read_file("file_test.place", kSmall);
    unlink("file_test.place");
    return regular && content == "new";
  };
  for (const char* target : {"file_test.place", "file_test.other", "nowhere"}) {
    REQUIRE(symlink(target, "file_test.place") == 0);
    CHECK(is_replaced());
  }
  REQUIRE(mkfifo("file_test.place", 0600) == 0);
  CHECK(is_replaced());
  CHECK(other.content() == "other");
  std::filesystem::create_directory("file_test.place");
  CHECK(error_of([] { replace_file("file_test.place", ""); }) ==
        "file_test.place: cannot be written: Is a directory");
  std::filesystem::remove("file_test.place");
}

TEST_CASE("temporary files of killed programs with the same process number are no hindrance") {
  TemporaryFile file("file_test.txt", "old");
  std::vector<std::unique_ptr<TemporaryFile>> left;
  for (int i = 0; i < 200; ++i)
    left.push_back(std::make_unique<TemporaryFile>(
        "file_test.txt." + std::to_string(getpid()) + "." + std::to_string(i) + ".tmp", "part"));
  write_file(file.path(), "new");
  CHECK(file.content() == "new");
}

TEST_CASE("what can't be read is refused with what it is called, its path and the reason") {
  CHECK(read_error("missing.json") ==
        "plan file missing.json: cannot be read: No such file or directory");
  CHECK(read_error(".") == "plan file .: cannot be read: it is a folder, not a file");
  CHECK(read_error("/dev/zero") ==
        "plan file /dev/zero: cannot be read: it is a device, not a file");
  CHECK(read_error("/dev/null", {"", 10}) ==
        "/dev/null: cannot be read: it is a device, not a file");
}

TEST_CASE("a file of more than the cap is refused, whatever is in it") {
  const TemporaryFile file("file_test.txt", std::string(1001, ' '));
  CHECK(read_error(file.path()) ==
        "plan file file_test.txt: it holds more than 1000 bytes, the most that is read");
  CHECK(read_error(file.path(), {"", 1001}) == "no error");
  const TemporaryFile packed("file_test.gz", gzipped(std::string(1001, ' ')));
  CHECK(read_error(packed.path()) ==
        "plan file file_test.gz: unpacked it holds more than 1000 bytes, the most that is read of "
        "it");
}

TEST_CASE("a gzip bomb expands to no more than 256 times its size") {
  const TemporaryFile bomb("file_test.gz", gzipped(std::string(std::size_t{100} << 20, '\0')));
  const std::size_t size = bomb.content().size();
  CHECK(size < 200'000);
  CHECK(read_error(bomb.path(), {"", std::int64_t{1} << 40}) ==
        "file_test.gz: unpacked it holds more than " + std::to_string(256 * size) +
            " bytes, the most that is read of it");
}

TEST_CASE("damaged gzip is refused") {
  const std::string packed = gzipped(std::string(5000, 'x'));
  const std::string message = "file_test.gz: the gzip'd content is damaged or ends too early";
  std::string flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // the checksum
  for (const std::string& bytes :
       {packed.substr(0, packed.size() - 1), packed.substr(0, 2), packed + "x", flipped})
    CHECK(read_error(TemporaryFile("file_test.gz", bytes).path(), {"", 10000}) == message);
}

TEST_CASE("writing replaces the content and keeps permissions and links") {
  TemporaryFile file("file_test.txt", "old and longer");
  chmod(file.path().c_str(), 0640);
  write_file(file.path(), "new");
  CHECK(file.content() == "new");
  struct stat info {};
  stat(file.path().c_str(), &info);
  CHECK((info.st_mode & 0777) == 0640);
  REQUIRE(symlink("file_test.txt", "file_test.link") == 0);
  write_file("file_test.link", "through the link");
  CHECK(file.content() == "through the link");
  CHECK(std::filesystem::is_symlink("file_test.link"));
  unlink("file_test.link");
}

TEST_CASE("when the disk is full the old content stays and nothing is left behind") {
  TemporaryFile file("file_test.txt", "the plan of last night");
  const int files = files_in_folder();
  std::string message;
  {
    const FullDisk full(1000);
    message = error_of([&] { write_file(file.path(), std::string(5000, 'x')); });
  }
  CHECK(message ==
        "file_test.txt: cannot be written: File too large; what it held before is unchanged");
  CHECK(file.content() == "the plan of last night");
  CHECK(files_in_folder() == files);
}

TEST_CASE("what can't be written is refused with the reason") {
  CHECK(error_of([] { write_file("/dev/full", "x"); }) ==
        "/dev/full: cannot be written: No space left on device");
  CHECK(error_of([] { write_file("nowhere/x", "x"); }) ==
        "nowhere/x: cannot be written: No such file or directory");
  CHECK(error_of([] { write_file(".", "x"); }) == ".: cannot be written: Is a directory");
  write_file("/dev/null", "x");
}

TEST_CASE("text for /dev/stdout comes after what was printed before, also where that is a file") {
  TemporaryFile file("file_test.txt", "");
  std::fflush(stdout);
  const int terminal = dup(1), to_file = open(file.path().c_str(), O_WRONLY);
  dup2(to_file, 1);
  std::printf("first ");
  write_file("/dev/stdout", "second ");
  std::printf("third");
  std::fflush(stdout);
  dup2(terminal, 1);
  close(terminal);
  close(to_file);
  CHECK(file.content() == "first second third");
}

}  // namespace file_test
