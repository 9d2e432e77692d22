// Documents in rows of several lengths: batches of one length each, with nothing lost.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "alpa/data/text.h"
#include "support/error_text.h"

namespace buckets_test {

using namespace alpa;
using testing::error_of;

namespace {

using Ids = std::vector<std::int32_t>;

/// Documents of 2 to 39 tokens, most of them short; no token occurs twice.
std::vector<TextExample> made_documents(int count) {
  std::vector<TextExample> documents;
  std::int32_t token = 1;
  for (int i = 0; i < count; ++i) {
    TextExample& document = documents.emplace_back();
    for (int size = 2 + i * i % 5 + (i % 5 == 0 ? 8 : 0) + (i % 7 == 0 ? 26 : 0); size > 0; --size)
      document.tokens.push_back(token++);
  }
  return documents;
}

Ids ids_of(const BatchData& batch, const char* name) {
  const Array& array = batch.at(name);
  const auto values = array.elements_as<std::int32_t>();
  return {values.begin(), values.end()};
}

/// An epoch: the rows' length and first tokens of each batch, and how often a token is learnt.
struct Epoch {
  std::vector<std::pair<std::int64_t, Ids>> batches;
  std::map<std::int32_t, int> learnt;
  std::int64_t places = 0;
};

Epoch epoch_of(const Batches& batches, std::int64_t number) {
  Epoch epoch;
  for (const BatchData& batch : batches.epoch(number)) {
    const Shape& shape = batch.at("tokens").shape();
    for (const char* name : {"labels", "segments", "positions"})
      CHECK(batch.at(name).shape() == shape);
    CHECK(shape[0] == batches.batch());
    epoch.batches.emplace_back(shape[1], ids_of(batch, "tokens"));
    epoch.places += shape[0] * shape[1];
    for (std::int32_t label : ids_of(batch, "labels"))
      if (label != -1) ++epoch.learnt[label];
  }
  return epoch;
}

}  // namespace

TEST_CASE("every label of every document is learnt once, in batches of one length") {
  const std::vector<TextExample> documents = made_documents(60);
  const std::vector<std::int64_t> lengths = {16, 8, 32};
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>{}, {3}}) {
    const Batches batches = bucketed_batches(documents, 4, lengths, seed, {.drop_last = true});
    const Epoch epoch = epoch_of(batches, 0);
    CHECK(std::ssize(epoch.batches) == batches.size());
    std::set<std::int64_t> found;
    for (const auto& [length, tokens] : epoch.batches) found.insert(length);
    CHECK(found == std::set<std::int64_t>{8, 16, 32});
    std::size_t labels = 0;
    for (const TextExample& document : documents) labels += document.tokens.size() - 1;
    CHECK(epoch.learnt.size() == labels);
    for (const auto& [label, times] : epoch.learnt) CHECK(times == 1);
    // Fewer padded places than rows of the longest alone, each with one document.
    CHECK(epoch.places < 32 * std::ssize(documents) / 2);
  }
}

TEST_CASE("a document is in the shortest row that holds it, unless a longer one has room") {
  // 9 labels need a row of 16, whose rest takes the first of 6; the next opens a row of 8.
  std::vector<TextExample> documents;
  for (int size : {7, 10, 7}) documents.push_back({Ids(static_cast<std::size_t>(size), size)});
  const Batches batches = bucketed_batches(documents, 1, {8, 16});
  REQUIRE(batches.size() == 2);
  BatchRange rows = batches.epoch(0);
  auto row = rows.begin();
  CHECK(ids_of(*row, "tokens") == Ids{10, 10, 10, 10, 10, 10, 10, 10, 10, 7, 7, 7, 7, 7, 7, 0});
  CHECK(ids_of(*row, "segments") == Ids{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0});
  ++row;
  CHECK(ids_of(*row, "tokens") == Ids{7, 7, 7, 7, 7, 7, 0, 0});
}

