// Where lists are cut into what is captured and the messages between.
#include "src/cuda/segments.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "alpa/base/error.h"

namespace segments_test {

using namespace alpa;

namespace {

using Kind = lower::Instruction::Kind;

/// Devices whose list is given by letters: c computes, R receives, r reads what is received,
/// W waits for the last message before it, S sends; A is a collective of all devices, B
/// starts one and b waits for it.
struct Lists {
  explicit Lists(const std::vector<std::string>& texts) {
    std::vector<int> all;
    for (std::size_t d = 0; d < texts.size(); ++d) all.push_back(static_cast<int>(10 + d));
    for (std::size_t d = 0; d < texts.size(); ++d) {
      lower::DeviceProgram program;
      program.device = all[d];
      program.lists.push_back({"list", {}});
      program.buffers = {{{f32, {8}}, {0}, {8}, -1, 256}, {{f32, {8}}, {0}, {8}, -1, 272}};
      for (const char letter : texts[d]) add(program.lists[0].instructions, letter, all);
      programs.push_back(program);
    }
  }

  static void add(std::vector<lower::Instruction>& list, char letter, const std::vector<int>& all) {
    static const std::map<char, Kind> kinds = {
        {'c', Kind::compute}, {'r', Kind::compute},    {'R', Kind::receive}, {'S', Kind::send},
        {'W', Kind::wait},    {'A', Kind::collective}, {'B', Kind::start},   {'b', Kind::wait}};
    lower::Instruction instruction;
    instruction.kind = kinds.at(letter);
    instruction.call.group = all;
    if (letter == 'R') instruction.outputs = {0};
    if (letter == 'r') instruction.inputs = {1};  // overlaps buffer 0
    for (int i = static_cast<int>(list.size()); i-- > 0 && instruction.awaits < 0;) {
      const bool message = list[i].kind == Kind::receive || list[i].kind == Kind::send;
      if (letter == 'W' ? message : letter == 'b' && list[i].kind == Kind::start)
        instruction.awaits = i;
    }
    list.push_back(instruction);
  }

  /// Per segment and device "messages|work" as positions: "0 1|2 3; |0" are two devices.
  std::vector<std::string> segments(bool few) const {
    std::vector<const lower::DeviceProgram*> pointers;
    for (const lower::DeviceProgram& program : programs) pointers.push_back(&program);
    std::vector<std::string> texts;
    for (const cuda::Segment& segment : cuda::segments_of(pointers, 0, few)) {
      std::string text;
      for (std::size_t d = 0; d < programs.size(); ++d)
        text += (d > 0 ? "; " : "") + numbers(segment.messages[d]) + "|" + numbers(segment.work[d]);
      texts.push_back(text);
    }
    return texts;
  }

  static std::string numbers(const std::vector<int>& positions) {
    std::string text;
    for (const int position : positions)
      text += (text.empty() ? "" : " ") + std::to_string(position);
    return text;
  }

  std::vector<lower::DeviceProgram> programs;
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a list without messages is one segment, also an empty one") {
  CHECK(Lists({"ccAc", "cAcc"}).segments(true) == Texts{"|0 1 2 3; |0 1 2 3"});
  CHECK(Lists({"", ""}).segments(true) == Texts{"|; |"});
}

TEST_CASE("a stage's list is one graph: it waits for what it receives first and sends last") {
  const Lists forward({"RcWccSc"});
  CHECK(forward.segments(false) == Texts{"0|1", "2|3 4", "5|6"});
  CHECK(forward.segments(true) == Texts{"0 2|1 3 4 6", "5|"});
}

TEST_CASE("waits are not queued ahead of sends that what they wait for may answer") {
  CHECK(Lists({"cScWc"}).segments(true) == Texts{"|0 2", "1 3|4"});
  // The wait is another device's than the send.
  CHECK(Lists({"cSc", "RcWc"}).segments(true) == Texts{"|0; 0|1", "1|2; 2|3"});
}

TEST_CASE("memory that is received is written no earlier than the list says") {
  CHECK(Lists({"crRWc"}).segments(true) == Texts{"|0 1", "2 3|4"});
  CHECK(Lists({"ccRWc"}).segments(true) == Texts{"2 3|0 1 4"});
  CHECK(Lists({"ccRWc", "ccc"}).segments(true) == Texts{"2 3|0 1 4; |0 1 2"});
  CHECK(Lists({"ccRWc", "crRWc"}).segments(true) == Texts{"|0 1; |0 1", "2 3|4; 2 3|4"});
}

TEST_CASE("devices with fewer messages stop where others are awaited in a collective") {
  CHECK(Lists({"cAc", "RWcAc"}).segments(true) == Texts{"|0 1 2; 0 1|2 3 4"});
  CHECK(Lists({"cAcAc", "rARWcAc"}).segments(true) == Texts{"|0 1 2; |0 1", "|3 4; 2 3|4 5 6"});
  CHECK(Lists({"cAcAc", "cARWcAc"}).segments(true) == Texts{"|0 1 2 3 4; 2 3|0 1 4 5 6"});
  CHECK(Lists({"cBcbc", "cSBcbc"}).segments(true) == Texts{"|0 1 2 3 4; |0 2 3 4 5", "|; 1|"});
  CHECK(Lists({"cBcbc", "rRBcbc"}).segments(true) == Texts{"|0; |0", "|1 2 3 4; 1|2 3 4 5"});
}

TEST_CASE("lists that do not meet are a bug") {
  CHECK_THROWS_AS(Lists({"cA", "c"}).segments(true), Bug);
}

}  // namespace segments_test
