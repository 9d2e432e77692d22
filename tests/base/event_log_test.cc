// Files of events for TensorBoard, read back by a reader of their format.
#include <alpa/base/program.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <limits>

#include "support/error_text.h"
#include "support/events.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace event_log_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Events = std::vector<std::string>;

Events texts_in(const std::string& folder) {
  Events texts;
  for (const BoardEvent& event : events_in(folder)) texts.push_back(to_string(event));
  return texts;
}

}  // namespace

TEST_CASE("CRC-32C has the values of RFC 3720, B.4") {
  std::string rising(32, '\0'), falling;
  for (int i = 0; i < 32; ++i) rising[i] = static_cast<char>(i);
  falling.assign(rising.rbegin(), rising.rend());
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(crc32c(rising) == 0x46dd794e);
  CHECK(crc32c(falling) == 0x113fdb5c);
  CHECK(crc32c("") == 0);
}

TEST_CASE("a board has the version, the start, and each step as soon as it is added") {
  const TemporaryFolder folder("event_log_test");
  EventLog board(folder.path() + "/a/b");
  CHECK(texts_in(folder.path() + "/a/b") == Events{"0: brain.Event:2", "1: start"});
  board.scalars(1, {{"loss", 0.5}, {"rate", 0.25}});
  board.scalars(300, {{"größe", std::numeric_limits<double>::infinity()}});
  CHECK(texts_in(folder.path() + "/a/b") ==
        Events{"0: brain.Event:2", "1: start", "1: loss 0.5, rate 0.25", "300: größe inf"});
}

TEST_CASE("a resumed run starts behind the steps that were done") {
  const TemporaryFolder folder("event_log_test");
  const EventLog board(folder.path(), 200);
  CHECK(texts_in(folder.path()) == Events{"0: brain.Event:2", "201: start"});
}

TEST_CASE("runs into one folder never share a file") {
  const TemporaryFolder folder("event_log_test");
  const EventLog one(folder.path()), two(folder.path());
  const std::filesystem::directory_iterator files(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 2);
}

TEST_CASE("a board that can't be written, or a name that can't be read, is an Error") {
  const TemporaryFile file("event_log_test.txt", "kept");
  CHECK(error_of([] { EventLog("/proc/nowhere"); }).starts_with("/proc/nowhere/events.out."));
  CHECK(error_of([&] { EventLog(file.path() + "/a"); }).ends_with(": Not a directory"));
  CHECK(file.content() == "kept");
  const TemporaryFolder folder("event_log_test");
  EventLog board(folder.path());
  CHECK(error_of([&] {
          board.scalars(1, {{"", 1}});
        }) == "EventLog: a curve cannot be named \"\"; give printable UTF-8");
  CHECK(error_of([&] {
          board.scalars(1, {{"a\xff", 1}});
        }) == "EventLog: a curve cannot be named \"a\\xff\"; give printable UTF-8");
  board.scalars(1, {{"a", 1}});
  CHECK(texts_in(folder.path()).back() == "1: a 1");
}

}  // namespace event_log_test
