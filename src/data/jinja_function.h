#pragma once
/// Filters, tests, methods and functions of chat templates.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/data/jinja_value.h"

namespace alpa::jinja {

/// A call: of a filter or method on `self`, of a test of it.
struct Call {
  const Value& self;
  List arguments;  ///< by the function's parameters, undefined where none is given
  Members named;   ///< only of functions whose parameters are "*"
  Work& work;

  bool given(std::size_t i) const { return i < arguments.size() && !arguments[i].undefined(); }
  /// Throws Error unless argument i is a text.
  const std::string& text(std::size_t i) const;
  /// Throws Error unless argument i is a whole number, or absent.
  std::int64_t whole(std::size_t i, std::int64_t otherwise) const;
  /// True if argument i is given and true.
  bool is_set(std::size_t i) const { return given(i) && is_true(arguments[i]); }
};

struct Function {
  std::string_view name, parameters;  ///< "sep maxsplit"; "*": any
  Value (*body)(Call& call);
};

/// The row of this name; null if there is none, also in the functions below.
template <std::size_t n>
const Function* found_in(const Function (&table)[n], std::string_view name) {
  for (const Function& function : table)
    if (function.name == name) return &function;
  return nullptr;
}
const Function* find_filter(std::string_view name);
const Function* find_test(std::string_view name);
const Function* find_global(std::string_view name);
const Function* find_method(const Value& self, std::string_view name);
/// Methods of texts, of which most are filters as well.
const Function* find_text_method(std::string_view name);
/// Jinja's filter: large letters begin words, behind white space and - ( { [ <.
Value title_words(Call& c);

/// Throws Error for arguments that the function lacks.
Value call_function(const Function& function, const Value& self, List arguments, Members named,
                    Work& work);

/// value[key] of Jinja: an item, a member or else a method; undefined if there is none of them.
Value item_of(const Value& value, const Value& key, Work& work);
/// value.name of Jinja: as `item_of`, methods first.
Value attribute_of(const Value& value, const std::string& name, Work& work);
/// value[first:last:step]; each is a whole number or none.
Value slice_of(const Value& value, const Value& first, const Value& last, const Value& step,
               Work& work);
/// True if `item` is one of the items of `container`, or a part of it if that is a text.
bool contains(const Value& container, const Value& item, Work& work);
/// The whole number; none if the value is something else.
std::optional<std::int64_t> whole_of(const Value& value);

}  // namespace alpa::jinja
