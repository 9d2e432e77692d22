#pragma once
/// A reader of TensorBoard's files of events, after the description of TFRecord and event.proto.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "src/base/checksum.h"

namespace alpa::testing {

/// What a reader gets of an Event.
struct BoardEvent {
  std::int64_t step = 0;
  std::string what = {};  ///< "brain.Event:2", "start" or "values"
  std::map<std::string, float> values = {};
};

/// "2: loss 0.5, rate 0.1", "1: start".
inline std::string to_string(const BoardEvent& event) {
  std::string text = fmt::format("{}: {}", event.step, event.values.empty() ? event.what : "");
  for (const auto& [name, value] : event.values)
    text += fmt::format("{}{} {}", text.ends_with(": ") ? "" : ", ", name, value);
  return text;
}

/// Cuts events off the bytes of a file.
struct EventReader {
  /// A field of a protobuf message: `number` of a varint, else its bytes.
  struct Field {
    int id = 0;
    std::uint64_t number = 0;
    std::string bytes = {};
  };

  static std::string cut(std::string& text, std::size_t size) {
    REQUIRE(size <= text.size());
    std::string first = text.substr(0, size);
    text.erase(0, size);
    return first;
  }

  template <class T>
  static T number_in(const std::string& bytes) {
    T number{};
    REQUIRE(bytes.size() == sizeof number);
    std::memcpy(&number, bytes.data(), sizeof number);  // the least byte is the first here, too
    return number;
  }

  static std::uint64_t cut_varint(std::string& text) {
    std::uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number_in<unsigned char>(cut(text, 1));
      number |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return number;
    }
  }

  static std::vector<Field> fields_of(std::string message) {
    std::vector<Field> fields;
    while (!message.empty()) {
      const std::uint64_t key = cut_varint(message);
      Field field{.id = static_cast<int>(key >> 3)};
      switch (key & 7) {
        case 0: field.number = cut_varint(message); break;
        case 1: field.bytes = cut(message, 8); break;
        case 2: field.bytes = cut(message, cut_varint(message)); break;
        case 5: field.bytes = cut(message, 4); break;
        default: FAIL("a wire type that is not used");
      }
      fields.push_back(field);
    }
    return fields;
  }

  /// As TFRecord has it: rotated right by 15 bits, plus a constant.
  static std::uint32_t masked(std::uint32_t sum) {
    return ((sum >> 15) | (sum << 17)) + 0xa282ead8U;
  }

  static BoardEvent event_of(const std::string& message) {
    const std::vector<Field> fields = fields_of(message);
    REQUIRE(fields.size() == 3);
    CHECK(fields[0].id == 1);
    CHECK(number_in<double>(fields[0].bytes) > 1.6e9);  // seconds since 1970
    CHECK(fields[1].id == 2);
    BoardEvent event{.step = static_cast<std::int64_t>(fields[1].number)};
    const std::string& what = fields[2].bytes;
    switch (fields[2].id) {
      case 3: event.what = what; break;
      case 5: event.what = "values"; break;
      case 7: event.what = what == "\x08\x01" ? "start" : "another status"; break;
      default: FAIL("a field that is not used");
    }
    if (event.what != "values") return event;
    for (const Field& value : fields_of(what)) {
      const std::vector<Field> curve = fields_of(value.bytes);
      REQUIRE(curve.size() == 2);
      event.values[curve[0].bytes] = number_in<float>(curve[1].bytes);
    }
    return event;
  }

  /// The next record of a file; its checksums are checked.
  static BoardEvent cut_event(std::string& file) {
    const std::string length = cut(file, 8);
    CHECK(number_in<std::uint32_t>(cut(file, 4)) == masked(crc32c(length)));
    const std::string event = cut(file, number_in<std::uint64_t>(length));
    CHECK(number_in<std::uint32_t>(cut(file, 4)) == masked(crc32c(event)));
    return event_of(event);
  }
};

/// The events of the files in `folder`, each file's in their order. Checksums are checked.
inline std::vector<BoardEvent> events_in(const std::string& folder) {
  std::vector<BoardEvent> found;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    CHECK(file.path().filename().string().starts_with("events.out.tfevents."));
    std::ifstream stream(file.path(), std::ios::binary);
    std::string rest{std::istreambuf_iterator<char>(stream), {}};
    while (!rest.empty()) found.push_back(EventReader::cut_event(rest));
  }
  return found;
}

}  // namespace alpa::testing
