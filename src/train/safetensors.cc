// src/train/safetensors.cc — reads safetensors and GGUF files, and writes safetensors files
#include "alpa/train/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <ranges>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/base/mapped_file.h"
#include "src/train/gguf_weights.h"
#include "src/train/safetensors_header.h"

namespace alpa {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
/// As the format's own library.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr const char* kMetadata = "__metadata__";
constexpr FileKind kIndexFile{"", 100'000'000};

/// An element type of the format.
struct ElementType {
  const char* name;
  std::int64_t bytes;
  std::optional<DType> read_as;  ///< none: alpa has no such type
};

constexpr ElementType kElementTypes[] = {
    {"F64", 8, f64}, {"F32", 4, f32}, {"BF16", 2, bf16}, {"F16", 2, f16},    {"I64", 8, i32},
    {"I32", 4, i32}, {"U8", 1, u8},   {"BOOL", 1, u8},   {"I16", 2, {}},     {"I8", 1, {}},
    {"U16", 2, {}},  {"U32", 4, {}},  {"U64", 8, {}},    {"F8_E5M2", 1, {}}, {"F8_E4M3", 1, {}}};

/// A tensor's place in its file.
struct Entry {
  const ElementType* element = nullptr;
  Shape shape = {};
  std::uint64_t begin = 0, end = 0;  ///< after the header
  const std::byte* data = nullptr;
  const GgufWeight* gguf = nullptr;  ///< of a GGUF file, instead of all above
};

using Entries = std::map<std::string, Entry>;

const ElementType* element_type(const std::string& name) {
  const auto found = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                  [&](const ElementType& type) { return name == type.name; });
  return found == std::end(kElementTypes) ? nullptr : found;
}

std::uint64_t read_length(const MappedFile& file) {
  const auto bytes = file.bytes();
  require(bytes.size() >= kLengthBytes,
          "{}: is truncated, or no safetensors file: it has {} bytes, the length of the header "
          "alone takes {}",
          file.path(), bytes.size(), kLengthBytes);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  require(length <= kMaxHeaderBytes,
          "{}: is no safetensors file, or its header is too large: its first {} bytes announce a "
          "header of {} bytes, and at most {} are read",
          file.path(), kLengthBytes, length, kMaxHeaderBytes);
  require(length <= bytes.size() - kLengthBytes,
          "{}: is truncated: its header alone takes {} bytes, the file has {}", file.path(),
          kLengthBytes + length, bytes.size());
  return length;
}

