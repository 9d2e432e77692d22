// src/data/jinja_function.cc — calls of chat templates; items, members and methods of values
#include "src/data/jinja_function.h"

#include <algorithm>
#include <ctime>

#include "alpa/base/text.h"

namespace alpa::jinja {
namespace {

Value get(Call& c) {
  const Value* found = find_member(c.self.mapping()->members, c.arguments[0], c.work);
  return found != nullptr ? *found : c.given(1) ? c.arguments[1] : Value(nullptr);
}

Value values(Call& c) {
  List result;
  for (const auto& [name, value] : c.self.mapping()->members) result.push_back(value);
  return make_list(std::move(result), c.work);
}

constexpr Function kMappingMethods[] = {
    {"get", "key default", get},
    {"items", "", [](Call& c) { return find_filter("items")->body(c); }},
    {"keys", "", [](Call& c) { return make_list(items_of(c.self, c.work), c.work); }},
    {"values", "", values},
};

Value index_of_item(Call& c) {
  const List& items = c.self.sequence()->items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], c.arguments[0], c.work)) return static_cast<std::int64_t>(i);
  fail("index: the list has no such item");
}

Value count_items(Call& c) {
  const List& items = c.self.sequence()->items;
  return static_cast<std::int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& v) {
    return equal(v, c.arguments[0], c.work);
  }));
}

constexpr Function kListMethods[] = {{"index", "value", index_of_item},
                                     {"count", "value", count_items}};

Value range(Call& c) {
  const bool from = c.given(1);
  const std::int64_t begin = from ? c.whole(0, 0) : 0, end = c.whole(from ? 1 : 0, 0),
                     step = c.whole(2, 1);
  constexpr std::int64_t kMost = 100'000;  // as in Jinja's sandbox
  require(step != 0 && std::abs(begin) <= kMost && std::abs(end) <= kMost,
          "range: {} to {} in steps of {} is beyond {} items", begin, end, step, kMost);
  List result;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;
       i += std::clamp(step, -kMost, kMost) * 1)
    result.emplace_back(i);
  return make_list(std::move(result), c.work);
}

Value strftime_now(Call& c) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[256];
  return std::string(text, std::strftime(text, sizeof text, c.text(0).c_str(), &local));
}

Value make_namespace(Call& c) {
  c.work.take(c.named.size() * 64);
  return &c.work.namespaces.emplace_back(Namespace{std::move(c.named)});
}

Value raise_exception(Call& c) {
  fail("the template refuses the messages: {}", excerpt(text_of(c.arguments[0], c.work), 300));
}

constexpr Function kGlobals[] = {
    {"range", "start stop step", range},
    {"namespace", "*", make_namespace},
    {"dict", "*", [](Call& c) { return make_mapping(std::move(c.named), c.work); }},
    {"raise_exception", "message", raise_exception},
    {"strftime_now", "format", strftime_now},
};

/// Puts arguments by name where the parameters have them.
void bind(const Function& function, Call& c) {
  std::size_t number = 0;
  for (std::string_view rest = function.parameters; !rest.empty(); ++number) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (c.arguments.size() <= number) c.arguments.emplace_back();
    if (const Value* value = find_member(c.named, name, c.work)) c.arguments[number] = *value;
  }
  require(c.arguments.size() == number, "{} takes {} arguments, not {}", function.name, number,
          c.arguments.size());
  for (const auto& [given, value] : c.named)
    require((" " + std::string(function.parameters) + " ").find(" " + *given.text() + " ") !=
                std::string::npos,
            "{} has no argument '{}'; it has: {}", function.name, excerpt(*given.text()),
            function.parameters);
}

}  // namespace

const std::string& Call::text(std::size_t i) const {
  require(arguments.at(i).text() != nullptr, "argument {} is {}, not a text", i + 1,
          kind_of(arguments[i]));
  return *arguments[i].text();
}

std::int64_t Call::whole(std::size_t i, std::int64_t otherwise) const {
  if (!given(i) || arguments[i].as<std::nullptr_t>()) return otherwise;
  const auto number = whole_of(arguments[i]);
  require(number.has_value(), "argument {} is {}, not a whole number", i + 1,
          kind_of(arguments[i]));
  return *number;
}

