// src/data/jinja_run.cc — runs the statements of a Jinja template
#include <algorithm>
#include <ctime>
#include <map>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "jinja.h"

namespace alpa::jinja {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000, kLongestRange = 1'000'000;
constexpr int kDeepestCalls = 50, kDeepestRun = 2000;

Json range_of(const Arguments& arguments) {
  std::vector<std::int64_t> n;
  for (const Json& argument : arguments.listed) {
    require(argument.is_number_integer(), "range: found {}, expected whole numbers",
            excerpt(text_of(argument)));
    n.push_back(argument.get<std::int64_t>());
  }
  require(!n.empty() && n.size() <= 3, "range: takes one to three numbers");
  const std::int64_t begin = n.size() > 1 ? n[0] : 0, end = n.size() > 1 ? n[1] : n[0],
                     step = n.size() > 2 ? n[2] : 1;
  require(step != 0, "range: a step of 0");
  Json list = Json::array();
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    require(std::ssize(list) < kLongestRange, "range: more than {} numbers", kLongestRange);
    list.push_back(i);
  }
  return list;
}

Json time_text(const Arguments& arguments) {
  const std::string format = text_of(arguments.at(0));
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  std::string text(256, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &local));
  return text;
}

Json object_of(const Arguments& arguments) {
  Json object = Json::object();
  if (!arguments.listed.empty() && arguments.listed[0].is_object()) object = arguments.listed[0];
  for (const auto& [name, value] : arguments.named) object[name] = value;
  return object;
}

using Function = Json (*)(const Arguments& arguments);

Json raise(const Arguments& arguments) {
  fail("it refuses: {}", excerpt(text_of(arguments.at(0)), 300));
}

/// The functions of every template.
constexpr std::pair<std::string_view, Function> kFunctions[] = {{"raise_exception", raise},
                                                                {"range", range_of},
                                                                {"strftime_now", time_text},
                                                                {"namespace", object_of},
                                                                {"dict", object_of}};

/// The function of this name; null: there is none.
Function function_of(std::string_view name) {
  for (const auto& [known, function] : kFunctions)
    if (known == name) return function;
  return nullptr;
}

enum class Flow : std::uint8_t { on, leave, next };

class Runner {
 public:
  Runner(const Json& variables, const std::string& origin) : origin_(origin) {
    scopes_.emplace_back();
    for (const auto& [name, value] : variables.items()) scopes_[0][name] = value;
  }

  std::string run(const std::vector<Statement>& statements) {
    execute(statements);
    return std::move(out_);
  }

 private:
  using Scope = std::map<std::string, Json>;

  /// Counts how deep the run is.
  struct Depth {
    explicit Depth(int& of) : depth(of) { ++depth; }
    ~Depth() { --depth; }
    int& depth;
  };

  /// Runs `work`, and adds the line to its mistake unless that has one.
  template <class Work>
  auto at_line(int line, const Work& work) -> decltype(work()) {
    count_step();
    if (depth_ > kDeepestRun) fail("{}: line {}: nested too deep", origin_, line);
    const Depth in(depth_);
    try {
      return work();
    } catch (const Error& error) {
      const std::string text = error.what();
      if (text.starts_with(origin_ + ": line ")) throw;
      fail("{}: line {}: {}", origin_, line, text);
    }
  }

  void count_step() { require(++steps_ <= kMostSteps, "{}: runs for too long", origin_); }

