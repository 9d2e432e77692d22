// src/data/jinja_run.cc — runs the tree of a chat template
#include "src/data/jinja_run.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "alpa/base/text.h"
#include "src/data/jinja_function.h"

namespace alpa::jinja {

namespace {

/// Variables; those around it are seen, too.
struct Scope {
  const Scope* around;
  std::vector<std::pair<std::string_view, Value>> names = {};
};

}  // namespace

/// A macro where it was written. It lives, as its scope does, until the render ends.
struct Macro {
  const Node& node;
  const Scope* scope;
};

namespace {

constexpr int kMaxRunDepth = 600;  ///< of parts of the tree that are being run
constexpr std::size_t kStepUnits = 16;

enum class Flow { next, leave, again };

/// An arithmetic operation on whole numbers as in Python; none if it overflows.
std::optional<std::int64_t> whole_arithmetic(const std::string& sign, std::int64_t a,
                                             std::int64_t b) {
  std::int64_t result = 0;
  if (sign == "+" && !__builtin_add_overflow(a, b, &result)) return result;
  if (sign == "-" && !__builtin_sub_overflow(a, b, &result)) return result;
  if (sign == "*" && !__builtin_mul_overflow(a, b, &result)) return result;
  if ((sign == "//" || sign == "%") && b != 0 && (a != INT64_MIN || b != -1)) {
    const std::int64_t rest = a % b, down = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
    return sign == "%" ? rest + down * b : a / b - down;
  }
  if (sign != "**" || b < 0) return std::nullopt;
  for (result = 1; b > 0; --b) {
    if (__builtin_mul_overflow(result, a, &result)) return std::nullopt;
    if (result == a && (a == 0 || a == 1)) break;
    if (a == -1) return b % 2 == 0 ? 1 : -1;
  }
  return result;
}

double real_arithmetic(const std::string& sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  require(b != 0, "a division by zero");
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::optional<double> real_number(const Value& value) {
  if (const double* real = value.as<double>()) return *real;
  const auto whole = whole_of(value);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

Value repeated(const Value& value, std::int64_t times, Work& work) {
  if (value.text() != nullptr) {
    TextMaker to{work};
    for (std::int64_t i = 0; i < times && !value.text()->empty(); ++i) to.add(*value.text());
    return std::move(to.text);
  }
  List items;
  const List& all = value.sequence()->items;
  for (std::int64_t i = 0; i < times && !all.empty(); ++i) {
    work.take(all.size() * 64);
    items.insert(items.end(), all.begin(), all.end());
  }
  return make_list(std::move(items), work, value.sequence()->tuple);
}

Value arithmetic(const std::string& sign, const Value& a, const Value& b, Work& work) {
  if (sign == "~") {
    TextMaker to{work, text_of(a, work)};
    to.add(text_of(b, work));
    return std::move(to.text);
  }
  const auto m = whole_of(a), n = whole_of(b);
  if (m && n && sign != "/" && (sign != "**" || *n >= 0)) {
    require((sign != "//" && sign != "%") || *n != 0, "a division by zero");
    const auto result = whole_arithmetic(sign, *m, *n);
    require(result.has_value(), "{} {} {} is beyond 64 bits", *m, sign, *n);
    return *result;
  }
  if (const auto x = real_number(a), y = real_number(b); x && y)
    return real_arithmetic(sign, *x, *y);
  if (sign == "+" && a.text() != nullptr && b.text() != nullptr) {
    TextMaker to{work, *a.text()};
    work.take(a.text()->size());
    to.add(*b.text());
    return std::move(to.text);
  }
  if (sign == "+" && a.sequence() != nullptr && b.sequence() != nullptr) {
    List items = items_of(a, work);
    for (const Value& item : items_of(b, work)) items.push_back(item);
    return make_list(std::move(items), work, a.sequence()->tuple);
  }
  const auto repeats = [](const Value& v) {
    return v.text() != nullptr || v.sequence() != nullptr;
  };
  if (sign == "*" && repeats(a) && n) return repeated(a, *n, work);
  if (sign == "*" && repeats(b) && m) return repeated(b, *m, work);
  fail("{} {} {} is nothing; {}", kind_of(a), sign, kind_of(b),
       sign == "+" ? "write ~ between what shall be text" : "check the values");
}

bool compares(const std::string& sign, const Value& a, const Value& b, Work& work) {
  if (sign == "==") return equal(a, b, work);
  if (sign == "!=") return !equal(a, b, work);
  if (sign == "in") return contains(b, a, work);
  if (sign == "not in") return !contains(b, a, work);
  if (sign == "<" || sign == ">=") return less(a, b, work) == (sign == "<");
  return less(b, a, work) == (sign == ">");
}

class Runner {
 public:
  Runner(const Source& source, Members variables) : source_(source), names_(std::move(variables)) {
    scope_ = &scopes_.emplace_back(Scope{nullptr});
    for (const auto& [name, value] : names_) scope_->names.emplace_back(*name.text(), value);
  }

  Written run(const Node& root) {
    try {
      do_body(root);
    } catch (const Error& error) {
      source_.refuse(at_ == nullptr ? 0 : at_->offset, error.what());
    }
    return std::move(written_);
  }

 private:
  // A mistake ends the run, so nothing is put back when one is thrown.

  /// One more part of the tree is being run; mistakes are told of it.
  void begin(const Node& node) {
    at_ = &node;
    require(++depth_ <= kMaxRunDepth, "the template calls itself too often");
    work_.take(kStepUnits);
  }
  /// Variables are set in a new scope within `around`. Returns the one before.
  Scope* enter(const Scope* around) {
    work_.take(sizeof(Scope));
    return std::exchange(scope_, &scopes_.emplace_back(Scope{around}));
  }
  void write(const std::string& text) {
    work_.take(text.size());
    *to_ += text;
  }
  /// What the body writes, with variables of its own within `around`.
  std::string captured(const Node& body, const Scope* around) {
    Scope* const outer = enter(around);
    std::string text;
    std::string* const before = std::exchange(to_, &text);
    do_body(body);
    to_ = before, scope_ = outer;
    return text;
  }
  void assign(std::string_view name, Value value) {
    for (auto& [other, old] : scope_->names)
      if (other == name) return void(old = std::move(value));
    work_.take(sizeof(Value) * 2);
    scope_->names.emplace_back(name, std::move(value));
  }
  void assign_to(const Node& target, Value value) {
    if (target.op == Op::name) return assign(target.text, std::move(value));
    if (target.op == Op::tuple) {
      const List items = items_of(value, work_);
      at_ = &target;
      require(items.size() == target.parts.size(), "{} names for {} values", target.parts.size(),
              items.size());
      for (std::size_t i = 0; i < items.size(); ++i) assign_to(target.parts[i], items[i]);
      return;
    }
    const Value space = eval(target.parts[0]);
    at_ = &target;
    require(space.as<Namespace*>() != nullptr, "{} has no members to set; a namespace() has",
            kind_of(space));
    set_member((*space.as<Namespace*>())->members, target.text, std::move(value), work_);
  }
  Flow do_body(const Node& body) {
    for (const Node& part : body.parts)
      if (const Flow flow = run_tag(part); flow != Flow::next) return flow;
    return Flow::next;
  }
  Flow run_tag(const Node& node) {
    begin(node);
    const Flow flow = flow_of(node);
    --depth_;
    return flow;
  }
  Flow flow_of(const Node& node) {
    switch (node.op) {
      case Op::output: return write_value(node), Flow::next;
      case Op::generation: return write_generation(node), Flow::next;
      case Op::branches: return run_branches(node);
      case Op::loop: return run_loop(node);
      case Op::set: return assign_to(node.parts[0], eval(node.parts[1])), Flow::next;
      case Op::macro:
        work_.take(sizeof(Macro));
        assign(node.text, &std::as_const(macros_.emplace_back(Macro{node, scope_})));
        return Flow::next;
      case Op::leave: return node.text == "break" ? Flow::leave : Flow::again;
      default: bug("a template's tree has an expression for a tag");
    }
  }
  void write_value(const Node& node) {
    const Value value = eval(node.parts[0]);
    at_ = &node;
    write(text_of(value, work_));
  }
  void write_generation(const Node& node) {
    const std::size_t begin = written_.text.size();
    write_value(node);
    if (to_ == &written_.text) written_.generated.emplace_back(begin, written_.text.size());
  }
  Flow run_branches(const Node& node) {
    std::size_t i = 0;
    for (; i + 1 < node.parts.size(); i += 2)
      if (is_true(eval(node.parts[i]))) return do_body(node.parts[i + 1]);
    return i < node.parts.size() ? do_body(node.parts[i]) : Flow::next;
  }
  Flow run_loop(const Node& node) {
    Scope* const around = scope_;
    const Value all = eval(node.parts[1]);
    at_ = &node;
    List items;
    for (Value& item : items_of(all, work_)) {
      enter(around);
      assign_to(node.parts[0], item);
      if (is_true(eval(node.parts[2]))) items.push_back(std::move(item));
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      enter(around);
      at_ = &node;
      assign("loop", loop_state(items, i));
      assign_to(node.parts[0], items[i]);
      if (do_body(node.parts[3]) == Flow::leave) break;
    }
    enter(around);
    const Flow flow = items.empty() ? do_body(node.parts[4]) : Flow::next;
    scope_ = around;
    return flow;
  }
  Value loop_state(const List& items, std::size_t i) {
    const auto at = static_cast<std::int64_t>(i), size = std::ssize(items);
    constexpr std::size_t kBytes = 1000;
    work_.take(kBytes);
    Members members = {{"index", at + 1},
                       {"index0", at},
                       {"revindex", size - at},
                       {"revindex0", size - at - 1},
                       {"first", at == 0},
                       {"last", at + 1 == size},
                       {"length", size},
                       {"previtem", i > 0 ? items[i - 1] : Value()},
                       {"nextitem", at + 1 < size ? items[i + 1] : Value()}};
    return &work_.namespaces.emplace_back(Namespace{std::move(members)});
  }

  Value eval(const Node& node) {
    begin(node);
    Value value = value_of(node);
    --depth_;
    return value;
  }
  Value value_of(const Node& node) {
    const auto part = [&](std::size_t i) { return eval(node.parts[i]); };
    switch (node.op) {
      case Op::constant: return node.constant;
      case Op::name: return variable(node);
      case Op::attribute: return attribute(node);
      case Op::item:
      case Op::slice: return subscript(node);
      case Op::list:
      case Op::tuple:
        return make_list(values(node, 0, node.parts.size()), work_, node.op == Op::tuple);
      case Op::mapping: return mapping(node);
      case Op::call: return call(node);
      case Op::filter:
      case Op::test: return apply(node);
      case Op::negate: return !is_true(part(0));
      case Op::sign: return signed_value(node);
      case Op::both:
      case Op::either: {
        Value left = part(0);
        return is_true(left) == (node.op == Op::both) ? part(1) : left;
      }
      case Op::arithmetic: {
        const Value left = part(0), right = part(1);
        at_ = &node;
        return arithmetic(node.text, left, right, work_);
      }
      case Op::compare: return comparison(node);
      case Op::conditional: return part(is_true(part(0)) ? 1 : 2);
      case Op::capture: return captured(node.parts[0], scope_);
      default: bug("a template's tree has a tag for an expression");
    }
  }
  List values(const Node& node, std::size_t begin, std::size_t end) {
    List result;
    for (std::size_t i = begin; i < end; ++i) result.push_back(eval(node.parts[i]));
    at_ = &node;
    return result;
  }
  Value variable(const Node& node) {
    for (const Scope* scope = scope_; scope != nullptr; scope = scope->around) {
      work_.take(1 + scope->names.size());
      for (const auto& [name, value] : scope->names)
        if (name == node.text) return value;
    }
    if (const Function* function = find_global(node.text)) return Callable{function, nullptr};
    return Undefined{std::make_shared<const std::string>(node.text)};
  }
  Value attribute(const Node& node) {
    const Value value = eval(node.parts[0]);
    at_ = &node;
    return attribute_of(value, node.text, work_);
  }
  Value subscript(const Node& node) {
    const List parts = values(node, 0, node.parts.size());
    return node.op == Op::item ? item_of(parts[0], parts[1], work_)
                               : slice_of(parts[0], parts[1], parts[2], parts[3], work_);
  }
  Value mapping(const Node& node) {
    Members members;
    for (std::size_t i = 0; i < node.parts.size(); i += 2) {
      const Value key = eval(node.parts[i]);
      Value value = eval(node.parts[i + 1]);
      at_ = &node;
      require(key.text() != nullptr || real_number(key).has_value(), "{} can't be a key",
              kind_of(key));
      set_member(members, key, std::move(value), work_);
    }
    return make_mapping(std::move(members), work_);
  }
  Value signed_value(const Node& node) {
    const Value value = eval(node.parts[0]);
    at_ = &node;
    return arithmetic(node.text, Value(std::int64_t{0}), value, work_);
  }
  Value comparison(const Node& node) {
    Value left = eval(node.parts[0]);
    for (std::size_t i = 0; i < node.names.size(); ++i) {
      Value right = eval(node.parts[i + 1]);
      at_ = &node;
      if (!compares(node.names[i], left, right, work_)) return false;
      left = std::move(right);
    }
    return true;
  }

  /// The arguments that `node` gives by name, its last parts.
  Members named_values(const Node& node) {
    Members named;
    const std::size_t begin = node.parts.size() - node.names.size();
    for (std::size_t i = 0; i < node.names.size(); ++i)
      named.emplace_back(node.names[i], eval(node.parts[begin + i]));
    at_ = &node;
    return named;
  }
  Value apply(const Node& node) {
    const bool filter = node.op == Op::filter;
    const Function* function = filter ? find_filter(node.text) : find_test(node.text);
    require(function != nullptr, "alpa has no {} '{}'", filter ? "filter" : "test",
            excerpt(node.text));
    const Value self = eval(node.parts[0]);
    List arguments = values(node, 1, node.parts.size() - node.names.size());
    return called(*function, self, std::move(arguments), named_values(node));
  }
  Value called(const Function& function, const Value& self, List arguments, Members named) {
    if (self.text() != nullptr) work_.take(self.text()->size());
    return call_function(function, self, std::move(arguments), std::move(named), work_);
  }
  Value call(const Node& node) {
    const Value callee = eval(node.parts[0]);
    List arguments = values(node, 1, node.parts.size() - node.names.size());
    Members named = named_values(node);
    if (const auto* macro = callee.as<const Macro*>())
      return call_macro(**macro, std::move(arguments), std::move(named));
    const auto* function = callee.as<Callable>();
    require(function != nullptr, "{} can't be called; alpa has no such function or method",
            kind_of(callee));
    const Value nothing;
    return called(*function->function, function->self ? *function->self : nothing,
                  std::move(arguments), std::move(named));
  }
  Value call_macro(const Macro& macro, List arguments, Members named) {
    const Node& node = macro.node;
    require(arguments.size() <= node.names.size(), "macro {} takes {} arguments, not {}", node.text,
            node.names.size(), arguments.size());
    for (const auto& [name, value] : named)
      require(std::find(node.names.begin(), node.names.end(), *name.text()) != node.names.end(),
              "macro {} has no argument '{}'", node.text, *name.text());
    Scope* const outer = enter(macro.scope);
    const std::size_t optional = node.names.size() + 1 - node.parts.size();
    for (std::size_t i = 0; i < node.names.size(); ++i) {
      const Value* by_name = find_member(named, node.names[i], work_);
      Value value = i < arguments.size() ? std::move(arguments[i]) : Value();
      if (by_name != nullptr)
        value = *by_name;
      else if (i >= arguments.size() && i >= optional)
        value = eval(node.parts[i + 1 - optional]);
      assign(node.names[i], std::move(value));
    }
    Value result = captured(node.parts[0], scope_);
    scope_ = outer;
    return result;
  }

  const Source& source_;
  const Members names_;
  Work work_;
  std::deque<Scope> scopes_;
  std::deque<Macro> macros_;
  Scope* scope_ = nullptr;
  Written written_;
  std::string* to_ = &written_.text;
  const Node* at_ = nullptr;
  int depth_ = 0;
};

}  // namespace

Written run_template(const Source& source, const Node& root, Members variables) {
  return Runner(source, std::move(variables)).run(root);
}

}  // namespace alpa::jinja
