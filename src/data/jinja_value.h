#pragma once
/// Values of chat templates: those of Python as far as Jinja templates use them. Lists and mappings
/// never change once made, as in transformers' sandbox; namespaces do. All texts are UTF-8.
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "alpa/base/error.h"

namespace alpa::jinja {

struct Value;
struct Sequence;
struct Mapping;
struct Macro;
struct Function;
using List = std::vector<Value>;
using Members = std::vector<std::pair<Value, Value>>;  ///< by keys: texts, numbers, truths
using Text = std::shared_ptr<const std::string>;

/// A name or member without a value; `name` is how messages call it.
struct Undefined {
  Text name;
};

/// A function, or a method with its object.
struct Callable {
  const Function* function;
  std::shared_ptr<const Value> self;
};

/// namespace(): the one value that changes.
struct Namespace {
  Members members;
};

using AnyValue = std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, Text,
                              std::shared_ptr<const Sequence>, std::shared_ptr<const Mapping>,
                              Callable, const Macro*, Namespace*>;
struct Value : AnyValue {
  using AnyValue::AnyValue;
  Value(std::string text) : AnyValue(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}

  template <class T>
  const T* as() const {
    return std::get_if<T>(static_cast<const AnyValue*>(this));
  }
  const std::string* text() const { return as<Text>() ? as<Text>()->get() : nullptr; }
  const Sequence* sequence() const;
  const Mapping* mapping() const;
  bool undefined() const { return as<Undefined>() != nullptr; }
};

/// A render's budget: a unit is about a byte made or read, or a sixteenth of a step.
/// It owns what lives until the render ends.
struct Work {
  std::int64_t left = std::int64_t{1} << 28;
  std::deque<Namespace> namespaces;

  /// Throws Error once all is used.
  void take(std::size_t units);
};

/// Makes a text; whatever is added is work.
struct TextMaker {
  Work& work;
  std::string text = {};

  void add(std::string_view part) {
    work.take(part.size());
    text += part;
  }
};

/// A list or tuple; `depth` is one more than that of its deepest item.
struct Sequence {
  List items;
  bool tuple = false;
  int depth = 1;
};

struct Mapping {
  Members members;
  int depth = 1;
};

/// Both throw Error if lists and mappings are nested too deep.
Value make_list(List items, Work& work, bool tuple = false);
Value make_mapping(Members members, Work& work);

/// "a text", "a list": for messages.
std::string kind_of(const Value& value);
bool is_true(const Value& value);
bool equal(const Value& a, const Value& b, Work& work);
/// Throws Error if they have no order.
bool less(const Value& a, const Value& b, Work& work);
/// Null if there is none of this key.
const Value* find_member(const Members& members, const Value& key, Work& work);
/// In the place of the value that the key has, else at the end.
void set_member(Members& members, const Value& key, Value value, Work& work);
/// The values a loop takes: items, keys of members, or characters. Throws Error for other values.
List items_of(const Value& value, Work& work);
/// As Python's str() has it. Throws Error for functions and namespaces.
std::string text_of(const Value& value, Work& work);

/// How `to_json` writes, as json.dumps of Python.
struct JsonStyle {
  std::string item_separator = ", ", key_separator = ": ";
  int indent = -1;  ///< spaces per level; negative: all on one line
  bool sort_keys = false, ascii = false;
};
/// Throws Error for what JSON lacks, such as undefined values.
std::string to_json(const Value& value, const JsonStyle& style, Work& work);

/// Characters of UTF-8, each as its bytes.
std::vector<std::string_view> characters(std::string_view text);
std::uint32_t code_point(std::string_view character);
std::string utf8_of(std::uint32_t code_point);
/// Bytes of the white space, in Python's sense, at the start or the end.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);

}  // namespace alpa::jinja
