// src/api/checkpoint/manifest.cc — writes manifests as JSON, and reads them with every number
// checked
#include "src/api/checkpoint/manifest.h"

#include <iterator>
#include <limits>
#include <set>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/api/checkpoint/block_sums.h"
#include "src/base/json_place.h"

namespace alpa::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "alpa.checkpoint";
constexpr int kVersion = 1;
constexpr std::int64_t kMost = std::int64_t{1} << 53;
constexpr std::size_t kMostName = 255;          // bytes of a file's name
constexpr std::ptrdiff_t kMostBoxes = 1 << 14;  // of a tensor: all pairs are compared

// ---- writing

Json json_of(const StoredTensor& tensor) {
  Json boxes = Json::array();
  for (const StoredBox& box : tensor.boxes)
    boxes.push_back({{"begin", box.begin},
                     {"extent", box.extent},
                     {"shard", box.shard},
                     {"offset", box.offset}});
  return {{"dtype", name_of(tensor.type.dtype)},
          {"shape", tensor.type.shape},
          {"role", tensor.role},
          {"boxes", boxes}};
}

Json json_of(const Shard& shard) {
  return {{"file", shard.file},
          {"header_bytes", shard.header_bytes},
          {"data_bytes", shard.data_bytes},
          {"header_crc32", shard.header_sum},
          {"block_sums_crc32", shard.sums_sum}};
}

Json json_of(const StoredData& data) {
  Json json = {{"epoch", data.position.epoch},
               {"example", data.position.example},
               {"examples", data.examples},
               {"seed", data.seed ? Json(*data.seed) : Json()}};
  if (const auto& since = data.since)
    json["since"] = {{"step", since->step},
                     {"epoch", since->position.epoch},
                     {"example", since->position.example},
                     {"batch", since->batch},
                     {"drops_last", since->drops_last},
                     {"hash", since->hash ? Json(*since->hash) : Json()}};
  return json;
}

/// Throws Error if a text can't be written as it is.
std::string text_of(const Json& json) {
  try {
    return json.dump(1);
  } catch (const Json::type_error&) {
    fail(
        "checkpoint: the name of a tensor, or a text of SaveOptions::user, is not UTF-8; no "
        "manifest can hold it");
  }
}

// ---- reading

std::int64_t integer_of(const JsonPlace& place, std::int64_t most = kMost) {
  return static_cast<std::int64_t>(place.count(static_cast<std::uint64_t>(most)));
}

std::uint32_t sum_of(const JsonPlace& place) {
  return static_cast<std::uint32_t>(place.count(std::numeric_limits<std::uint32_t>::max()));
}

std::uint64_t seed_of(const JsonPlace& place) {
  return place.count(std::numeric_limits<std::uint64_t>::max());
}

Shape integers_of(const JsonPlace& place) {
  Shape numbers;
  for (const JsonPlace& item : place.items()) numbers.push_back(integer_of(item));
  return numbers;
}

bool overlap(const StoredBox& a, const StoredBox& b) {
  for (std::size_t d = 0; d < a.begin.size(); ++d)
    if (a.begin[d] + a.extent[d] <= b.begin[d] || b.begin[d] + b.extent[d] <= a.begin[d])
      return false;
  return true;
}

/// What is wrong with a box of the tensor, or "".
std::string fault_of(const StoredBox& box, const TensorType& type, const Shard& shard) {
  const std::size_t rank = type.shape.size();
  if (box.begin.size() != rank || box.extent.size() != rank)
    return fmt::format("has another rank than {}", to_string(type));
  for (std::size_t d = 0; d < rank; ++d)
    if (box.extent[d] < 1 || box.extent[d] > type.shape[d] ||
        box.begin[d] > type.shape[d] - box.extent[d])
      return fmt::format("{} from {} leaves {}", to_string(box.extent), to_string(box.begin),
                         to_string(type));
  const std::int64_t bytes = TensorType{type.dtype, box.extent}.bytes();
  if (bytes > shard.data_bytes || box.offset > shard.data_bytes - bytes)
    return fmt::format("{} bytes at {} leave the {} bytes of {}", bytes, box.offset,
                       shard.data_bytes, shard.file);
  if (box.offset % static_cast<std::int64_t>(size_of(type.dtype)) != 0)
    return fmt::format("offset {} is not aligned to its elements", box.offset);
  return "";
}

