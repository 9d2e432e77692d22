#pragma once
/// StableHLO text as it is read: functions, blocks, operations. Plain data; values are numbered
/// through the whole module, each defined once.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/base/shape.h"

namespace alpa::stablehlo {

/// Where something is in the text, from 1 on.
struct TextPlace {
  int line = 1, column = 1;
};

/// Throws Error "StableHLO, line 3, column 7: …".
template <class... Args>
[[noreturn]] void fail_at(TextPlace place, fmt::format_string<Args...> format, Args&&... args) {
  fail("StableHLO, line {}, column {}: {}", place.line, place.column,
       fmt::format(format, std::forward<Args>(args)...));
}

/// A tensor type as the text has it: the element may be one that alpa lacks, such as i64.
struct Type {
  std::string element;  ///< "f32", "i1", "ui32"; other types whole, such as "!stablehlo.token"
  Shape shape;

  bool operator==(const Type&) const = default;
  bool is_empty() const { return std::ranges::count(shape, 0) > 0; }  ///< has no elements
  bool is_mask() const { return element == "i1"; }
  bool is_unsigned() const { return element == "ui32" || element == "ui64"; }
};

/// "4x8xf32"
std::string to_string(const Type& type);
/// alpa's type: i1 is u8 of 0 and 1, ui32 the same bits as i32. So is ui64 below 2^32, as jax's
/// random numbers count elements. Throws Error at `place` for others.
TensorType tensor_type(const Type& type, TextPlace place);

/// An attribute's value. Which members are set depends on how it is written.
struct Attribute {
  TextPlace place;
  std::string text;                                       ///< a word, string, symbol or type
  std::vector<double> numbers;                            ///< a number, list of numbers or `dense`
  std::vector<Attribute> items;                           ///< a list of anything else
  std::vector<std::pair<std::string, Attribute>> fields;  ///< a dictionary, or #dialect.name<…>
  Type type = {};                                         ///< of `dense`
};

struct Block;

/// "kind"(operands) <{attributes}> ({blocks}) : (…) -> results
struct Operation {
  std::string kind;
  TextPlace place;
  std::vector<int> operands, results;  ///< values
  std::vector<std::pair<std::string, Attribute>> attributes;
  std::vector<Block> blocks;  ///< one of each region

  /// nullptr: none
  const Attribute* find(std::string_view name) const;
  /// Throws Error that names operation and attribute if there is none.
  const Attribute& attribute(std::string_view name) const;
  /// A list of whole numbers. Throws Error as `attribute`, or if one is not whole.
  std::vector<std::int64_t> integers(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;  ///< one
};

/// The whole numbers of field `name` of an attribute such as #stablehlo.dot<…>; {}: none.
std::vector<std::int64_t> field(const Attribute& attribute, std::string_view name);
/// The attribute's numbers. Throws Error at its place if one is not whole.
std::vector<std::int64_t> whole_numbers(const Attribute& attribute);

struct Block {
  std::vector<int> arguments;
  std::vector<std::string> names;  ///< of arguments, from their locations; "": none
  std::vector<Operation> operations;
};

struct Module {
  std::vector<Type> types;  ///< by value
  Block body;               ///< owns all operations
  std::map<std::string, const Operation*, std::less<>> functions;
};

/// Reads generic StableHLO text. Throws Error with line and column.
Module parse_module(std::string_view text);

}  // namespace alpa::stablehlo
