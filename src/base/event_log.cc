// src/base/event_log.cc — files of TensorBoard: records with checksums (TFRecord), each of which is
// a message `Event` of protobuf
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <filesystem>

#include "alpa/base/error.h"
#include "alpa/base/program.h"
#include "alpa/base/text.h"
#include "src/base/checksum.h"
#include "src/base/file.h"
#include "src/base/launch_hooks.h"

namespace alpa {
namespace {

/// How protobuf writes a field.
enum class Wire : std::uint8_t { varint = 0, eight_bytes = 1, text = 2, four_bytes = 5 };

/// The least byte first.
std::string fixed(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> 8 * i);
  return text;
}

std::string varint(std::uint64_t number) {
  std::string text;
  for (; number >= 0x80; number >>= 7) text += static_cast<char>(number | 0x80);
  return text + static_cast<char>(number);
}

/// The field of this number, at most 15.
std::string field(int number, Wire wire, const std::string& value) {
  return static_cast<char>(number << 3 | static_cast<int>(wire)) +
         (wire == Wire::text ? varint(value.size()) : "") + value;
}

std::string masked_sum(std::string_view text) {
  return fixed(std::rotr(crc32c(text), 15) + 0xa282ead8U, 4);
}

/// An Event of now, as a record: `what` is one of its fields from 3 on.
std::string record(std::int64_t step, const std::string& what) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const std::string event =
      field(1, Wire::eight_bytes, fixed(std::bit_cast<std::uint64_t>(now.count()), 8)) +
      field(2, Wire::varint, varint(static_cast<std::uint64_t>(step))) + what;
  const std::string length = fixed(event.size(), 8);
  return length + masked_sum(length) + event + masked_sum(event);
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

/// A name that no other file has: of second, host, process and a count.
std::string new_file(const std::string& folder) {
  static std::atomic<int> count{0};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return (std::filesystem::path(folder) / fmt::format("events.out.tfevents.{}.{}.{}.{}",
                                                      seconds.count(), host_name(), ::getpid(),
                                                      count++))
      .string();
}

/// `new_file`, whose folder is there when this returns.
std::string new_file_in_made(const std::string& folder) {
  std::string path = new_file(folder);
  std::error_code failure;
  if (writes_files()) std::filesystem::create_directories(folder, failure);
  if (failure) fail_write(path, failure.value());
  return path;
}

/// The first records: the version, and `SessionLog` with the status START, by which readers drop
/// what they have from its step on.
std::string start_of(std::int64_t first) {
  const std::string started = field(1, Wire::varint, varint(1));
  return record(0, field(3, Wire::text, "brain.Event:2")) +
         record(first + 1, field(7, Wire::text, started));
}

}  // namespace

EventLog::EventLog(const std::string& folder, std::int64_t first)
    : file_(new_file_in_made(folder), start_of(first)) {}

void EventLog::scalars(std::int64_t step, const std::map<std::string, double>& values) {
  std::string summary;
  for (const auto& [name, number] : values) {
    require(!name.empty() && excerpt(name, name.size()) == name,
            "EventLog: a curve cannot be named \"{}\"; give printable UTF-8", excerpt(name));
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
    summary += field(1, Wire::text,
                     field(1, Wire::text, name) + field(2, Wire::four_bytes, fixed(bits, 4)));
  }
  file_.add(record(step, field(5, Wire::text, summary)));
}

}  // namespace alpa