/// A list of numbers from 0.
std::optional<std::vector<std::uint64_t>> read_numbers(const Json& list) {
  if (!list.is_array()) return {};
  std::vector<std::uint64_t> numbers;
  for (const Json& number : list) {
    if (!number.is_number_unsigned()) return {};
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

/// Bytes of the elements, or none if they are more than a file can hold.
std::optional<std::uint64_t> bytes_of(const Entry& entry) {
  std::uint64_t bytes = static_cast<std::uint64_t>(entry.element->bytes);
  for (std::int64_t extent : entry.shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return {};
  return bytes;
}

Entry read_entry(const Json& json, const std::string& title) {
  require(json.is_object() && json.contains("dtype") && json.at("dtype").is_string() &&
              json.contains("shape") && json.contains("data_offsets"),
          "{}: needs \"dtype\", \"shape\" and \"data_offsets\", but is {}", title, shown(json));
  Entry entry;
  entry.element = element_type(json.at("dtype").get<std::string>());
  require(entry.element != nullptr, "{}: has the unknown element type {}", title,
          shown(json.at("dtype")));
  const auto shape = read_numbers(json.at("shape")),
             offsets = read_numbers(json.at("data_offsets"));
  require(shape.has_value(), "{}: its shape is {}, not a list of extents", title,
          shown(json.at("shape")));
  for (std::uint64_t extent : *shape) {
    require(extent <= std::numeric_limits<std::int64_t>::max(), "{}: has an extent of {}", title,
            extent);
    entry.shape.push_back(static_cast<std::int64_t>(extent));
  }
  require(offsets && offsets->size() == 2 && (*offsets)[0] <= (*offsets)[1],
          "{}: its data_offsets are {}; expected [begin, end]", title,
          shown(json.at("data_offsets")));
  entry.begin = (*offsets)[0], entry.end = (*offsets)[1];
  require(bytes_of(entry) == entry.end - entry.begin,
          "{}: is {} of shape {}, which does not take the {} bytes of its data_offsets", title,
          entry.element->name, to_string(entry.shape), entry.end - entry.begin);
  return entry;
}

/// Throws Error unless the tensors fill the data, one behind the other. `before`: bytes of the file
/// before the data.
void check_filled(const Entries& entries, std::uint64_t before, std::uint64_t data_bytes,
                  const std::string& path) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
  for (const auto& [name, entry] : entries) parts.emplace_back(entry.begin, entry.end);
  std::sort(parts.begin(), parts.end());
  std::uint64_t end = 0;
  for (const auto& part : parts) {
    require(part.first == end,
            "{}: the file is damaged: a tensor begins at byte {}, the one before ends at {}", path,
            part.first, end);
    end = part.second;
  }
  require(end <= data_bytes,
          "{}: is truncated: its header and tensors take {} bytes, the file has {}", path,
          before + end, before + data_bytes);
  require(end == data_bytes,
          "{}: the file is damaged: it holds {} bytes of data, its tensors take {}", path,
          data_bytes, end);
}

}  // namespace

struct TensorFile::Impl {
  explicit Impl(const std::string& opened) : path(opened) {
    if (is_gguf(path))
      open_gguf();
    else if (path.ends_with(".json"))
      open_index();
    else
      open(path);
  }

  /// Adds the tensors of a file.
  void open(const std::string& file_path) {
    const MappedFile& file = files.emplace_back(file_path);
    const std::uint64_t length = read_length(file);
    const auto data = file.bytes().subspan(kLengthBytes + length);
    const char* text = reinterpret_cast<const char*>(file.bytes().data()) + kLengthBytes;
    const Json header = parse_json(std::string(text, length), file_path + ": its header");
    require(header.is_object(), "{}: its header is {}, not an object", file_path, shown(header));
    Entries own;
    for (const auto& [name, json] : header.items()) {
      const std::string title = fmt::format("{}: \"{}\"", file_path, excerpt(name));
      if (name == kMetadata)
        read_metadata(json, title);
      else
        own.emplace(name, read_entry(json, title));
    }
    check_filled(own, kLengthBytes + length, data.size(), file_path);
    for (auto& [name, entry] : own) {
      entry.data = data.data() + entry.begin;
      require(entries.emplace(name, entry).second, "{}: tensor \"{}\" is in another file too",
              file_path, excerpt(name));
    }
  }

  /// Adds the tensors of a GGUF file, and its metadata that are text.
  void open_gguf() {
    gguf.emplace(path);
    gguf_names = gguf_weights(*gguf);
    for (const GgufWeight& weight : gguf_names)
      require(entries.emplace(weight.name, Entry{.gguf = &weight}).second,
              "{}: two tensors are \"{}\"", path, excerpt(weight.name));
    for (const auto& [key, value] : gguf->metadata().items())
      if (value.is_string()) metadata[key] = value.get<std::string>();
  }

  void read_metadata(const Json& json, const std::string& title) {
    require(json.is_object(), "{}: is {}, not an object", title, shown(json));
    for (const auto& [key, value] : json.items()) {
      require(value.is_string(), "{}: \"{}\" is {}, not a text", title, excerpt(key), shown(value));
      metadata[key] = value.get<std::string>();
    }
  }

  /// Opens every file that the index names, each once.
  void open_index() {
    const Json index = parse_json(read_file(path, kIndexFile), path);
    require(index.is_object() && index.contains("weight_map") && index.at("weight_map").is_object(),
            "{}: has no \"weight_map\"; give a safetensors file or the index of several", path);
    std::vector<std::string> names;
    for (const auto& [tensor, file] : index.at("weight_map").items()) {
      require(file.is_string(), "{}: the file of \"{}\" is {}", path, excerpt(tensor), shown(file));
      names.push_back(file.get<std::string>());
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    const std::string folder = path.substr(0, path.find_last_of('/') + 1);
    for (const std::string& name : names) open(folder + name);
    for (const auto& [tensor, file] : index.at("weight_map").items())
      require(entries.count(tensor) > 0, "{}: \"{}\" is in none of the files", path,
              excerpt(tensor));
  }

  const Entry& known(const std::string& name) const {
    const auto found = entries.find(name);
    if (found != entries.end()) return found->second;
    fail("{}: has no tensor \"{}\"; it has {}", path, excerpt(name),
         quoted_names(entries | std::views::keys, 8));
  }

  TensorType type(const std::string& name) const {
    const Entry& entry = known(name);
    if (entry.gguf != nullptr) return entry.gguf->type;
    require(entry.element->read_as.has_value(),
            "{}: \"{}\" has element type {}, which alpa does not have; convert the file", path,
            excerpt(name), entry.element->name);
    return {*entry.element->read_as, entry.shape};
  }

  std::string path;
  std::vector<MappedFile> files;
  std::optional<GgufFile> gguf;
  std::vector<GgufWeight> gguf_names;
  Entries entries;
  std::map<std::string, std::string> metadata;
};

TensorFile::TensorFile(const std::string& path) : impl_(std::make_shared<const Impl>(path)) {}

const std::string& TensorFile::path() const { return impl_->path; }

const std::map<std::string, std::string>& TensorFile::metadata() const { return impl_->metadata; }

std::vector<std::string> TensorFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : impl_->entries) names.push_back(name);
  return names;
}

