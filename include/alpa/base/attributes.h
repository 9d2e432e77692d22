#pragma once
/// Attributes of a node: plain data in a fixed order, so that equality, hashing, printing and
/// parsing are written once.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "alpa/base/dtype.h"
#pragma GCC visibility push(default)

namespace alpa {

/// The value of an attribute of a node.
using Attribute = std::variant<std::int64_t, double, std::string, DType, std::vector<std::int64_t>,
                               std::vector<double>>;

/// A small list of (name, value), in the order in which the operator's builder wrote them. Copies
/// share the list: graphs are copied often.
class Attributes {
 public:
  using Items = std::vector<std::pair<std::string, Attribute>>;  ///< names and values

  Attributes() = default;
  Attributes(std::initializer_list<Items::value_type> items);

  bool operator==(const Attributes& other) const;
  /// whether `name` is set
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// All pairs, in order.
  const Items& items() const { return items_ ? *items_ : kNone; }
  void set(std::string name, Attribute value);  ///< sets or replaces `name`

  /// The value of attribute `name`. Throws Bug if it is absent or has another type.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;                                ///< as `integer`
  const std::string& string(std::string_view name) const;                  ///< as `integer`
  DType dtype(std::string_view name) const;                                ///< as `integer`
  const std::vector<std::int64_t>& integers(std::string_view name) const;  ///< as `integer`
  const std::vector<double>& reals(std::string_view name) const;           ///< as `integer`

 private:
  static const Items kNone;
  const Attribute* find(std::string_view name) const;
  std::shared_ptr<const Items> items_;  ///< null: none
};

/// `{equation="ik,kj->ij", axis=1, scale=0.5, to=bf16, dims=[0, 1], values=[0.5, 1.0]}`; "" when
/// there are none. Reals print with the shortest text that reads back to the same double and always
/// hold '.', 'e', "inf" or "nan"; an empty list of reals is `[.]`. Strings escape \", \\ and \n.
std::string to_string(const Attributes& attributes);

/// Inverse of `to_string(Attributes)`. Throws Error naming the position of the first bad character.
Attributes parse_attributes(std::string_view text);

}  // namespace alpa
#pragma GCC visibility pop
