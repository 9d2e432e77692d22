// src/import/flatten.cc — Module → FlatFunction
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "alpa/base/text.h"
#include "src/import/flat.h"

namespace alpa::stablehlo {
namespace {

constexpr int kMostRounds = 4096, kDeepestCalls = 100;  ///< rounds of a loop, calls in calls
constexpr int kMostCalls = 1 << 16;
constexpr std::size_t kMostOperations = 1 << 18;

/// Flat values by the text's values, of a call that is being inlined.
using Names = std::unordered_map<int, int>;

struct Flattening {
  const Module& module;
  FlatFunction flat = {};
  std::unordered_map<int, std::vector<int>> stacks = {};      ///< see `update_stack`
  std::unordered_map<const Block*, bool> with_products = {};  ///< see `has_products`
  int nested = 0, calls = 0, layer = -1, layers = 0;
};

std::vector<int> run_block(Flattening& f, const Block& block, Names& names);

int add_value(Flattening& f, const Type& type, TextPlace place) {
  f.flat.values.push_back({.type = type, .place = place});
  return static_cast<int>(f.flat.values.size()) - 1;
}

std::vector<int> values_of(const Operation& operation, const Names& names) {
  std::vector<int> values;
  for (int id : operation.operands) {
    const auto found = names.find(id);
    if (found == names.end())
      fail_at(operation.place, "\"{}\" reads a result that nothing gives", excerpt(operation.kind));
    values.push_back(found->second);
  }
  return values;
}

std::vector<FlatValue> records_of(const Flattening& f, const std::vector<int>& values) {
  std::vector<FlatValue> records;
  for (int value : values) records.push_back(f.flat.values[static_cast<std::size_t>(value)]);
  return records;
}

std::optional<double> known(const Flattening& f, int value) {
  return f.flat.values[static_cast<std::size_t>(value)].known;
}

const Type& type_of(const Flattening& f, int value) {
  return f.flat.values[static_cast<std::size_t>(value)].type;
}

/// Appends an operation with these results.
void append(Flattening& f, const Operation& operation, const std::string& kind,
            std::vector<int> operands, const std::vector<int>& results) {
  if (f.flat.operations.size() >= kMostOperations)
    fail_at(operation.place, "more than {} operations when calls and loops are written out",
            kMostOperations);
  for (int result : results)
    f.flat.values[static_cast<std::size_t>(result)].producer =
        static_cast<int>(f.flat.operations.size());
  f.flat.operations.push_back({.kind = kind,
                               .source = &operation,
                               .operands = std::move(operands),
                               .results = results,
                               .layer = f.layer});
}

std::vector<int> call(Flattening& f, const Operation& operation, const std::string& callee,
                      const std::vector<int>& operands) {
  const auto found = f.module.functions.find(callee);
  if (found == f.module.functions.end())
    fail_at(operation.place, "function @{} is not in the text", excerpt(callee));
  const Block& body = found->second->blocks[0];
  if (body.arguments.size() != operands.size())
    fail_at(operation.place, "@{} takes {} operands, not {}", excerpt(callee),
            body.arguments.size(), operands.size());
  if (++f.nested > kDeepestCalls) fail_at(operation.place, "@{} calls itself", excerpt(callee));
  if (++f.calls > kMostCalls) fail_at(operation.place, "more than {} calls", kMostCalls);
  Names names;
  for (std::size_t i = 0; i < operands.size(); ++i) names[body.arguments[i]] = operands[i];
  std::vector<int> results = run_block(f, body, names);
  --f.nested;
  return results;
}

/// Whether the block has products, or calls a function that has.
bool has_products(Flattening& f, const Block& block) {
  const auto [known, is_new] = f.with_products.emplace(&block, false);
  if (!is_new) return known->second;
  const bool found = std::ranges::any_of(block.operations, [&](const Operation& operation) {
    if (operation.kind == "stablehlo.dot_general" || operation.kind == "stablehlo.convolution")
      return true;
    const auto inner = [&](const Block& of) { return has_products(f, of); };
    if (std::ranges::any_of(operation.blocks, inner)) return true;
    const Attribute* const callee = operation.find("callee");
    const auto function = f.module.functions.find(callee ? callee->text : "");
    return function != f.module.functions.end() && inner(function->second->blocks[0]);
  });
  return f.with_products[&block] = found;
}

/// The rounds of a loop whose condition is known before each. Those of a model's layers, which have
/// products, are layers.
std::vector<int> unroll(Flattening& f, const Operation& operation, const Names& around,
                        std::vector<int> carried) {
  if (operation.blocks.size() != 2 || operation.blocks[0].arguments.size() != carried.size() ||
      operation.blocks[1].arguments.size() != carried.size())
    fail_at(operation.place, "\"stablehlo.while\" needs a condition and a body of {} values",
            carried.size());
  const bool layers = f.layer < 0 && has_products(f, operation.blocks[1]);
  const auto run = [&](const Block& block) {
    Names names = around;
    for (std::size_t i = 0; i < carried.size(); ++i) names[block.arguments[i]] = carried[i];
    return run_block(f, block, names);
  };
  for (int round = 0;; ++round) {
    const std::vector<int> condition = run(operation.blocks[0]);
    const std::optional<double> goes_on =
        condition.size() == 1 ? known(f, condition[0]) : std::nullopt;
    if (!goes_on)
      fail_at(operation.place,
              "the number of rounds of this loop depends on data; use lax.scan or lax.fori_loop "
              "with fixed bounds");
    if (*goes_on == 0) break;
    if (round == kMostRounds) fail_at(operation.place, "a loop of more than {} rounds", round);
    if (layers) f.layer = f.layers++;
    carried = run(operation.blocks[1]);
    if (carried.size() != operation.results.size())
      fail_at(operation.place, "the loop's body gives {} values for {}", carried.size(),
              operation.results.size());
  }
  if (layers) f.layer = -1;
  return carried;
}

/// Where dynamic_update_slice or dynamic_slice begins, if the positions are known; clamped as
/// StableHLO says.
std::optional<std::vector<std::int64_t>> starts(const Flattening& f, const Type& whole,
                                                const Shape& part, const std::vector<int>& operands,
                                                std::size_t first) {
  std::vector<std::int64_t> found;
  if (operands.size() != first + whole.shape.size() || part.size() != whole.shape.size()) return {};
  for (std::size_t d = 0; d < whole.shape.size(); ++d) {
    const std::optional<double> start = known(f, operands[first + d]);
    if (!start || !(std::abs(*start) < kMostPosition)) return {};
    found.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(*start), 0,
                                             std::max<std::int64_t>(whole.shape[d] - part[d], 0)));
  }
  return found;
}

