// Sequences of tokens: files, parts, and batches of windows.
#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "alpa/data/text.h"
#include "support/error_text.h"
#include "support/temporary_file.h"

namespace tokens_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Tokens counted(std::int32_t n) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return Tokens(std::move(tokens));
}

/// First tokens of all windows of an epoch; checks that windows are of consecutive tokens.
std::vector<std::int32_t> starts(const Batches& batches, std::int64_t epoch) {
  std::vector<std::int32_t> result;
  for (const auto& batch : batches.epoch(epoch)) {
    const Array &tokens = batch.at("tokens"), &labels = batch.at("labels");
    for (std::int64_t row = 0; row < tokens.shape()[0]; ++row) {
      result.push_back(tokens.at<std::int32_t>(row, 0));
      for (std::int64_t i = 0; i < tokens.shape()[1]; ++i) {
        CHECK(tokens.at<std::int32_t>(row, i) == result.back() + i);
        CHECK(labels.at<std::int32_t>(row, i) == result.back() + i + 1);
      }
    }
  }
  return result;
}

}  // namespace

TEST_CASE("tokens are written and read in one, two and four bytes") {
  const Tokens tokens({0, 7, 255});
  for (TokenWidth width : {TokenWidth::bytes_1, TokenWidth::bytes_2, TokenWidth::bytes_4}) {
    const TemporaryFile file("tokens.bin", "");
    tokens.write(file.path(), width);
    CHECK(file.content().size() == 3 * static_cast<std::size_t>(width));
    const Tokens read = Tokens::of_file(file.path(), width);
    REQUIRE(read.size() == 3);
    for (int i = 0; i < 3; ++i) CHECK(read[i] == tokens[i]);
  }
  const TemporaryFile file("tokens.bin", std::string("\x57\xc4\x00\x01", 4));
  CHECK(Tokens::of_file(file.path())[0] == 50263);
  CHECK(Tokens::of_file(file.path())[1] == 256);
  CHECK(Tokens::of_file(file.path(), TokenWidth::bytes_4)[0] == 0x0100c457);
}

TEST_CASE("a text file becomes tokens") {
  const TemporaryFile file("text.txt", "ab\n");
  const Tokens tokens = Tokens::of_text(file.path(), Tokenizer::of_bytes());
  REQUIRE(tokens.size() == 3);
  CHECK(tokens[2] == 10);
}

TEST_CASE("windows follow one another, or overlap by the stride") {
  CHECK(starts(token_batches(counted(14), 2, 4), 0) == std::vector<std::int32_t>{0, 4, 8});
  CHECK(starts(token_batches(counted(12), 2, 4), 0) == std::vector<std::int32_t>{0, 4});
  CHECK(starts(token_batches(counted(8), 2, 4, {}, {}, 2), 0) == std::vector<std::int32_t>{0, 2});
  CHECK(starts(token_batches(counted(9), 2, 4, {}, {}, 2), 0) ==
        std::vector<std::int32_t>{0, 2, 4});
}

TEST_CASE("an epoch's order is a function of the seed and its number") {
  const Batches batches = token_batches(counted(101), 3, 5, 7);
  const std::vector<std::int32_t> first = starts(batches, 0);
  CHECK(first.size() == 20);
  CHECK(std::set<std::int32_t>(first.begin(), first.end()).size() == 20);
  CHECK(starts(batches, 0) == first);
  CHECK(starts(token_batches(counted(101), 3, 5, 7), 0) == first);
  CHECK(starts(batches, 1) != first);
  CHECK(starts(token_batches(counted(101), 3, 5, 8), 0) != first);
}

TEST_CASE("parts of a sequence count from 0") {
  const Tokens part = counted(20).part(5, 12).part(1, 7);
  CHECK(part.size() == 6);
  CHECK(part[0] == 6);
  CHECK(starts(token_batches(part, 1, 5), 0) == std::vector<std::int32_t>{6});
}

TEST_CASE("mistakes in tokens") {
  const TemporaryFile file("odd.bin", "abc");
  CHECK(error_of([&] { Tokens::of_file(file.path()); }) ==
        "odd.bin: has 3 bytes, which are no whole tokens of 2 bytes");
  CHECK(error_of([&] { Tokens::of_file("."); }) == ".: cannot be read: it is a folder, not a file");
  CHECK(error_of([&] { Tokens::of_file("none.bin"); }) ==
        "none.bin: cannot be read: No such file or directory");
  const TemporaryFile large("large.bin", std::string(4, '\xff'));
  CHECK(error_of([&] { Tokens::of_file(large.path(), TokenWidth::bytes_4)[0]; }) ==
        "large.bin: token 0 is 4294967295; tokens have at most 31 bits");
  CHECK(error_of([] { Tokens tokens({-1}); }) ==
        "tokens: -1 is negative; tokens are numbered from 0");
  CHECK(error_of([] { counted(3)[3]; }) == "tokens: there is no token 3 of 3");
  CHECK(error_of([] { counted(3).part(2, 4); }) == "tokens: there is no part 2 to 4 of 3");
  CHECK(error_of([] { counted(300).write("never.bin", TokenWidth::bytes_1); }) ==
        "never.bin: token 256 is 256, which does not fit into 1 bytes");
  CHECK(error_of([] { token_batches(counted(4), 1, 4); }) ==
        "token_batches: 4 tokens hold no window of 4 and the token behind it; give shorter windows "
        "or more text");
}

}  // namespace tokens_test