/// Throws Error unless the boxes cover the tensor, each element once.
void check_cover(const StoredTensor& tensor, const JsonPlace& place) {
  if (std::ssize(tensor.boxes) > kMostBoxes)
    place.refuse(fmt::format("has {} boxes; at most {} are read", tensor.boxes.size(), kMostBoxes));
  std::int64_t elements = 0;
  for (std::size_t a = 0; a < tensor.boxes.size(); ++a) {
    elements += num_elements(tensor.boxes[a].extent);
    for (std::size_t b = 0; b < a; ++b)
      if (overlap(tensor.boxes[a], tensor.boxes[b]))
        place.refuse(fmt::format("boxes {} and {} overlap", b, a));
  }
  if (elements != tensor.type.elements())
    place.refuse(fmt::format("the boxes hold {} elements of {}", elements, to_string(tensor.type)));
}

StoredTensor tensor_of(const JsonPlace& place, const std::vector<Shard>& shards) {
  StoredTensor tensor;
  tensor.type = {place.at("dtype").parsed([](const std::string& s) { return parse_dtype(s); }),
                 integers_of(place.at("shape"))};
  place.checked([&] { check_type(tensor.type, "the tensor"); });
  tensor.role = place.at("role").text();
  if (shards.empty()) place.refuse("there is no shard");
  for (const JsonPlace& item : place.at("boxes").items()) {
    StoredBox box{integers_of(item.at("begin")), integers_of(item.at("extent")),
                  static_cast<int>(integer_of(item.at("shard"), std::ssize(shards) - 1)),
                  integer_of(item.at("offset"))};
    if (const std::string fault = fault_of(box, tensor.type, shards[box.shard]); !fault.empty())
      item.refuse(fault);
    tensor.boxes.push_back(std::move(box));
  }
  check_cover(tensor, place);
  return tensor;
}

Shard shard_of(const JsonPlace& place) {
  Shard shard{place.at("file").text(), integer_of(place.at("header_bytes")),
              integer_of(place.at("data_bytes")), sum_of(place.at("header_crc32")),
              sum_of(place.at("block_sums_crc32"))};
  if (shard.file.empty() || shard.file.size() > kMostName ||
      shard.file.find('/') != std::string::npos || shard.file[0] == '.')
    place.at("file").bad("a file name without folders");
  return shard;
}

/// Throws Error unless the position is what `since` and the steps from then on lead to.
void check_position(const StoredData& data, std::int64_t step, const JsonPlace& place) {
  const StoredData::Since& since = *data.since;
  const std::int64_t end = data.examples - (since.drops_last ? since.batch - 1 : 0);
  const auto begins = [&](const DataPosition& at) { return at.example == 0 || at.example < end; };
  if (since.batch < 1 || end < 1 || !begins(data.position) || !begins(since.position))
    place.refuse(fmt::format("no batch of {} begins at example {}, or {}, of {}", since.batch,
                             data.position.example, since.position.example, data.examples));
  if (since.step > step)
    place.refuse(
        fmt::format("batches of {} began at step {}, behind step {}, at which it was saved",
                    since.batch, since.step, step));
  const DataPosition found = position_behind(since.position, step - since.step, data.examples,
                                             since.batch, since.drops_last);
  if (found != data.position)
    place.refuse(fmt::format(
        "is at example {} of epoch {}, but the steps from {} to {} lead to "
        "example {} of epoch {}",
        data.position.example, data.position.epoch, since.step, step, found.example, found.epoch));
}

StoredData data_of(const JsonPlace& place, std::int64_t step) {
  StoredData data{{integer_of(place.at("epoch")), integer_of(place.at("example"))},
                  integer_of(place.at("examples")),
                  {}};
  if (!place.at("seed").is_null()) data.seed = seed_of(place.at("seed"));
  if (!place.contains("since")) return data;
  const JsonPlace since = place.at("since");
  data.since = {integer_of(since.at("step")),
                {integer_of(since.at("epoch")), integer_of(since.at("example"))},
                integer_of(since.at("batch")),
                since.at("drops_last").boolean()};
  if (!since.at("hash").is_null()) data.since->hash = seed_of(since.at("hash"));
  check_position(data, step, place);
  return data;
}

/// The first line, up to the checksum, and what is behind it.
constexpr std::string_view kBefore = "{\"crc32\": \"", kBehind = "\",\n";
constexpr std::size_t kSumDigits = 8;
constexpr std::size_t kFirstLine = kBefore.size() + kSumDigits + kBehind.size();

