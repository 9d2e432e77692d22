// src/ir/parse_graph.cc — parses the text form of graphs
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/ir/graph.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

/// Reads one line of the text form from left to right.
class Line {
 public:
  Line(std::string_view text, int number) : text_(text), number_(number) {}

  [[noreturn]] void complain(const std::string& mistake) const {
    fail("graph text, line {}: {}", number_, excerpt(mistake, kMaxMistake));
  }

  bool at_end() const { return at_ == text_.size(); }
  bool take(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) complain(fmt::format("expected \"{}\" at column {}", token, at_ + 1));
  }
  std::string_view word() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == start) complain(fmt::format("expected a word at column {}", at_ + 1));
    return text_.substr(start, at_ - start);
  }
  /// A name of an operator: those that a program defines have dots.
  std::string_view operator_name() {
    const std::size_t start = at_;
    do word();
    while (take("."));
    return text_.substr(start, at_ - start);
  }
  int integer() {
    const std::size_t start = at_;
    const std::string_view digits = word();
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size())
      complain(fmt::format("expected an integer at column {}", start + 1));
    return value;
  }
  int value() {
    expect("%");
    return integer();
  }
  std::string quoted() {
    const std::size_t end = end_of_string(at_);
    std::string text;
    for (std::size_t i = at_ + 1; i + 1 < end; ++i) {
      const bool escaped = text_[i] == '\\';
      if (escaped) ++i;
      text += escaped && text_[i] == 'n' ? '\n' : text_[i];
    }
    at_ = end;
    return text;
  }
  TensorType type() {
    const std::size_t close = text_.find(']', at_);
    if (close == std::string_view::npos)
      complain(fmt::format("expected a type at column {}", at_ + 1));
    const std::string text(text_.substr(at_, close + 1 - at_));
    at_ = close + 1;
    try {
      return parse_tensor_type(text);
    } catch (const Error& error) {
      complain(error.what());
    }
  }
  /// Attributes in braces, if there are any here.
  Attributes attributes() {
    if (at_end() || text_[at_] != '{') return {};
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != '}')
      end = text_[end] == '"' ? end_of_string(end) : end + 1;
    const std::string_view text = text_.substr(at_, end + 1 - at_);
    at_ = std::min(end + 1, text_.size());
    expect(" ");
    try {
      return parse_attributes(text);
    } catch (const Error& error) {
      complain(error.what());
    }
  }

 private:
  /// One past the closing quote of the string that starts at `start`.
  std::size_t end_of_string(std::size_t start) const {
    if (start >= text_.size() || text_[start] != '"')
      complain(fmt::format("expected '\"' at column {}", start + 1));
    std::size_t end = start + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size())
      complain(fmt::format("the string at column {} is not terminated", start + 1));
    return end + 1;
  }

  static constexpr std::size_t kMaxMistake = 400;  ///< bytes of a message of others
  std::string_view text_;
  int number_;
  std::size_t at_ = 0;
};

class GraphReader {
 public:
  /// `max_values`: more than the text can define.
  GraphReader(std::span<const OpDef* const> operators, std::size_t max_values)
      : operators_(operators), max_values_(max_values) {}

  void read(Line& line, bool first) {
    if (first) {
      line.expect("graph micro_batches=");
      graph_.num_micro_batches = line.integer();
      if (graph_.num_micro_batches < 1) line.complain("micro_batches must be at least 1");
    } else if (line.take("state ")) {
      optimizer_state(line);
    } else if (line.take("frozen ")) {
      known_input(line).frozen = true;
    } else if (line.take("update ")) {
      update(line);
    } else if (line.take("metric ")) {
      named_value(line, graph_.metrics);
    } else if (line.take("output ")) {
      named_value(line, graph_.outputs);
    } else {
      node(line);
    }
    if (!line.at_end()) line.complain("text after the end of the statement");
  }