TEST_CASE("one length gives the rows of packed_batches, and padding to the last batch") {
  const std::vector<TextExample> documents = made_documents(30);
  const Batches packed = packed_batches(documents, 1, 16),
                one = bucketed_batches(documents, 1, {16});
  CHECK(epoch_of(packed, 0).batches == epoch_of(one, 0).batches);
  const Batches by_7 = bucketed_batches(documents, 7, {16});
  CHECK(packed.examples() % 7 != 0);
  CHECK(by_7.examples() == (packed.examples() + 6) / 7 * 7);
}

TEST_CASE("the order of batches is a function of seed and epoch, and goes on from any of them") {
  const std::vector<TextExample> documents = made_documents(60);
  const auto made = [&](std::uint64_t seed) {
    return bucketed_batches(documents, 4, {8, 16, 32}, seed);
  };
  const Batches batches = made(1);
  const Epoch first = epoch_of(batches, 0), second = epoch_of(batches, 1);
  CHECK(first.batches == epoch_of(made(1), 0).batches);
  CHECK(first.batches != second.batches);
  CHECK(first.batches != epoch_of(made(2), 0).batches);
  CHECK(first.learnt == second.learnt);
  const auto by_length = [](const Epoch& epoch) {
    std::vector<std::int64_t> lengths;
    for (const auto& [length, tokens] : epoch.batches) lengths.push_back(length);
    return lengths;
  };
  CHECK(!std::ranges::is_sorted(by_length(first), std::greater{}));
  CHECK(by_length(first) != by_length(second));
  // From the fourth batch of the second epoch on.
  DataPosition position{1, 0};
  for (int i = 0; i < 3; ++i) position = batches.after(position);
  std::size_t at = 3;
  for (const BatchData& batch : batches.from(position, 2))
    CHECK(ids_of(batch, "tokens") == second.batches.at(at++).second);
  CHECK(at == second.batches.size());
}

TEST_CASE("batches that are cut differently have other hashes") {
  const std::vector<TextExample> documents = made_documents(20);
  std::set<std::uint64_t> hashes;
  for (const std::int64_t batch : {2, 4})
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{32}, {8, 32}, {16, 32}})
      hashes.insert(bucketed_batches(documents, batch, lengths).hash().value());
  CHECK(hashes.size() == 6);
  CHECK(bucketed_batches(documents, 2, {32, 8}).hash() ==
        bucketed_batches(documents, 2, {8, 32, 8}).hash());
}

TEST_CASE("an order of one's own is followed, and must hold every example once") {
  const Array x(std::vector<std::int32_t>{10, 11, 12, 13}, {4});
  const auto order = [&](std::vector<std::int64_t> given) {
    const Batches own = batches({{"x", x}}, 2, {}, {.order = [given](std::int64_t epoch) {
                                  std::vector<std::int64_t> rotated = given;
                                  std::ranges::rotate(rotated, rotated.begin() + epoch);
                                  return rotated;
                                }});
    Ids found;
    for (const BatchData& batch : own.epochs(0, 2))
      for (std::int32_t value : ids_of(batch, "x")) found.push_back(value);
    return found;
  };
  CHECK(order({3, 0, 1, 2}) == Ids{13, 10, 11, 12, 10, 11, 12, 13});
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{0, 1, 2}, {0, 1, 2, 2}, {0, 1, 2, 4}, {0, 1, 2, 3, 3}})
    CHECK(error_of([&] { order(wrong); }) ==
          "batches: BatchOptions::order does not give each of the numbers 0 to 3 once for epoch 0");
}

TEST_CASE("mistakes with lengths and batches are told") {
  const std::vector<TextExample> documents = made_documents(3);
  const auto mistake = [&](std::int64_t batch, const std::vector<std::int64_t>& lengths) {
    return error_of([&] { bucketed_batches(documents, batch, lengths); });
  };
  CHECK(mistake(1, {}) == "bucketed_batches: no lengths of rows; give at least one");
  CHECK(mistake(1, {8, 0}) == "bucketed_batches: rows of 0 tokens; give at least 1");
  CHECK(mistake(0, {8}) == "bucketed_batches: a batch of 0 rows; give at least 1");
  CHECK(mistake(9, {32}) ==
        "bucketed_batches: a batch of 9 rows, but the documents are 4 pieces of at most 32 tokens; "
        "give a smaller batch");
}

}  // namespace buckets_test