/// Throws Error unless the text is as it was written.
void check_sum(const std::string& text, const std::string& path) {
  require(text.size() > kFirstLine && text.starts_with(kBefore) &&
              text.compare(kFirstLine - kBehind.size(), kBehind.size(), kBehind) == 0,
          "{}: is no manifest of a checkpoint: its first line holds no checksum", path);
  const std::string written = text.substr(kBefore.size(), kSumDigits);
  const std::string found = fmt::format("{:08x}", crc32(std::string_view(text).substr(kFirstLine)));
  require(written == found, "{}: is damaged: its checksum is {}, but its first line has {}", path,
          found, excerpt(written));
}

}  // namespace

DataPosition position_behind(DataPosition begin, std::int64_t count, std::int64_t examples,
                             std::int64_t batch, bool drops_last) {
  const std::int64_t end = drops_last ? examples - batch + 1 : examples;  // no batch begins there
  const std::int64_t rest = (end - begin.example - 1) / batch + 1;        // of the first epoch
  if (count < rest) return {begin.epoch, begin.example + count * batch};
  const std::int64_t whole = (end - 1) / batch + 1;
  return {begin.epoch + 1 + (count - rest) / whole, (count - rest) % whole * batch};
}

std::int64_t Shard::sums_bytes() const {
  return blocks_of(data_bytes) * static_cast<std::int64_t>(sizeof(std::uint32_t));
}

std::int64_t Shard::bytes() const { return header_bytes + data_bytes + sums_bytes(); }

std::string to_json(const Manifest& manifest) {
  Json json = {
      {"schema", kSchema},           {"version", kVersion},
      {"step", manifest.step},       {"seed", manifest.seed},
      {"steps", manifest.steps},     {"data", manifest.data ? json_of(*manifest.data) : Json()},
      {"metrics", manifest.metrics}, {"plan_hash", manifest.plan_hash},
      {"user", manifest.user},       {"tensors", Json::object()},
      {"shards", Json::array()}};
  if (!manifest.operators.empty()) json["operators"] = manifest.operators;
  for (const auto& [name, tensor] : manifest.tensors) json["tensors"][name] = json_of(tensor);
  for (const Shard& shard : manifest.shards) json["shards"].push_back(json_of(shard));
  const std::string rest = text_of(json).substr(2) + "\n";
  return fmt::format("{}{:08x}{}{}", kBefore, crc32(rest), kBehind, rest);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  check_sum(text, path);
  const Json json = parse_json(text, path);
  const JsonPlace root(json, path);
  if (root.at("schema").text() != kSchema) root.at("schema").bad(quoted(kSchema));
  const std::int64_t version = integer_of(root.at("version"));
  require(version == kVersion,
          "{}: has version {}, this program reads version {}; use the one that wrote it", path,
          version, kVersion);
  Manifest manifest{.step = integer_of(root.at("step")),
                    .seed = seed_of(root.at("seed")),
                    .steps = integers_of(root.at("steps")),
                    .data = {},
                    .metrics = {},
                    .plan_hash = root.at("plan_hash").text(),
                    .user = {},
                    .operators = {},
                    .tensors = {},
                    .shards = {}};
  if (const std::int64_t first = manifest.steps.empty() ? 0 : manifest.steps[0];
      first != manifest.step)
    root.at("steps").refuse(fmt::format(
        "says that the first step has run {} times, but it is of step {}", first, manifest.step));
  if (!root.at("data").is_null()) manifest.data = data_of(root.at("data"), manifest.step);
  for (const auto& [name, place] : root.at("metrics").members())
    manifest.metrics[name] =
        place.is_null() ? std::numeric_limits<double>::quiet_NaN() : place.number();
  for (const auto& [key, place] : root.at("user").members()) manifest.user[key] = place.text();
  if (root.contains("operators"))
    for (const auto& [name, place] : root.at("operators").members())
      manifest.operators[name] = integer_of(place);
  std::set<std::string> files;
  for (const JsonPlace& place : root.at("shards").items()) {
    manifest.shards.push_back(shard_of(place));
    if (!files.insert(manifest.shards.back().file).second)
      place.at("file").bad("a file of its own");
  }
  for (const auto& [name, place] : root.at("tensors").members())
    manifest.tensors.emplace(name, tensor_of(place, manifest.shards));
  return manifest;
}

}  // namespace alpa::checkpoint
