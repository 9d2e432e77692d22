// src/base/attributes.cc — access to attributes by name and type
#include "alpa/base/attributes.h"

#include <algorithm>

#include "alpa/base/error.h"

namespace alpa {
namespace {

constexpr std::string_view kTypeNames[] = {
    "an integer", "a real", "a string", "an element type", "a list of integers", "a list of reals"};

template <class T>
const T& get(const Attribute* attribute, std::string_view name) {
  invariant(attribute != nullptr, "the node has no attribute '{}'", name);
  const T* value = std::get_if<T>(attribute);
  invariant(value != nullptr, "attribute '{}' is {}, read as {}", name,
            kTypeNames[attribute->index()], kTypeNames[Attribute(T{}).index()]);
  return *value;
}

}  // namespace

const Attributes::Items Attributes::kNone;

Attributes::Attributes(std::initializer_list<Items::value_type> items)
    : items_(std::make_shared<const Items>(items)) {}

bool Attributes::operator==(const Attributes& other) const {
  return items_ == other.items_ || items() == other.items();
}

const Attribute* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : items())
    if (key == name) return &value;
  return nullptr;
}

void Attributes::set(std::string name, Attribute value) {
  Items items = this->items();
  const auto old = std::find_if(items.begin(), items.end(),
                                [&](const Items::value_type& item) { return item.first == name; });
  if (old != items.end())
    old->second = std::move(value);
  else
    items.emplace_back(std::move(name), std::move(value));
  items_ = std::make_shared<const Items>(std::move(items));
}

std::int64_t Attributes::integer(std::string_view name) const {
  return get<std::int64_t>(find(name), name);
}
double Attributes::real(std::string_view name) const { return get<double>(find(name), name); }
const std::string& Attributes::string(std::string_view name) const {
  return get<std::string>(find(name), name);
}
DType Attributes::dtype(std::string_view name) const { return get<DType>(find(name), name); }
const std::vector<std::int64_t>& Attributes::integers(std::string_view name) const {
  return get<std::vector<std::int64_t>>(find(name), name);
}
const std::vector<double>& Attributes::reals(std::string_view name) const {
  return get<std::vector<double>>(find(name), name);
}

}  // namespace alpa
