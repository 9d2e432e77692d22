// Reading and writing files.
#include "src/base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "support/error_text.h"
#include "support/gzip.h"
#include "support/temporary_file.h"

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr FileKind kSmall{"plan file", 1000};

std::string read_error(const std::string& path, const FileKind& kind = kSmall) {
  return error_of([&] { read_file(path, kind); });
}

/// Files of this process can't grow beyond so many bytes, as on a full disk, while this lives.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    handler_ = std::signal(SIGXFSZ, SIG_IGN);  // write(2) fails instead
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
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
  REQUIRE(mkfifo("file_test.pipe", 0600) == 0);
  std::thread writer([] { write_file("file_test.pipe", std::string(900, 'x')); });
  CHECK(read_file("file_test.pipe", kSmall) == std::string(900, 'x'));
  writer.join();
  unlink("file_test.pipe");
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
  CHECK(
      read_error(packed.path()) ==
      "plan file file_test.gz: unpacked it holds more than 1000 bytes, the most that is read of it");
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
