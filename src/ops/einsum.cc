// src/ops/einsum.cc — z[…] = sum over the letters that z lacks of x[…] y[…], e.g. "ik,kj->ij"
#include <algorithm>
#include <array>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

struct Equation {
  std::string_view text, x, y, z;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

void check_letters(const Equation& e, std::string_view letters) {
  for (std::size_t i = 0; i < letters.size(); ++i) {
    require(is_letter(letters[i]), "einsum \"{}\": '{}' is not a letter; write e.g. \"ik,kj->ij\"",
            e.text, letters[i]);
    require(!has(letters.substr(0, i), letters[i]),
            "einsum \"{}\": letter {} occurs twice in one tensor", e.text, letters[i]);
  }
}

Equation parse(std::string_view text) {
  const std::size_t comma = text.find(','), arrow = text.find("->");
  require(comma != std::string_view::npos && arrow != std::string_view::npos && comma < arrow,
          "einsum \"{}\": the equation must name two operands and a result, e.g. \"ik,kj->ij\"",
          text);
  const Equation e{text, text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1),
                   text.substr(arrow + 2)};
  for (std::string_view letters : {e.x, e.y, e.z}) check_letters(e, letters);
  for (char c : e.z)
    require(has(e.x, c) || has(e.y, c), "einsum \"{}\": letter {} of the result is in no operand",
            text, c);
  for (std::string_view letters : {e.x, e.y})
    for (char c : letters)
      require(has(e.z, c) || (has(e.x, c) && has(e.y, c)),
              "einsum \"{}\": letter {} is in one operand only and not in the result; "
              "sum that operand first",
              text, c);
  return e;
}

/// Extents by letter; both operands checked.
std::array<std::int64_t, 128> extents(const Equation& e, const OpQuery& query) {
  std::array<std::int64_t, 128> sizes{};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string_view letters = i == 0 ? e.x : e.y;
    const Shape& shape = query.operands[i].shape;
    if (letters.size() != shape.size())
      fail("einsum \"{}\": {} has {} dimensions but the equation gives it {} ({})", e.text,
           ops::operand_name(i), shape.size(), letters.size(), ops::named_types(query.operands));
    for (std::size_t d = 0; d < letters.size(); ++d) {
      std::int64_t& size = sizes[static_cast<unsigned char>(letters[d])];
      if (size != 0 && size != shape[d])
        fail("einsum \"{}\": x has {}={} but y has {}={} ({})", e.text, letters[d], size,
             letters[d], shape[d], ops::named_types(query.operands));
      size = shape[d];
    }
  }
  return sizes;
}

DimFactors dims_of(std::string_view letters, const std::array<int, 128>& factor) {
  DimFactors dims;
  dims.reserve(letters.size());
  for (char c : letters) dims.push_back({factor[static_cast<unsigned char>(c)]});
  return dims;
}

/// Factors in order of first appearance in the result, then the summed letters.
Rule einsum_rule(const OpQuery& query) {
  ops::require_operands(query, 2);
  const Equation e = parse(query.attributes.string("equation"));
  const DType x = query.operands[0].dtype, y = query.operands[1].dtype;
  if (x != y || x == u8)
    fail("einsum \"{}\": the operands must have one numeric type ({}); cast one of them", e.text,
         ops::named_types(query.operands));
  const std::array<std::int64_t, 128> sizes = extents(e, query);
  std::array<int, 128> factor{};
  Rule rule;
  rule.reduced.resize(1);
  for (char c : e.z) {
    factor[static_cast<unsigned char>(c)] = static_cast<int>(rule.factors.size());
    rule.factors.push_back({sizes[static_cast<unsigned char>(c)]});
  }
  for (char c : e.x) {
    if (has(e.z, c)) continue;
    factor[static_cast<unsigned char>(c)] = static_cast<int>(rule.factors.size());
    rule.reduced[0].push_back({static_cast<int>(rule.factors.size())});
    rule.factors.push_back({sizes[static_cast<unsigned char>(c)]});
  }
  rule.flops_per_point = rule.factors.size() > e.z.size() ? 2 : 1;
  rule.operands = {dims_of(e.x, factor), dims_of(e.y, factor)};
  rule.results = {dims_of(e.z, factor)};
  rule.linear = {0b01, 0b10};
  return rule;
}

}  // namespace

const OpDef ops::einsum = {
    .name = "einsum",
    .rule = einsum_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Equation e = parse(n.attributes.string("equation"));
      const Value x = g.operand(n, 0), y = g.operand(n, 1);
      return {alpa::einsum(fmt::format("{},{}->{}", e.z, e.y, e.x), dys[0], y),
              alpa::einsum(fmt::format("{},{}->{}", e.x, e.z, e.y), x, dys[0])};
    },
    .work = Work::heavy,
    .chunked = ChunkedSum::contraction,
    .cpu = &cpu::einsum,
};

Value einsum(std::string_view equation, Value x, Value y) {
  require(x && y, "einsum \"{}\": an operand is an empty Value", equation);
  std::string letters(equation);
  letters.erase(std::remove(letters.begin(), letters.end(), ' '), letters.end());
  return recorder(x).emit_one(ops::einsum, {x, y}, {{"equation", letters}});
}

}  // namespace alpa