  Json* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return &found->second;
    return nullptr;
  }

  void print(const std::string& text) {
    out_ += text;
    require(std::ssize(out_) <= kMostBytes, "writes more than {} MiB", kMostBytes >> 20);
  }

  Flow execute(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      const Flow flow = at_line(statement.line, [&] { return execute(statement); });
      if (flow != Flow::on) return flow;
    }
    return Flow::on;
  }

  Flow execute(const Statement& s) {
    switch (s.kind) {
      case StatementKind::text: print(s.text); break;
      case StatementKind::print: print(text_of(evaluate(s.expressions[0]))); break;
      case StatementKind::branches: return branch(s);
      case StatementKind::loop: loop(s); break;
      case StatementKind::set: set(s); break;
      case StatementKind::macro: macros_[s.text] = &s; break;
      case StatementKind::block: return execute(s.bodies[0]);
      case StatementKind::leave: return Flow::leave;
      case StatementKind::next: return Flow::next;
    }
    return Flow::on;
  }

  Flow branch(const Statement& s) {
    for (std::size_t i = 0; i < s.expressions.size(); ++i)
      if (is_true(evaluate(s.expressions[i]))) return execute(s.bodies[i]);
    return s.bodies.size() > s.expressions.size() ? execute(s.bodies.back()) : Flow::on;
  }

  void assign(const std::vector<std::string>& names, const Json& value) {
    if (names.size() == 1) {
      scopes_.back()[names[0]] = value;
      return;
    }
    const std::vector<Json> items = items_of(value);
    require(items.size() == names.size(), "{} values for {} names", items.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i) scopes_.back()[names[i]] = items[i];
  }

  void set(const Statement& s) {
    Json value;
    if (s.bodies.empty()) {
      value = evaluate(s.expressions[0]);
    } else {
      value = printed([&] { execute(s.bodies[0]); });
    }
    if (s.text.empty()) return assign(s.names, value);
    Json* const target = find(s.names[0]);
    require(target != nullptr && target->is_object(), "\"{}\" is no namespace", s.names[0]);
    (*target)[s.text] = std::move(value);
  }

  /// What `work` prints.
  template <class Work>
  std::string printed(const Work& work) {
    std::string before = std::exchange(out_, "");
    work();
    return std::exchange(out_, std::move(before));
  }

  /// The items of a loop that its condition lets through.
  std::vector<Json> visited(const Statement& s) {
    std::vector<Json> items = items_of(evaluate(s.expressions[0]));
    if (s.expressions.size() < 2) return items;
    std::vector<Json> passing;
    for (Json& item : items) {
      scopes_.emplace_back();
      assign(s.names, item);
      const bool passes = is_true(evaluate(s.expressions[1]));
      scopes_.pop_back();
      if (passes) passing.push_back(std::move(item));
    }
    return passing;
  }

  void loop(const Statement& s) {
    const std::vector<Json> items = visited(s);
    const std::size_t count = items.size();
    if (count == 0 && s.bodies.size() > 1) execute(s.bodies[1]);
    for (std::size_t i = 0; i < count; ++i) {
      count_step();
      scopes_.emplace_back();
      scopes_.back()["loop"] = {{"index", i + 1},
                                {"index0", i},
                                {"revindex", count - i},
                                {"revindex0", count - i - 1},
                                {"first", i == 0},
                                {"last", i + 1 == count},
                                {"length", count},
                                {"previtem", i > 0 ? items[i - 1] : undefined()},
                                {"nextitem", i + 1 < count ? items[i + 1] : undefined()}};
      assign(s.names, items[i]);
      const Flow flow = execute(s.bodies[0]);
      scopes_.pop_back();
      if (flow == Flow::leave) return;
    }
  }

  Json evaluate(const Expression& e) {
    return at_line(e.line, [&] { return value_of(e); });
  }

  Json value_of(const Expression& e) {
    switch (e.kind) {
      case ExpressionKind::constant: return e.value;
      case ExpressionKind::name: return variable(e.text);
      case ExpressionKind::list: return list(e);
      case ExpressionKind::object: return object(e);
      case ExpressionKind::attribute: return attribute(evaluate(e.parts[0]), e.text);
      case ExpressionKind::item: return item(evaluate(e.parts[0]), evaluate(e.parts[1]));
      case ExpressionKind::slice:
        return sliced(evaluate(e.parts[0]), evaluate(e.parts[1]), evaluate(e.parts[2]),
                      evaluate(e.parts[3]));
      case ExpressionKind::call: return call(e);
      case ExpressionKind::filter: return filtered(e.text, evaluate(e.parts[0]), arguments_of(e));
      case ExpressionKind::test: return test(e);
      case ExpressionKind::unary: return unary(e);
      case ExpressionKind::binary: return binary(e);
      case ExpressionKind::compare: return compare(e);
      case ExpressionKind::choice: return evaluate(e.parts[is_true(evaluate(e.parts[1])) ? 0 : 2]);
    }
    return undefined();
  }

  Json variable(const std::string& name) {
    const Json* const found = find(name);
    return found ? *found : undefined();
  }

  Json list(const Expression& e) {
    Json result = Json::array();
    for (const Expression& part : e.parts) result.push_back(evaluate(part));
    return result;
  }

  Json object(const Expression& e) {
    Json result = Json::object();
    for (std::size_t i = 0; i < e.parts.size(); i += 2) {
      const Json key = evaluate(e.parts[i]);
      require(key.is_string(), "a mapping from {}; only texts are supported", kind_of(key));
      result[key.get<std::string>()] = evaluate(e.parts[i + 1]);
    }
    return result;
  }

  Json attribute(const Json& value, const std::string& name) {
    require(!value.is_discarded(), "\"{}\" of something undefined", excerpt(name));
    if (!value.is_object()) return undefined();
    const auto found = value.find(name);
    return found == value.end() ? undefined() : *found;
  }

  Json item(const Json& value, const Json& key) {
    if (value.is_object() || value.is_discarded()) return attribute(value, text_of(key));
    if (!key.is_number_integer()) return undefined();
    const std::int64_t length = value.is_array() || value.is_string() ? length_of(value) : 0;
    std::int64_t at = key.get<std::int64_t>();
    at = at < 0 ? at + length : at;
    if (at < 0 || at >= length) return undefined();
    return value.is_array() ? value[static_cast<std::size_t>(at)]
                            : sliced(value, at, at + 1, undefined());
  }

  Arguments arguments_of(const Expression& e) {
    Arguments arguments;
    for (std::size_t i = 1; i < e.parts.size(); ++i)
      arguments.listed.push_back(evaluate(e.parts[i]));
    for (const auto& [name, value] : e.named) arguments.named.emplace_back(name, evaluate(value));
    return arguments;
  }

  Json call(const Expression& e) {
    const Expression& callee = e.parts[0];
    const Arguments arguments = arguments_of(e);
    if (callee.kind == ExpressionKind::attribute)
      return called(evaluate(callee.parts[0]), callee.text, arguments);
    require(callee.kind == ExpressionKind::name,
            "only functions, macros and methods can be called");
    if (const auto macro = macros_.find(callee.text); macro != macros_.end())
      return call_macro(*macro->second, arguments);
    if (const Function function = function_of(callee.text)) return function(arguments);
    fail(
        "\"{}\" is no function; there are raise_exception, range, strftime_now, namespace, dict "
        "and macros of the template",
        excerpt(callee.text));
  }

  Json call_macro(const Statement& macro, const Arguments& arguments) {
    require(++calls_ <= kDeepestCalls, "macros call each other more than {} deep", kDeepestCalls);
    require(arguments.listed.size() <= macro.names.size(), "macro \"{}\" takes {} arguments",
            macro.text, macro.names.size());
    std::vector<Scope> outside;
    std::swap(outside, scopes_);
    scopes_ = {std::move(outside[0]), {}};
    std::string text;
    const auto restore = [&] {
      outside[0] = std::move(scopes_[0]);
      scopes_ = std::move(outside);
      --calls_;
    };
    try {
      const std::size_t without = macro.names.size() - macro.expressions.size();
      for (std::size_t i = 0; i < macro.names.size(); ++i) {
        Json value = arguments.at(i, macro.names[i]);
        if (value.is_discarded() && i >= without) value = evaluate(macro.expressions[i - without]);
        scopes_.back()[macro.names[i]] = std::move(value);
      }
      text = printed([&] { execute(macro.bodies[0]); });
    } catch (...) {
      restore();
      throw;
    }
    restore();
    return text;
  }

  Json test(const Expression& e) {
    // Names of macros and functions are defined, too.
    if (e.text == "defined" && e.parts[0].kind == ExpressionKind::name &&
        (macros_.contains(e.parts[0].text) || function_of(e.parts[0].text)))
      return true;
    return tested(e.text, evaluate(e.parts[0]), arguments_of(e));
  }

  Json unary(const Expression& e) {
    const Json value = evaluate(e.parts[0]);
    if (e.text == "not") return !is_true(value);
    return combined(e.text, 0, value);
  }

  Json binary(const Expression& e) {
    Json left = evaluate(e.parts[0]);
    if (e.text == "and") return is_true(left) ? evaluate(e.parts[1]) : left;
    if (e.text == "or") return is_true(left) ? left : evaluate(e.parts[1]);
    return combined(e.text, left, evaluate(e.parts[1]));
  }

  Json compare(const Expression& e) {
    Json left = evaluate(e.parts[0]);
    for (std::size_t i = 0; i < e.words.size(); ++i) {
      Json right = evaluate(e.parts[i + 1]);
      if (!compared(e.words[i], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  const std::string& origin_;
  std::vector<Scope> scopes_;  ///< the first is the template's, the last the innermost
  std::map<std::string, const Statement*> macros_;
  std::string out_;
  std::int64_t steps_ = 0;
  int calls_ = 0, depth_ = 0;
};

}  // namespace

std::string run(const std::vector<Statement>& statements, const Json& variables,
                const std::string& origin) {
  return Runner(variables, origin).run(statements);
}

}  // namespace alpa::jinja