bool TensorFile::contains(const std::string& name) const { return impl_->entries.count(name) > 0; }

TensorType TensorFile::type(const std::string& name) const { return impl_->type(name); }

std::optional<TensorType> TensorFile::blocks_type(const std::string& name) const {
  const Entry& entry = impl_->known(name);
  return entry.gguf == nullptr ? std::nullopt : entry.gguf->blocks_type;
}

Array TensorFile::blocks(const std::string& name) const {
  require(blocks_type(name).has_value(), "{}: \"{}\" is no matrix in blocks of Q8_0, Q4_0 or Q4_1",
          impl_->path, excerpt(name));
  return impl_->known(name).gguf->blocks();
}

Array TensorFile::operator[](const std::string& name) const {
  const Entry& entry = impl_->known(name);
  if (entry.gguf != nullptr) return entry.gguf->read();
  Array array(type(name));
  if (entry.element->bytes == static_cast<std::int64_t>(size_of(array.dtype()))) {
    if (array.bytes() > 0) std::memcpy(array.mutable_data(), entry.data, array.bytes());
    return array;
  }
  std::size_t i = 0;
  for (std::int32_t& element : array.mutable_elements_as<std::int32_t>()) {
    std::int64_t wide = 0;
    std::memcpy(&wide, entry.data + sizeof wide * i, sizeof wide);
    require(std::in_range<std::int32_t>(wide),
            "{}: element {} of \"{}\" is {}; integers of alpa have 32 bits", impl_->path, i,
            excerpt(name), wide);
    element = static_cast<std::int32_t>(wide);
    ++i;
  }
  return array;
}

const char* safetensors_type(DType dtype) {
  for (const ElementType& type : kElementTypes)
    if (type.read_as == dtype && type.bytes == static_cast<std::int64_t>(size_of(dtype)))
      return type.name;
  bug("safetensors has no element type {}", name_of(dtype));
}

std::string safetensors_header(const std::vector<HeaderEntry>& tensors,
                               const std::map<std::string, std::string>& metadata,
                               std::size_t alignment) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::int64_t end = 0;
  for (const HeaderEntry& tensor : tensors) {
    const std::int64_t begin = std::exchange(end, end + tensor.bytes);
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = json_text(header);  // names are any bytes
  text.resize((text.size() + kLengthBytes + alignment - 1) / alignment * alignment - kLengthBytes,
              ' ');
  std::string start;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    start += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return start + text;
}

void write_safetensors(const std::string& path, const std::map<std::string, Array>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<HeaderEntry> entries;
  for (const auto& [name, array] : tensors) {
    require(name != kMetadata, "{}: a tensor can't be called \"{}\"", path, kMetadata);
    entries.push_back({name, safetensors_type(array.dtype()), array.shape(), array.bytes()});
  }
  const std::string header = safetensors_header(entries, metadata);
  std::vector<std::string_view> parts = {header};
  for (const auto& [name, array] : tensors)
    parts.emplace_back(reinterpret_cast<const char*>(array.data()), array.bytes());
  write_file(path, parts);
}

}  // namespace alpa