/// True if `part` is one element of dimension 0 and all of the others.
bool is_row(const Shape& whole, const Shape& part) {
  return part.size() == whole.size() && !part.empty() && part[0] == 1 &&
         std::equal(part.begin() + 1, part.end(), whole.begin() + 1);
}

/// scan writes its results row by row. A tensor whose rows are known values is a stack of them, -1
/// where a row is still that of the first tensor; reading a row gives the value itself.
bool update_stack(Flattening& f, const Operation& operation, const std::vector<int>& operands,
                  int result) {
  const Type& whole = type_of(f, operands[0]);
  if (operands.size() < 2 || !is_row(whole.shape, type_of(f, operands[1]).shape)) return false;
  const auto start = starts(f, whole, type_of(f, operands[1]).shape, operands, 2);
  if (!start) return false;
  const auto found = f.stacks.find(operands[0]);
  std::vector<int> rows = found != f.stacks.end()
                              ? found->second
                              : std::vector<int>(static_cast<std::size_t>(whole.shape[0]), -1);
  rows[static_cast<std::size_t>((*start)[0])] = operands[1];
  if (std::ranges::find(rows, -1) == rows.end())
    append(f, operation, "alpa.stack", rows, {result});
  else
    append(f, operation, operation.kind, operands, {result});
  f.stacks[result] = std::move(rows);
  return true;
}

/// The value in the row that dynamic_slice reads of a stack; -1: none.
int row_of_stack(const Flattening& f, const std::vector<int>& operands, const Type& result) {
  const auto found = f.stacks.find(operands[0]);
  if (found == f.stacks.end() || !is_row(type_of(f, operands[0]).shape, result.shape)) return -1;
  const auto start = starts(f, type_of(f, operands[0]), result.shape, operands, 1);
  return start ? found->second[static_cast<std::size_t>((*start)[0])] : -1;
}

/// An operation that is neither call nor loop.
std::vector<int> compute(Flattening& f, const Operation& operation,
                         const std::vector<int>& operands) {
  std::vector<int> results;
  for (int result : operation.results)
    results.push_back(
        add_value(f, f.module.types[static_cast<std::size_t>(result)], operation.place));
  if (results.size() == 1) {
    FlatValue& value = f.flat.values[static_cast<std::size_t>(results[0])];
    value.known = fold(operation, records_of(f, operands), value.type);
    if (value.known) return results;
    if (operation.kind == "stablehlo.dynamic_slice" && !operands.empty())
      if (const int row = row_of_stack(f, operands, value.type); row >= 0) return {row};
    if (operation.kind == "stablehlo.dynamic_update_slice" && !operands.empty() &&
        update_stack(f, operation, operands, results[0]))
      return results;
  }
  append(f, operation, operation.kind, operands, results);
  return results;
}

