// src/train/shared_rows.cc — divides the rows of a batch among processes, and puts them together
#include "src/train/shared_rows.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "alpa/base/error.h"

namespace alpa {
namespace {

template <class Number>
void append_number(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_text(std::string& bytes, std::string_view text) {
  append_number(bytes, std::ssize(text));
  bytes += text;
}

/// Reads what `append_number` and `append_text` wrote.
class RowReader {
 public:
  explicit RowReader(const std::string& bytes) : rest_(bytes) {}
  bool any() const { return !rest_.empty(); }
  std::string_view take(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  template <class Number>
  Number number() {
    Number number;
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }
  std::string text() { return std::string(take(number<std::ptrdiff_t>())); }

 private:
  std::string_view rest_;
};

/// Names, types and elements.
std::string packed(const BatchData& share) {
  std::string bytes;
  for (const auto& [name, array] : share) {
    append_text(bytes, name);
    append_number(bytes, static_cast<int>(array.type().dtype));
    append_number(bytes, std::ssize(array.shape()));
    for (const std::int64_t extent : array.shape()) append_number(bytes, extent);
    append_text(bytes, {reinterpret_cast<const char*>(array.data()),
                        static_cast<std::size_t>(array.bytes())});
  }
  return bytes;
}

/// An input's part in one process.
struct InputRows {
  TensorType type;
  std::string_view elements;
};

std::map<std::string, InputRows> parts_in(const std::string& bytes) {
  std::map<std::string, InputRows> parts;
  for (RowReader rest(bytes); rest.any();) {
    const std::string name = rest.text();
    InputRows& part = parts[name];
    part.type.dtype = static_cast<DType>(rest.number<int>());
    part.type.shape.resize(rest.number<std::ptrdiff_t>());
    for (std::int64_t& extent : part.type.shape) extent = rest.number<std::int64_t>();
    part.elements = rest.take(rest.number<std::ptrdiff_t>());
  }
  return parts;
}

/// Throws Error unless `part` of process `rank` continues `whole`.
void check_part(const std::string& name, const InputRows* part, TensorType whole, int rank) {
  require(part != nullptr, "batches: rank {} loaded no \"{}\"; every process loads all inputs",
          rank, name);
  TensorType type = part->type;
  if (!type.shape.empty() && !whole.shape.empty()) type.shape[0] = whole.shape[0] = 0;
  require(type == whole, "batches: rank {} loaded \"{}\" as {}, another as {}, but for the rows",
          rank, name, to_string(type), to_string(whole));
}

}  // namespace

std::span<const std::int64_t> share_of(std::span<const std::int64_t> rows,
                                       const processes::World& world) {
  const std::int64_t count = std::ssize(rows);
  const std::int64_t begin = count * world.rank() / world.size(),
                     end = count * (world.rank() + 1) / world.size();
  return rows.subspan(begin, end - begin);
}

BatchData joined(const BatchData& share, processes::World& world, std::int64_t number) {
  world.note_call(fmt::format("batch {} of a loop", number));
  const std::vector<std::string> all = world.all_gather(packed(share));
  std::map<int, std::map<std::string, InputRows>> shares;  // by rank, of those with rows
  for (int rank = 0; rank < world.size(); ++rank)
    if (!all[rank].empty()) shares[rank] = parts_in(all[rank]);
  BatchData whole;
  for (const auto& [name, first] : shares.begin()->second) {
    TensorType type = first.type;
    type.shape.at(0) = 0;
    for (const auto& [rank, parts] : shares) {
      const auto part = parts.find(name);
      check_part(name, part == parts.end() ? nullptr : &part->second, first.type, rank);
      type.shape[0] += part->second.type.shape[0];
    }
    Array array(type);
    std::byte* to = array.mutable_data();
    for (const auto& [rank, parts] : shares) {
      const std::string_view elements = parts.at(name).elements;
      std::memcpy(to, elements.data(), elements.size());
      to += elements.size();
    }
    whole.emplace(name, std::move(array));
  }
  return whole;
}

}  // namespace alpa
