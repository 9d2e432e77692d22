// src/import/attribute.cc — values of attributes: numbers, lists, dense arrays, #dialect.name<…>
#include <algorithm>
#include <bit>
#include <cmath>

#include "alpa/base/text.h"
#include "src/base/half.h"
#include "src/import/reader.h"

namespace alpa::stablehlo {
namespace {

std::size_t bytes_of(std::string_view element) {
  if (element == "i1" || element.ends_with("i8")) return 1;
  if (element.ends_with("16")) return 2;
  if (element.ends_with("64")) return 8;
  return 4;
}

/// The number that a hexadecimal literal or an element of a blob stands for.
double from_bits(std::string_view element, std::uint64_t bits) {
  if (element == "f32") return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (element == "f64") return std::bit_cast<double>(bits);
  if (element == "bf16") return std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16));
  if (element == "f16") return to_float(F16{static_cast<std::uint16_t>(bits)});
  if (element == "i32") return static_cast<std::int32_t>(bits);
  if (element == "i64") return static_cast<double>(static_cast<std::int64_t>(bits));
  return static_cast<double>(bits);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// "0x0000803F…": the elements' bytes, lowest first.
std::vector<double> from_blob(const std::string& blob, std::string_view element, TextPlace place) {
  const std::size_t bytes = bytes_of(element), digits = 2 * bytes;
  if (!blob.starts_with("0x") || (blob.size() - 2) % digits != 0)
    fail_at(place, "dense<\"…\"> is no hexadecimal array of {}", excerpt(element));
  std::vector<double> numbers;
  numbers.reserve((blob.size() - 2) / digits);
  for (std::size_t at = 2; at < blob.size(); at += digits) {
    std::uint64_t bits = 0;
    for (std::size_t byte = 0; byte < bytes; ++byte) {
      const int high = hex_digit(blob[at + 2 * byte]), low = hex_digit(blob[at + 2 * byte + 1]);
      if (high < 0 || low < 0) fail_at(place, "dense<\"…\"> has a character that is no digit");
      bits |= static_cast<std::uint64_t>(high * 16 + low) << (8 * byte);
    }
    numbers.push_back(from_bits(element, bits));
  }
  return numbers;
}

/// Numbers in nested brackets. `hexadecimal` has the positions of those that are bits.
void read_numbers(Reader& reader, std::vector<double>& numbers,
                  std::vector<std::size_t>& hexadecimal) {
  const Reader::Nested nested(reader);
  if (!reader.take("[")) {
    if (reader.sees("0x") || reader.sees("0X")) hexadecimal.push_back(numbers.size());
    numbers.push_back(reader.number());
    return;
  }
  if (reader.take("]")) return;
  do read_numbers(reader, numbers, hexadecimal);
  while (reader.take(","));
  reader.expect("]");
}

void read_dense(Reader& reader, Attribute& found) {
  std::string blob;
  std::vector<std::size_t> hexadecimal;
  if (reader.sees("\""))
    blob = reader.quoted();
  else if (!reader.sees(">"))
    read_numbers(reader, found.numbers, hexadecimal);
  reader.expect(">");
  reader.expect(":");
  found.type = read_type(reader);
  if (!blob.empty()) found.numbers = from_blob(blob, found.type.element, found.place);
  for (std::size_t at : hexadecimal)
    found.numbers[at] =
        from_bits(found.type.element, std::bit_cast<std::uint64_t>(found.numbers[at]));
  const std::int64_t elements = num_elements(found.type.shape);
  if (found.numbers.size() != 1 && static_cast<std::int64_t>(found.numbers.size()) != elements)
    fail_at(found.place, "dense<…> has {} elements, but its type is {}", found.numbers.size(),
            to_string(found.type));
}

/// array<i64: 1, 2>
void read_array(Reader& reader, Attribute& found) {
  reader.word();
  if (reader.take(":")) {
    do found.numbers.push_back(reader.number());
    while (reader.take(","));
  }
  reader.expect(">");
}

/// [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]
void read_convolution(Reader& reader, Attribute& found) {
  for (const char* name : {"input", "kernel", "output"}) {
    Attribute dims{.place = reader.place(), .text = {}, .numbers = {}, .items = {}, .fields = {}};
    reader.expect("[");
    do dims.text += std::string(reader.word("?")) + " ";
    while (reader.take(","));
    reader.expect("]");
    found.fields.emplace_back(name, std::move(dims));
    if (!reader.take("x")) reader.take("->");
  }
  reader.expect(">");
}

/// Behind '#': stablehlo.dot<fields>, stablehlo<comparison_direction LT>, or an alias.
void read_dialect(Reader& reader, Attribute& found) {
  const std::string name(reader.word());
  found.text = name;
  if (!reader.take("<")) return;
  if (name.ends_with(".conv")) return read_convolution(reader, found);
  if (name.find('.') != std::string::npos && name.starts_with("stablehlo")) {
    found.fields = read_fields(reader, ">");
    return;
  }
  const std::string_view inside = reader.balanced('<', '>');
  found.text = std::string(inside.substr(inside.find_last_of(' ') + 1));
}

/// A list: its numbers together if it has nothing else.
void read_list(Reader& reader, Attribute& found) {
  if (reader.take("]")) return;
  do found.items.push_back(read_attribute(reader));
  while (reader.take(","));
  reader.expect("]");
  const auto is_number = [](const Attribute& a) { return a.numbers.size() == 1 && a.text.empty(); };
  if (!std::ranges::all_of(found.items, is_number)) return;
  for (const Attribute& item : found.items) found.numbers.push_back(item.numbers[0]);
  found.items.clear();
}

/// (…) -> … of functions, which their blocks say again.
void skip_function_type(Reader& reader) {
  reader.balanced('(', ')');
  reader.expect("->");
  if (reader.take("("))
    reader.balanced('(', ')');
  else
    read_type(reader);
}

}  // namespace