std::vector<int> run(Flattening& f, const Operation& operation, const Names& names) {
  std::vector<int> operands = values_of(operation, names);
  if (operation.kind == "func.call")
    return call(f, operation, operation.attribute("callee").text, operands);
  if (operation.kind == "stablehlo.composite")
    return call(f, operation, operation.attribute("decomposition").text, operands);
  if (operation.kind == "stablehlo.while") return unroll(f, operation, names, operands);
  if (operation.kind == "stablehlo.optimization_barrier") return operands;
  if (operation.kind == "stablehlo.select" && operands.size() == 3)
    if (const std::optional<double> mask = known(f, operands[0]))
      return {operands[*mask != 0 ? 1 : 2]};
  if (operation.kind == "stablehlo.concatenate") {
    std::erase_if(operands, [&](int v) { return type_of(f, v).is_empty(); });
    if (operands.size() == 1) return operands;
  }
  if (operation.kind == "stablehlo.maximum" && operands.size() == 2)
    for (std::size_t i : {0, 1})
      if (known(f, operands[i]) == -std::numeric_limits<double>::infinity())
        return {operands[1 - i]};  // jax begins every softmax so
  if (operation.kind == "stablehlo.subtract" && operands.size() == 2 &&
      known(f, operands[1]) == 0.0)
    return {operands[0]};
  return compute(f, operation, operands);
}

std::vector<int> run_block(Flattening& f, const Block& block, Names& names) {
  for (const Operation& operation : block.operations) {
    if (operation.kind == "stablehlo.return" || operation.kind == "func.return")
      return values_of(operation, names);
    const std::vector<int> results = run(f, operation, names);
    if (results.size() != operation.results.size())
      fail_at(operation.place, "\"{}\" has {} results, not {}", excerpt(operation.kind),
              operation.results.size(), results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Type& said = f.module.types[static_cast<std::size_t>(operation.results[i])];
      if (type_of(f, results[i]) != said)
        fail_at(operation.place, "\"{}\" gives {}, not {}", excerpt(operation.kind),
                to_string(type_of(f, results[i])), to_string(said));
      names[operation.results[i]] = results[i];
    }
  }
  if (block.operations.empty()) return {};
  fail_at(block.operations.back().place, "a block ends without a return");
}

}  // namespace

void prune(FlatFunction& flat) {
  std::vector<bool> read(flat.values.size());
  const auto mark = [&](const std::vector<int>& values) {
    for (int value : values) read[static_cast<std::size_t>(value)] = true;
  };
  mark(flat.results);
  std::vector<FlatOperation> kept;
  for (auto operation = flat.operations.rbegin(); operation != flat.operations.rend(); ++operation)
    if (std::ranges::any_of(operation->results,
                            [&](int value) { return read[static_cast<std::size_t>(value)]; })) {
      mark(operation->operands);
      kept.push_back(std::move(*operation));
    }
  flat.operations.assign(std::make_move_iterator(kept.rbegin()),
                         std::make_move_iterator(kept.rend()));
  for (std::size_t i = 0; i < flat.operations.size(); ++i)
    for (int result : flat.operations[i].results)
      flat.values[static_cast<std::size_t>(result)].producer = static_cast<int>(i);
}

namespace {

std::vector<std::string> result_names(const Operation& function) {
  std::vector<std::string> names;
  const Attribute* const attributes = function.find("res_attrs");
  if (!attributes) return names;
  for (const Attribute& item : attributes->items) {
    names.emplace_back();
    for (const auto& [key, value] : item.fields)
      if (key == "jax.result_info") names.back() = value.text;
  }
  return names;
}

}  // namespace

FlatFunction flatten(std::shared_ptr<const Module> module) {
  const auto main = module->functions.find("main");
  require(main != module->functions.end(),
          "StableHLO: the text has no function @main, which jax calls what it lowers");
  const Operation& function = *main->second;
  const Block& body = function.blocks[0];
  Flattening f{.module = *module};
  Names names;
  for (int argument : body.arguments) {
    const Type& type = module->types[static_cast<std::size_t>(argument)];
    if (type.element == "ui64") fail_at(function.place, "an argument is ui64; give uint32");
    tensor_type(type, function.place);
    f.flat.arguments.push_back(names[argument] = add_value(f, type, function.place));
  }
  f.flat.results = run_block(f, body, names);
  prune(f.flat);
  f.flat.names = body.names;
  f.flat.result_names = result_names(function);
  f.flat.module = std::move(module);
  return std::move(f.flat);
}

}  // namespace alpa::stablehlo
