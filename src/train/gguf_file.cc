// src/train/gguf_file.cc — reads and writes GGUF files
#include "src/train/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/file.h"
#include "src/base/json.h"

namespace alpa {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "GGUF is read where it is mapped");

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kVersion = 3;
constexpr std::uint64_t kAlignment = 32;        ///< of data, unless the file says otherwise
constexpr std::uint64_t kMostValues = 1 << 24;  ///< of metadata: 16 times the largest vocabulary
constexpr int kMostNested = 4;                  ///< lists within lists
constexpr std::uint32_t kMostDimensions = 4;    ///< of ggml's tensors
constexpr const char* kAlignmentKey = "general.alignment";

/// Types of metadata, by their number in files.
enum Kind : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kList,
  kU64,
  kI64,
  kF64
};

/// Reads the header, one value behind the other. Each mistake is an Error with its offset.
class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : file_(file), bytes_(file.bytes()) {}

  std::size_t offset() const { return at_; }
  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    fail("{}: at byte {}: {}", shown_path(file_.path()), at_,
         fmt::format(text, std::forward<Arguments>(arguments)...));
  }
  /// The next bytes.
  std::string_view take(std::uint64_t count, const std::string& what) {
    if (count > bytes_.size() - at_)
      refuse("the file is truncated: {} takes {} bytes, {} are left", what, count,
             bytes_.size() - at_);
    const char* const start = reinterpret_cast<const char*>(bytes_.data()) + at_;
    at_ += count;
    return {start, count};
  }
  template <class T>
  T number(const std::string& what) {
    T result;
    std::memcpy(&result, take(sizeof(T), what).data(), sizeof(T));
    return result;
  }
  std::string text(const std::string& what) {
    const auto length = number<std::uint64_t>(what);
    return std::string(take(length, what));
  }
  /// A value of metadata, of this kind.
  Json value(std::uint32_t kind, const std::string& what, int nested = 0) {
    if (++values_ > kMostValues) refuse("{}: metadata have over {} values", what, kMostValues);
    switch (kind) {
      case kU8: return number<std::uint8_t>(what);
      case kI8: return whole(number<std::int8_t>(what));
      case kU16: return number<std::uint16_t>(what);
      case kI16: return whole(number<std::int16_t>(what));
      case kU32: return number<std::uint32_t>(what);
      case kI32: return whole(number<std::int32_t>(what));
      case kF32: return finite(number<float>(what), what);
      case kBool: return number<std::uint8_t>(what) != 0;
      case kText: return text(what);
      case kList: return list(what, nested);
      case kU64: return number<std::uint64_t>(what);
      case kI64: return whole(number<std::int64_t>(what));
      case kF64: return finite(number<double>(what), what);
      default: refuse("{} is of the unknown type {}", what, kind);
    }
  }

 private:
  /// As JSON's own parser has it: unsigned from 0 on.
  static Json whole(std::int64_t number) {
    return number < 0 ? Json(number) : Json(static_cast<std::uint64_t>(number));
  }
  double finite(double number, const std::string& what) const {
    if (!std::isfinite(number)) refuse("{} is not a finite number", what);
    return number;
  }
  Json list(const std::string& what, int nested) {
    if (nested == kMostNested) refuse("{}: lists are nested over {} deep", what, kMostNested);
    const auto kind = number<std::uint32_t>(what);
    Json items = Json::array();
    for (auto count = number<std::uint64_t>(what); count > 0; --count)
      items.push_back(value(kind, what, nested + 1));
    return items;
  }

  const MappedFile& file_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::uint64_t values_ = 0;
};

void check_start(HeaderReader& reader) {
  if (const std::string magic(reader.take(kMagic.size(), "\"GGUF\"")); magic != kMagic)
    reader.refuse("is no GGUF file: it begins with \"{}\"", excerpt(magic));
  const auto version = reader.number<std::uint32_t>("the version");
  if (version != 2 && version != kVersion)
    reader.refuse("has version {}, but 2 and 3 are read, little endian; convert it anew", version);
}