std::vector<std::pair<std::string, Attribute>> read_fields(Reader& reader, std::string_view close) {
  std::vector<std::pair<std::string, Attribute>> fields;
  if (reader.take(close)) return fields;
  do {
    std::string name = reader.sees("\"") ? reader.quoted() : std::string(reader.word());
    if (name.empty()) reader.fail_here("the name of an attribute");
    Attribute value{.place = reader.place(), .text = {}, .numbers = {}, .items = {}, .fields = {}};
    if (reader.take("=")) value = read_attribute(reader);
    fields.emplace_back(std::move(name), std::move(value));
  } while (reader.take(","));
  reader.expect(close);
  return fields;
}

Attribute read_attribute(Reader& reader) {
  const Reader::Nested nested(reader);
  Attribute found{.place = reader.place(), .text = {}, .numbers = {}, .items = {}, .fields = {}};
  const auto is_digit = [&] {
    static constexpr const char* kStarts[] = {"-", "0", "1", "2", "3",    "4",    "5",
                                              "6", "7", "8", "9", "true", "false"};
    return std::ranges::any_of(kStarts, [&](const char* c) { return reader.sees(c); });
  };
  if (reader.take("dense<")) {
    read_dense(reader, found);
  } else if (reader.take("array<")) {
    read_array(reader, found);
  } else if (reader.take("[")) {
    read_list(reader, found);
  } else if (reader.take("{")) {
    found.fields = read_fields(reader, "}");
  } else if (reader.take("(")) {
    skip_function_type(reader);
  } else if (reader.sees("\"")) {
    found.text = reader.quoted();
  } else if (reader.take("@")) {
    found.text = reader.sees("\"") ? reader.quoted() : std::string(reader.word());
  } else if (reader.take("#")) {
    read_dialect(reader, found);
  } else if (is_digit()) {
    found.numbers.push_back(reader.number());
    if (reader.take(":")) found.type = read_type(reader);
  } else {
    found.type = read_type(reader);
  }
  return found;
}

std::vector<std::int64_t> whole_numbers(const Attribute& attribute) {
  std::vector<std::int64_t> found;
  for (double number : attribute.numbers) {
    if (number != std::floor(number) || std::abs(number) > 9e15)
      fail_at(attribute.place, "{} is no whole number", number);
    found.push_back(static_cast<std::int64_t>(number));
  }
  return found;
}

std::vector<std::int64_t> field(const Attribute& attribute, std::string_view name) {
  for (const auto& [key, value] : attribute.fields)
    if (key == name) return whole_numbers(value);
  return {};
}

const Attribute* Operation::find(std::string_view name) const {
  for (const auto& [key, value] : attributes)
    if (key == name) return &value;
  return nullptr;
}

const Attribute& Operation::attribute(std::string_view name) const {
  const Attribute* const found = find(name);
  if (!found) fail_at(place, "\"{}\" has no attribute {}", excerpt(kind), name);
  return *found;
}

std::vector<std::int64_t> Operation::integers(std::string_view name) const {
  return whole_numbers(attribute(name));
}

std::int64_t Operation::integer(std::string_view name) const {
  const std::vector<std::int64_t> found = integers(name);
  if (found.size() != 1) fail_at(place, "\"{}\": {} is not one number", excerpt(kind), name);
  return found[0];
}

std::string to_string(const Type& type) {
  std::string text;
  for (std::int64_t extent : type.shape) text += std::to_string(extent) + "x";
  return text + excerpt(type.element);
}

TensorType tensor_type(const Type& type, TextPlace place) {
  const std::string& element = type.element;
  const auto converted = [&]() -> DType {
    if (element == "i1" || element == "ui8") return u8;
    if (element == "ui32" || element == "ui64") return i32;
    for (DType known : {f32, f64, bf16, f16, i32})
      if (element == name_of(known)) return known;
    fail_at(
        place,
        "elements of type {} ({}): alpa has f32, f64, bf16, f16, i32, ui32, ui8 and i1; convert "
        "to one of them in the jax function, and leave jax_enable_x64 off",
        excerpt(element), to_string(type));
  };
  TensorType found{converted(), type.shape};
  check_type(found, fmt::format("StableHLO, line {}: a tensor", place.line));
  return found;
}

}  // namespace alpa::stablehlo
