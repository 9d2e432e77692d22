// src/import/bits.cc — operators that only foreign programs have: bits of unsigned integers, as
// threefry's random numbers need them, and tensors of given elements

#include "alpa/ops/custom.h"
#include "alpa/ops/ops.h"
#include "src/import/emit.h"

namespace alpa::stablehlo {
namespace {

using Bits = std::uint32_t (*)(std::uint32_t, std::uint32_t);

struct BitsRow {
  std::string_view name;
  Bits compute;
  bool mask = false;  ///< the result is u8
};

constexpr BitsRow kBits[] = {
    {"add", [](std::uint32_t x, std::uint32_t y) { return x + y; }},
    {"sub", [](std::uint32_t x, std::uint32_t y) { return x - y; }},
    {"mul", [](std::uint32_t x, std::uint32_t y) { return x * y; }},
    {"div", [](std::uint32_t x, std::uint32_t y) { return y == 0 ? ~y : x / y; }},
    {"rem", [](std::uint32_t x, std::uint32_t y) { return y == 0 ? x : x % y; }},
    {"and", [](std::uint32_t x, std::uint32_t y) { return x & y; }},
    {"or", [](std::uint32_t x, std::uint32_t y) { return x | y; }},
    {"xor", [](std::uint32_t x, std::uint32_t y) { return x ^ y; }},
    {"shl", [](std::uint32_t x, std::uint32_t y) { return y < 32 ? x << y : 0; }},
    {"shr", [](std::uint32_t x, std::uint32_t y) { return y < 32 ? x >> y : 0; }},
    {"lt", [](std::uint32_t x, std::uint32_t y) { return std::uint32_t{x < y}; }, true},
    {"le", [](std::uint32_t x, std::uint32_t y) { return std::uint32_t{x <= y}; }, true},
    {"gt", [](std::uint32_t x, std::uint32_t y) { return std::uint32_t{x > y}; }, true},
    {"ge", [](std::uint32_t x, std::uint32_t y) { return std::uint32_t{x >= y}; }, true},
};

const BitsRow& row_of(std::string_view name) {
  for (const BitsRow& row : kBits)
    if (row.name == name) return row;
  alpa::fail("stablehlo.bits: there is no \"{}\"", excerpt(name));
}

constexpr std::int64_t kGrain = 4096;

void run_bits(const OpCall& call) {
  const BitsRow& row = row_of(call.attributes.string("what"));
  const auto *x = call.operands[0].as<std::uint32_t>(), *y = call.operands[1].as<std::uint32_t>();
  call.parallel_for(call.results[0].type.elements(), kGrain, [&](auto begin, auto end) {
    for (auto i = begin; i < end; ++i)
      if (row.mask)
        call.results[0].as<std::uint8_t>()[i] = static_cast<std::uint8_t>(row.compute(x[i], y[i]));
      else
        call.results[0].as<std::uint32_t>()[i] = row.compute(x[i], y[i]);
  });
}

void run_bits_as(const OpCall& call) {
  const bool converts = call.attributes.string("what") == "f32";
  const auto* x = call.operands[0].as<std::uint32_t>();
  call.parallel_for(call.results[0].type.elements(), kGrain, [&](auto begin, auto end) {
    for (auto i = begin; i < end; ++i)
      if (converts)
        call.results[0].as<float>()[i] = static_cast<float>(x[i]);
      else
        call.results[0].as<std::uint32_t>()[i] = x[i];
  });
}

/// positions [n] -> the elements there
void run_literal(const OpCall& call) {
  const std::vector<double>& values = call.attributes.reals("values");
  const auto* positions = call.operands[0].as<std::int32_t>();
  for (std::int64_t i = 0; i < call.results[0].type.elements(); ++i)
    call.results[0].set(i, values.at(static_cast<std::size_t>(positions[i])));
}

const CustomOp kBitsOp = define_op({
    .name = "stablehlo.bits",
    .dims = "..., ... -> ...",
    .result_dtypes =
        [](const auto&, const Attributes& attributes) {
          return std::vector<DType>{row_of(attributes.string("what")).mask ? u8 : i32};
        },
    .cpu = run_bits,
});

const CustomOp kBitsAs = define_op({
    .name = "stablehlo.bits_as",
    .dims = "... -> ...",
    .result_dtypes =
        [](const auto&, const Attributes& attributes) {
          return std::vector<DType>{attributes.string("what") == "as_i32" ? i32 : f32};
        },
    .gradient = [](const GradientCall&) { return Values{Value{}}; },
    .cpu = run_bits_as,
});

const CustomOp kLiteral = define_op({
    .name = "stablehlo.literal",
    .dims = "n -> n",
    .result_dtypes =
        [](const auto&, const Attributes& attributes) {
          return std::vector<DType>{attributes.dtype("dtype")};
        },
    .cpu = run_literal,
});

/// Constants of more elements are an operator that has no CUDA function.
constexpr std::size_t kMostJoined = 32;

/// start + i · step, if the values are that; the step is not 0.
std::optional<std::pair<double, double>> progression(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const double start = values[0], step = values[1] - start;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != start + static_cast<double>(i) * step) return std::nullopt;
  return std::pair(start, step);
}

}  // namespace

Value bits(std::string_view what, Value x, Value y) {
  return kBitsOp({x, y}, {{"what", std::string(what)}})[0];
}

Value bits_as(std::string_view what, Value x) {
  return kBitsAs({x}, {{"what", std::string(what)}})[0];
}

Value literal(Recorder& graph, const std::vector<double>& values, const TensorType& type) {
  const auto n = static_cast<std::int64_t>(values.size());
  const TensorType row{type.dtype, {n}};
  if (const auto found = progression(values); found && type.dtype != u8)
    return reshape(iota(graph, row, 0) * found->second + found->first, type.shape);
  if (values.size() <= kMostJoined) {
    Values parts;
    for (double value : values) parts.push_back(constant(graph, value, type.dtype, {1}));
    return reshape(parts.size() == 1 ? parts[0] : concatenate(parts, 0), type.shape);
  }
  return reshape(
      kLiteral({iota(graph, {i32, {n}}, 0)}, {{"values", values}, {"dtype", type.dtype}})[0],
      type.shape);
}

}  // namespace alpa::stablehlo