/// Bytes of a tensor's data. Refuses shapes that no file holds.
std::uint64_t bytes_of(const HeaderReader& reader, const GgufTensor& tensor,
                       const std::string& what) {
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % tensor.type->elements != 0)
    reader.refuse("{}: rows of {} elements are no whole blocks of {}", what, row,
                  tensor.type->elements);
  std::uint64_t blocks = 1, bytes = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    if (__builtin_mul_overflow(blocks, static_cast<std::uint64_t>(tensor.shape[i]), &blocks))
      reader.refuse("{}: shape {} is too large", what, to_string(tensor.shape));
  if (__builtin_mul_overflow(blocks / static_cast<std::uint64_t>(tensor.type->elements),
                             static_cast<std::uint64_t>(tensor.type->bytes), &bytes))
    reader.refuse("{}: shape {} is too large", what, to_string(tensor.shape));
  return bytes;
}

/// A tensor's description, whose data are to be found at an offset behind the header.
struct Described {
  GgufTensor tensor;
  std::uint64_t offset = 0, bytes = 0;
};

Described read_description(HeaderReader& reader) {
  Described described;
  GgufTensor& tensor = described.tensor;
  tensor.name = reader.text("the name of a tensor");
  const std::string what = fmt::format("tensor \"{}\"", excerpt(tensor.name));
  const auto dimensions = reader.number<std::uint32_t>(what);
  if (dimensions > kMostDimensions)
    reader.refuse("{} has {} dimensions, over {}", what, dimensions, kMostDimensions);
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto extent = reader.number<std::uint64_t>(what);
    if (extent == 0 ||
        extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      reader.refuse("{} has an extent of {}", what, extent);
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(extent));
  }
  const auto type = reader.number<std::uint32_t>(what);
  tensor.type = gguf_type(type);
  if (tensor.type == nullptr)
    reader.refuse(
        "{} has element type {} of ggml, which alpa does not read; quantise the file "
        "anew, to Q8_0 or Q4_K_M",
        what, type);
  described.offset = reader.number<std::uint64_t>(what);
  described.bytes = bytes_of(reader, tensor, what);
  return described;
}

std::uint64_t padding(std::uint64_t bytes, std::uint64_t alignment) {
  return (alignment - bytes % alignment) % alignment;
}

/// Where data begin: at multiples of what the metadata say.
std::uint64_t alignment_of(const HeaderReader& reader, const Json& metadata) {
  if (!metadata.contains(kAlignmentKey)) return kAlignment;
  const Json& given = metadata.at(kAlignmentKey);
  const std::uint64_t alignment = given.is_number_unsigned() ? given.get<std::uint64_t>() : 0;
  if (!std::has_single_bit(alignment) || alignment > 1 << 20)
    reader.refuse("{} is {}, not a power of two", kAlignmentKey, shown(given));
  return alignment;
}

/// Finds the data of every tensor. Refuses offsets outside of the file.
std::vector<GgufTensor> placed(const MappedFile& file, HeaderReader& reader,
                               const std::vector<Described>& all, std::uint64_t alignment) {
  if (!all.empty()) reader.take(padding(reader.offset(), alignment), "the gap before the data");
  const auto data = file.bytes().subspan(reader.offset());
  std::vector<GgufTensor> tensors;
  for (const Described& described : all) {
    const auto& [tensor, offset, bytes] = described;
    if (offset % alignment != 0 || offset > data.size() || bytes > data.size() - offset)
      reader.refuse(
          "tensor \"{}\": its {} bytes at offset {} behind this are not in the file, or "
          "begin at no multiple of {}",
          excerpt(tensor.name), bytes, offset, alignment);
    tensors.push_back(tensor);
    tensors.back().data = data.data() + offset;
  }
  return tensors;
}

// ---- writing

template <class T>
void put(std::string& to, T number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& to, const std::string& text) {
  put(to, std::uint64_t{text.size()});
  to += text;
}