const Function* find_global(std::string_view name) { return found_in(kGlobals, name); }

const Function* find_method(const Value& self, std::string_view name) {
  if (self.text() != nullptr) return find_text_method(name);
  if (self.mapping() != nullptr) return found_in(kMappingMethods, name);
  return self.sequence() != nullptr ? found_in(kListMethods, name) : nullptr;
}

Value call_function(const Function& function, const Value& self, List arguments, Members named,
                    Work& work) {
  Call c{self, std::move(arguments), std::move(named), work};
  if (function.parameters != "*") bind(function, c);
  return function.body(c);
}

std::optional<std::int64_t> whole_of(const Value& value) {
  if (const bool* truth = value.as<bool>()) return *truth ? 1 : 0;
  const auto* number = value.as<std::int64_t>();
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

Value item_of(const Value& value, const Value& key, Work& work) {
  require(!value.undefined(), "{} has no members", kind_of(value));
  const auto number = whole_of(key);
  if (value.sequence() != nullptr || value.text() != nullptr) {
    if (number.has_value()) {
      const List items = value.text() ? items_of(value, work) : List();
      const List& all = value.text() ? items : value.sequence()->items;
      const std::int64_t at = *number < 0 ? *number + std::ssize(all) : *number;
      return at >= 0 && at < std::ssize(all) ? all[static_cast<std::size_t>(at)] : Value();
    }
  }
  const Mapping* mapping = value.mapping();
  const auto* space = value.as<Namespace*>();
  if (mapping != nullptr || space != nullptr)
    if (const Value* member =
            find_member(mapping != nullptr ? mapping->members : (*space)->members, key, work))
      return *member;
  if (key.text() == nullptr) return Undefined{};
  if (const Function* method = find_method(value, *key.text()))
    return Callable{method, std::make_shared<const Value>(value)};
  return Undefined{std::make_shared<const std::string>(*key.text())};
}

Value attribute_of(const Value& value, const std::string& name, Work& work) {
  if (const Function* method = find_method(value, name))
    return Callable{method, std::make_shared<const Value>(value)};
  return item_of(value, name, work);
}

Value slice_of(const Value& value, const Value& first, const Value& last, const Value& step,
               Work& work) {
  require(value.text() != nullptr || value.sequence() != nullptr, "{} has no slices",
          kind_of(value));
  const List items = items_of(value, work);
  const auto bound = [](const Value& at, std::int64_t otherwise) {
    if (at.as<std::nullptr_t>()) return otherwise;
    const auto number = whole_of(at);
    require(number.has_value(), "a slice has {}, not a whole number", kind_of(at));
    return *number;
  };
  const std::int64_t size = std::ssize(items), by = bound(step, 1);
  require(by != 0, "a slice has steps of 0");
  const auto place = [&](const Value& at, std::int64_t otherwise) {
    const std::int64_t i = bound(at, otherwise);
    if (at.as<std::nullptr_t>()) return i;
    return std::clamp(i < 0 ? i + size : i, by > 0 ? std::int64_t{0} : -1,
                      by > 0 ? size : size - 1);
  };
  const std::int64_t begin = place(first, by > 0 ? 0 : size - 1),
                     end = place(last, by > 0 ? size : -1);
  const std::int64_t stride = std::clamp(by, -size - 1, size + 1);
  List chosen;
  for (std::int64_t i = begin; stride > 0 ? i < end : i > end; i += stride)
    chosen.push_back(items[static_cast<std::size_t>(i)]);
  if (value.sequence() != nullptr)
    return make_list(std::move(chosen), work, value.sequence()->tuple);
  TextMaker to{work};
  for (const Value& c : chosen) to.add(*c.text());
  return std::move(to.text);
}

bool contains(const Value& container, const Value& item, Work& work) {
  if (const std::string* text = container.text()) {
    require(item.text() != nullptr, "a text can't contain {}", kind_of(item));
    work.take(text->size() / 16 * (1 + item.text()->size() / 16));
    return text->find(*item.text()) != text->npos;
  }
  const List items = items_of(container, work);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& other) { return equal(other, item, work); });
}

}  // namespace alpa::jinja
