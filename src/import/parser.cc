// src/import/parser.cc — generic StableHLO text → Module
#include <unordered_map>

#include "alpa/base/text.h"
#include "src/import/reader.h"

namespace alpa::stablehlo {
namespace {

/// Most values of a text.
constexpr std::size_t kMostValues = 1 << 22;

/// Values of one name: an operation's results, which follow each other, or an argument.
struct Named {
  int first = 0, count = 1;
};

struct Parser {
  Reader reader;
  Module module;
  /// Values by name, of the regions around the place that is read.
  std::vector<std::unordered_map<std::string_view, Named>> scopes = {};
  std::map<std::string, std::string, std::less<>> locations = {};  ///< aliases, #loc1 → text

  explicit Parser(std::string_view text) : reader(text) {}
};

/// Values of these types, the first of which is returned.
int add_values(Parser& p, TextPlace place, std::string_view name, const std::vector<Type>& types) {
  const int first = static_cast<int>(p.module.types.size());
  p.module.types.insert(p.module.types.end(), types.begin(), types.end());
  if (p.module.types.size() > kMostValues) fail_at(place, "more than {} values", kMostValues);
  if (!p.scopes.back().emplace(name, Named{first, static_cast<int>(types.size())}).second)
    fail_at(place, "%{} is defined twice", excerpt(name));
  return first;
}

/// The value of %a, or of %a#1, the second result.
int find_value(Parser& p) {
  const TextPlace place = p.reader.place();
  p.reader.expect("%");
  const std::string_view name = p.reader.word();
  const int index = p.reader.take("#") ? static_cast<int>(p.reader.count()) : 0;
  for (auto scope = p.scopes.rbegin(); scope != p.scopes.rend(); ++scope)
    if (const auto found = scope->find(name); found != scope->end()) {
      if (index >= found->second.count)
        fail_at(place, "%{} has {} results, none of number {}", excerpt(name), found->second.count,
                index);
      return found->second.first + index;
    }
  fail_at(place, "%{} is not defined before it is read", excerpt(name));
}

/// loc("x") names an argument; loc(#loc1) does through an alias at the end of the text.
std::string read_location(Parser& p) {
  if (!p.reader.take("loc(")) return "";
  const std::string_view inside = p.reader.balanced('(', ')');
  if (!inside.starts_with('"')) return inside.starts_with('#') ? std::string(inside) : "";
  return std::string(inside.substr(1, inside.find('"', 1) - 1));
}

std::vector<Type> read_types(Parser& p) {
  std::vector<Type> types;
  if (!p.reader.take("(")) return {read_type(p.reader)};
  if (p.reader.take(")")) return types;
  do types.push_back(read_type(p.reader));
  while (p.reader.take(","));
  p.reader.expect(")");
  return types;
}

void read_operation(Parser& p, Block& block);

void read_arguments(Parser& p, Block& block) {
  if (!p.reader.take("^")) return;
  p.reader.word();
  if (p.reader.take("(") && !p.reader.take(")")) {
    do {
      const TextPlace place = p.reader.place();
      p.reader.expect("%");
      const std::string_view name = p.reader.word();
      p.reader.expect(":");
      block.arguments.push_back(add_values(p, place, name, {read_type(p.reader)}));
      block.names.push_back(read_location(p));
    } while (p.reader.take(","));
    p.reader.expect(")");
  }
  p.reader.expect(":");
}

Block read_block(Parser& p) {
  const Reader::Nested nested(p.reader);
  p.reader.expect("{");
  p.scopes.emplace_back();
  Block block;
  read_arguments(p, block);
  while (!p.reader.take("}")) read_operation(p, block);
  p.scopes.pop_back();
  return block;
}

void read_operands(Parser& p, Operation& operation) {
  p.reader.expect("(");
  if (p.reader.take(")")) return;
  do operation.operands.push_back(find_value(p));
  while (p.reader.take(","));
  p.reader.expect(")");
}

/// Behind "kind": operands, attributes, regions and types.
std::vector<Type> read_body(Parser& p, Operation& operation) {
  read_operands(p, operation);
  if (p.reader.take("<{")) {
    operation.attributes = read_fields(p.reader, "}");
    p.reader.expect(">");
  }
  if (p.reader.take("(")) {
    do operation.blocks.push_back(read_block(p));
    while (p.reader.take(","));
    p.reader.expect(")");
  }
  if (p.reader.take("{"))
    for (auto& attribute : read_fields(p.reader, "}"))
      operation.attributes.push_back(std::move(attribute));
  p.reader.expect(":");
  const TextPlace place = p.reader.place();
  const std::vector<Type> operands = read_types(p);
  if (operands.size() != operation.operands.size())
    fail_at(place, "{} types for {} operands", operands.size(), operation.operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i] != p.module.types[static_cast<std::size_t>(operation.operands[i])])
      fail_at(place, "operand {} is {}, but was defined as {}", i, to_string(operands[i]),
              to_string(p.module.types[static_cast<std::size_t>(operation.operands[i])]));
  p.reader.expect("->");
  std::vector<Type> results = read_types(p);
  read_location(p);
  return results;
}

void read_operation(Parser& p, Block& block) {
  Operation operation{.kind = {},
                      .place = p.reader.place(),
                      .operands = {},
                      .results = {},
                      .attributes = {},
                      .blocks = {}};
  std::string_view name;
  std::size_t count = 0;
  if (p.reader.take("%")) {
    name = p.reader.word();
    count = p.reader.take(":") ? p.reader.count() : 1;
    p.reader.expect("=");
  }
  if (!p.reader.sees("\""))
    p.reader.fail_here(
        "an operation such as \"stablehlo.add\"(%0, %1); print the text with "
        "get_asm(print_generic_op_form=True)");
  operation.kind = p.reader.quoted();
  const std::vector<Type> types = read_body(p, operation);
  if (types.size() != count)
    fail_at(operation.place, "\"{}\" has {} results, but names {}", excerpt(operation.kind),
            types.size(), count);
  const int first = count > 0 ? add_values(p, operation.place, name, types) : 0;
  for (int i = 0; i < static_cast<int>(count); ++i) operation.results.push_back(first + i);
  block.operations.push_back(std::move(operation));
}

/// #loc1 = loc("x"(…))
void read_alias(Parser& p) {
  const std::string name = "#" + std::string(p.reader.word());
  p.reader.expect("=");
  if (p.reader.sees("loc("))
    p.locations[name] = read_location(p);
  else
    read_attribute(p.reader);
}

void resolve_names(Parser& p, std::vector<Operation>& operations) {
  for (Operation& operation : operations)
    for (Block& block : operation.blocks) {
      for (std::string& name : block.names)
        for (int hops = 0; hops < 8 && name.starts_with('#'); ++hops) {
          const auto found = p.locations.find(name);
          name = found == p.locations.end() ? "" : found->second;
        }
      resolve_names(p, block.operations);
    }
}

void collect_functions(Module& module, const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    if (operation.kind == "builtin.module") {
      for (const Block& block : operation.blocks) collect_functions(module, block.operations);
    } else if (operation.kind == "func.func") {
      if (operation.blocks.size() != 1) fail_at(operation.place, "a function without a body");
      module.functions[operation.attribute("sym_name").text] = &operation;
    }
  }
}

}  // namespace

Module parse_module(std::string_view text) {
  if (text.starts_with("ML\xefR"))
    fail(
        "StableHLO: this is MLIR bytecode, which jax.export writes; give text, as this prints it: "
        "jax.jit(f).lower(args).compiler_ir(\"stablehlo\").operation.get_asm("
        "print_generic_op_form=True)");
  Parser p(text);
  p.scopes.emplace_back();
  while (!p.reader.at_end())
    if (p.reader.take("#"))
      read_alias(p);
    else
      read_operation(p, p.module.body);
  resolve_names(p, p.module.body.operations);
  collect_functions(p.module, p.module.body.operations);
  return std::move(p.module);
}

}  // namespace alpa::stablehlo