  Graph finish() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      require(graph_.values[i].producer >= 0, "graph text: no line defines %{}", i);
    try {
      verify(graph_);
    } catch (const Bug& bug) {
      fail("graph text: {}", excerpt(bug.what(), 400));
    }
    return std::move(graph_);
  }

 private:
  int known_value(Line& line) {
    const int id = line.value();
    if (id < 0 || id >= static_cast<int>(graph_.values.size()) || graph_.values[id].producer < 0)
      line.complain(fmt::format("%{} is not defined above", id));
    return id;
  }

  void define(Line& line, Node& node, int index) {
    const int id = line.value();
    if (id < 0 || static_cast<std::size_t>(id) >= max_values_)
      line.complain(fmt::format("value number {} is out of range; values are numbered from 0", id));
    line.expect(": ");
    if (id >= static_cast<int>(graph_.values.size())) graph_.values.resize(id + 1);
    ValueInfo& value = graph_.values[id];
    if (value.producer >= 0) line.complain(fmt::format("%{} is defined twice", id));
    value = {line.type(), static_cast<int>(graph_.nodes.size()), index};
    total_bytes_ += value.type.bytes();
    if (total_bytes_ > kMaxGraphBytes)
      line.complain(fmt::format("with %{} the values of the graph take more than 2^60 bytes", id));
    node.results.push_back(id);
  }

  void node(Line& line) {
    Node node;
    do define(line, node, static_cast<int>(node.results.size()));
    while (line.take(", "));
    line.expect(" = ");
    node.op = find(line);
    line.expect("(");
    if (!line.take(")")) {
      do node.operands.push_back(known_value(line));
      while (line.take(", "));
      line.expect(")");
    }
    line.expect(" ");
    node.attributes = line.attributes();
    node.region = region(line);
    line.expect(" ");
    if (line.take("layer=")) {
      node.layer = line.integer();
      line.expect(" ");
    }
    node.again = line.take("again=");
    if (node.again || line.take("remat=")) {
      node.remat = line.integer();
      if (node.remat < 0) line.complain("rematerialised layers are numbered from 0");
      line.expect(" ");
    }
    node.name = line.quoted();
    check_types(line, node);
    if (node.op == &ops::input) {
      inputs_.emplace(node.results[0], graph_.inputs.size());
      graph_.inputs.push_back(
          {.value = node.results[0], .kind = input_kind(line, node), .name = node.name});
    }
    graph_.nodes.push_back(std::move(node));
  }

  void check_types(Line& line, const Node& node) {
    std::vector<TensorType> written;
    for (int value : node.results) written.push_back(graph_.type(value));
    std::vector<TensorType> types;
    try {
      const std::vector<TensorType> operands = operand_types(graph_, node);
      types = result_types(*node.op, {operands, node.attributes});
    } catch (const std::exception& error) {
      line.complain(error.what());
    }
    if (types != written)
      line.complain(
          fmt::format("{} gives {}, not {}", node.op->name, to_string(types), to_string(written)));
  }

  const OpDef* find(Line& line) const {
    const std::string_view name = line.operator_name();
    if (name == ops::input.name) return &ops::input;
    for (const OpDef* op : operators_)
      if (op->name == name) return op;
    if (name.find('.') != std::string_view::npos)
      line.complain(
          fmt::format("unknown operator \"{}\"; define it before, with define_op", excerpt(name)));
    line.complain(fmt::format("unknown operator \"{}\"", excerpt(name)));
  }

  static Region region(Line& line) {
    const std::string_view name = line.word();
    for (Region region : {Region::forward, Region::backward, Region::apply})
      if (name_of(region) == name) return region;
    line.complain(fmt::format("unknown region \"{}\"; regions are forward, backward and apply",
                              excerpt(name)));
  }

  static InputKind input_kind(Line& line, const Node& node) {
    const std::string& name = node.attributes.string("kind");
    for (InputKind kind : {InputKind::batch, InputKind::state, InputKind::accumulator,
                           InputKind::shared, InputKind::scalar, InputKind::boundary})
      if (name_of(kind) == name) return kind;
    line.complain(fmt::format(
        "unknown kind of input \"{}\"; kinds are batch, state, accumulator, shared, scalar and "
        "boundary",
        excerpt(name)));
  }

  Input& known_input(Line& line) {
    const int value = known_value(line);
    const auto found = inputs_.find(value);
    if (found == inputs_.end()) line.complain(fmt::format("%{} is not an input", value));
    return graph_.inputs[found->second];
  }

  void optimizer_state(Line& line) {
    Input& state = known_input(line);
    line.expect(" of ");
    state.of = line.quoted();
  }

  void update(Line& line) {
    Update update;
    update.input = known_value(line);
    line.expect(" = ");
    update.value = known_value(line);
    graph_.updates.push_back(update);
  }

  /// A metric or an output.
  template <class Named>
  void named_value(Line& line, std::vector<Named>& list) {
    Named named;
    named.name = line.quoted();
    line.expect(" = ");
    named.value = known_value(line);
    list.push_back(std::move(named));
  }

  std::span<const OpDef* const> operators_;
  std::size_t max_values_;
  std::int64_t total_bytes_ = 0;
  Graph graph_;
  std::unordered_map<int, std::size_t> inputs_;  // places in the graph's list, by value
};

}  // namespace

Graph parse_graph(const std::string& text, std::span<const OpDef* const> operators) {
  GraphReader reader(operators, std::count(text.begin(), text.end(), '%'));
  int number = 0;
  for (std::size_t start = 0; start < text.size() || number == 0;) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    Line line(std::string_view(text).substr(start, end - start), ++number);
    reader.read(line, number == 1);
    start = end + 1;
  }
  return reader.finish();
}

}  // namespace alpa