Kind kind_of(const nlohmann::ordered_json& value) {
  if (value.is_string()) return kText;
  if (value.is_boolean()) return kBool;
  if (value.is_array()) return kList;
  if (value.is_number_float()) return kF32;
  return value.is_number_unsigned() ? kU32 : kI32;
}

void put_value(std::string& to, const nlohmann::ordered_json& value, Kind kind) {
  switch (kind) {
    case kText: return put_text(to, value.get_ref<const std::string&>());
    case kBool: return put(to, static_cast<std::uint8_t>(value.get<bool>()));
    case kF32: return put(to, value.get<float>());
    case kU32: return put(to, value.get<std::uint32_t>());
    case kI32: return put(to, value.get<std::int32_t>());
    default: break;
  }
  // Numbers of a list may have both signs.
  const bool numbers = !value.empty() && value[0].is_number_integer();
  const Kind items = value.empty() ? kText : numbers ? kI32 : kind_of(value[0]);
  put(to, static_cast<std::uint32_t>(items));
  put(to, std::uint64_t{value.size()});
  for (const auto& item : value) put_value(to, item, items);
}

}  // namespace

Array GgufTensor::read() const {
  if (type->decode == nullptr) return Array::copy(data, {type->read_as, shape});
  Array floats(TensorType{f32, shape});
  const std::span<float> to = floats.mutable_elements_as<float>();
  const std::byte* block = data;
  for (std::size_t i = 0; i < to.size(); i += static_cast<std::size_t>(type->elements)) {
    type->decode(block, &to[i]);
    block += type->bytes;
  }
  return floats;
}

GgufFile::GgufFile(const std::string& path) : file_(path), metadata_(Json::object()) {
  HeaderReader reader(file_);
  check_start(reader);
  const auto tensors = reader.number<std::uint64_t>("the number of tensors"),
             keys = reader.number<std::uint64_t>("the number of keys");
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::string key = reader.text("a key");
    const std::string what = fmt::format("key \"{}\"", excerpt(key));
    const auto kind = reader.number<std::uint32_t>(what);
    if (!metadata_.emplace(key, reader.value(kind, what)).second)
      reader.refuse("{} is there twice", what);
  }
  std::vector<Described> described;
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::string& name = described.emplace_back(read_description(reader)).tensor.name;
    if (!names.insert(name).second) reader.refuse("tensor \"{}\" is there twice", excerpt(name));
  }
  tensors_ = placed(file_, reader, described, alignment_of(reader, metadata_));
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &GgufTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

bool is_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), 4) == 0;
}

bool is_gguf(const std::string& path) {
  std::error_code unreadable;  // is told by who opens it
  return std::filesystem::is_regular_file(path, unreadable) && is_gguf(MappedFile(path).bytes());
}

void write_gguf(const std::string& path, const nlohmann::ordered_json& metadata,
                const std::vector<GgufPart>& parts) {
  std::string header(kMagic);
  put(header, kVersion);
  put(header, std::uint64_t{parts.size()});
  put(header, std::uint64_t{metadata.size()});
  for (const auto& [key, value] : metadata.items()) {
    put_text(header, key);
    put(header, static_cast<std::uint32_t>(kind_of(value)));
    put_value(header, value, kind_of(value));
  }
  std::uint64_t offset = 0;
  for (const GgufPart& part : parts) {
    put_text(header, part.name);
    put(header, static_cast<std::uint32_t>(part.shape.size()));
    for (auto extent = part.shape.rbegin(); extent != part.shape.rend(); ++extent)
      put(header, static_cast<std::uint64_t>(*extent));
    put(header, part.type->number);
    put(header, offset);
    offset += part.bytes.size() + padding(part.bytes.size(), kAlignment);
  }
  header.append(padding(header.size(), kAlignment), '\0');
  static const std::string kZeros(kAlignment, '\0');
  std::vector<std::string_view> pieces = {header};
  for (const GgufPart& part : parts)
    pieces.insert(pieces.end(), {part.bytes, std::string_view(kZeros).substr(
                                                 0, padding(part.bytes.size(), kAlignment))});
  write_file(path, pieces);
}

}  // namespace alpa
