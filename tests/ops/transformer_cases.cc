// Rows of the case table for the operators of transformers.
#include <algorithm>
#include <cmath>

#include "cases.h"
#include "reference.h"

namespace alpa::testing::cases {
namespace {

std::int64_t elements(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t extent : shape) n *= extent;
  return n;
}

Tensor empty(const Shape& shape) {
  return {shape, std::vector<double>(static_cast<std::size_t>(elements(shape)))};
}

DType statistics_of(DType dtype) { return dtype == f64 ? f64 : f32; }

// ---- RMS norm

Reference rms_norm(double epsilon) {
  return [epsilon](const std::vector<Tensor>& v) {
    const std::size_t width = v[1].data.size(), rows = v[0].data.size() / width;
    Tensor y = v[0], rstd = empty(Shape(v[0].shape.begin(), v[0].shape.end() - 1));
    for (std::size_t r = 0; r < rows; ++r) {
      double squares = 0;
      for (std::size_t c = 0; c < width; ++c)
        squares += v[0].data[r * width + c] * v[0].data[r * width + c];
      rstd.data[r] = 1 / std::sqrt(squares / double(width) + epsilon);
      for (std::size_t c = 0; c < width; ++c) y.data[r * width + c] *= rstd.data[r] * v[1].data[c];
    }
    return std::vector<Tensor>{y, rstd};
  };
}

/// (dy, x, scale, rstd) → (dx, dscale), whatever rstd is.
Reference rms_norm_grad() {
  return [](const std::vector<Tensor>& v) {
    const std::size_t width = v[2].data.size(), rows = v[3].data.size();
    Tensor dx = v[1], dscale = empty(v[2].shape);
    for (std::size_t r = 0; r < rows; ++r) {
      const double rstd = v[3].data[r];
      double mean = 0;
      const auto dy = [&](std::size_t c) { return v[0].data[r * width + c]; };
      const auto x = [&](std::size_t c) { return v[1].data[r * width + c]; };
      for (std::size_t c = 0; c < width; ++c) {
        mean += dy(c) * v[2].data[c] * x(c) * rstd / double(width);
        dscale.data[c] += dy(c) * x(c) * rstd;
      }
      for (std::size_t c = 0; c < width; ++c)
        dx.data[r * width + c] = rstd * (dy(c) * v[2].data[c] - x(c) * rstd * mean);
    }
    return std::vector<Tensor>{dx, dscale};
  };
}

void add_rms_norm(std::vector<Case>& table, DType dtype, const Shape& rows, std::int64_t width) {
  Shape shape = rows;
  shape.push_back(width);
  const double points = double(elements(shape));
  const Operand x{{dtype, shape}}, scale{{dtype, {width}}, 0.5, 1.5};
  table.push_back({&ops::rms_norm, {x, scale}, rms_norm(1e-3), 5 * points, {{"epsilon", 1e-3}}});
  table.push_back({&ops::rms_norm_grad,
                   {x, x, scale, {{statistics_of(dtype), rows}, 0.5, 1.5}},
                   rms_norm_grad(),
                   9 * points});
  table.push_back({&ops::rms_norm_grad,
                   {x, x, scale, {{statistics_of(dtype), rows}, 0.5, 1.5}, x},
                   onto_last(rms_norm_grad()),
                   10 * points});
}

// ---- rotary position embedding

/// `original`: positions of training, of Llama 3.1's scaling; 0: all pairs are slower.
struct Slower {
  double factor = 1;
  std::int64_t original = 0;
  std::vector<double> factors = {};  ///< LongRoPE's, of each pair
  double magnitude = 1;              ///< of cosines and sines
};
constexpr double kLow = 1, kHigh = 4;

double frequency_of(double base, double i, double width, const Slower& slower) {
  const double written = std::pow(base, -2 * i / width);
  if (!slower.factors.empty()) return written / slower.factors[static_cast<std::size_t>(i)];
  if (slower.original == 0) return written / slower.factor;
  const double length = 2 * std::acos(-1.0) / written;  // of a turn, in positions
  const auto original = double(slower.original);
  if (length < original / kHigh) return written;
  if (length > original / kLow) return written / slower.factor;
  const double smooth = (original / length - kLow) / (kHigh - kLow);
  return (1 - smooth) * written / slower.factor + smooth * written;
}

Reference rotary(double base, bool interleaved, bool backward, const Slower& slower) {
  return [=](const std::vector<Tensor>& v) {
    Tensor y = v[0];
    const std::int64_t width = y.shape[3], half = width / 2;
    for_each({y.shape[0], y.shape[1], y.shape[2], half}, [&](const Shape& at) {
      const std::int64_t i = at[3];
      const double position = v[1].shape.size() == 2 ? v[1].at({at[0], at[1]}) : v[1].at({at[1]});
      const double angle =
          (backward ? -1 : 1) * position * frequency_of(base, double(i), double(width), slower);
      const Shape first{at[0], at[1], at[2], interleaved ? 2 * i : i};
      const Shape second{at[0], at[1], at[2], interleaved ? 2 * i + 1 : i + half};
      const double a = v[0].at(first), b = v[0].at(second);
      y.at(first) = slower.magnitude * (a * std::cos(angle) - b * std::sin(angle));
      y.at(second) = slower.magnitude * (b * std::cos(angle) + a * std::sin(angle));
    });
    return std::vector<Tensor>{y};
  };
}

void add_rotary(std::vector<Case>& table, DType dtype, const Shape& x, bool per_row,
                std::int64_t interleaved, std::int64_t backward, const Slower& slower = {}) {
  const Shape positions = per_row ? Shape{x[0], x[1]} : Shape{x[1]};
  table.push_back({&ops::rotary,
                   {{{dtype, x}}, {{i32, positions}, 0, 50}},
                   rotary(100, interleaved != 0, backward != 0, slower),
                   20 * double(elements(x)),
                   {{"base", 100.0},
                    {"interleaved", interleaved},
                    {"factor", slower.factor},
                    {"original_positions", slower.original},
                    {"low_turns", kLow},
                    {"high_turns", kHigh},
                    {"backward", backward}}});
  if (slower.factors.empty()) return;
  table.back().attributes.set("factors", slower.factors);
  table.back().attributes.set("magnitude", slower.magnitude);
}

// ---- attention

struct AttentionCase {
  std::int64_t batch, queries, heads, keys, key_heads, width;
  bool causal = false, mask = false;
  std::int64_t window = 0;
  double soft_cap = 0;
  bool segments = false;
  const Tensor* positions = nullptr;  ///< of a cache
};

/// The operands from `first` on that hide keys.
struct Hiding {
  const Tensor *mask = nullptr, *query_segments = nullptr, *key_segments = nullptr;
  Hiding(const AttentionCase& c, const std::vector<Tensor>& v, std::size_t first) {
    if (c.mask) mask = &v[first++];
    if (c.segments) query_segments = &v[first], key_segments = &v[first + 1];
  }
};

/// Whether query t of row b sees key s: only the last `window` of those up to its own.
bool is_seen(const AttentionCase& c, const Hiding& hiding, std::int64_t b, std::int64_t t,
             std::int64_t s) {
  const std::int64_t own = c.positions != nullptr ? std::int64_t(c.positions->at({b})) + t
                           : c.causal             ? t + c.keys - c.queries
                                                  : c.keys - 1;
  return s <= own && (c.window == 0 || s > own - c.window) &&
         (hiding.mask == nullptr || hiding.mask->at({b, s}) != 0) &&
         (hiding.key_segments == nullptr ||
          hiding.query_segments->at({b, t}) == hiding.key_segments->at({b, s}));
}

/// A product of q and k as the score, and the derivative of that.
std::pair<double, double> score_of(const AttentionCase& c, double scale, double product) {
  if (c.soft_cap == 0) return {scale * product, scale};
  const double share = std::tanh(scale * product / c.soft_cap);
  return {c.soft_cap * share, scale * (1 - share * share)};
}

double product_of(const AttentionCase& c, const Tensor& q, const Tensor& k, std::int64_t b,
                  std::int64_t t, std::int64_t h, std::int64_t s) {
  double product = 0;
  for (std::int64_t d = 0; d < c.width; ++d)
    product += q.at({b, t, h, d}) * k.at({b, s, h / (c.heads / c.key_heads), d});
  return product;
}

/// exp(score - shift) of (row, query, head) and a key it sees, else 0.
double probability(const AttentionCase& c, double scale, const Tensor& q, const Tensor& k,
                   const Hiding& hiding, std::int64_t b, std::int64_t t, std::int64_t h,
                   std::int64_t s, double shift) {
  if (!is_seen(c, hiding, b, t, s)) return 0;
  return std::exp(score_of(c, scale, product_of(c, q, k, b, t, h, s)).first - shift);
}

Reference attention(const AttentionCase& c, double scale) {
  return [=](const std::vector<Tensor>& v) {
    Tensor y = empty(v[0].shape), lse = empty({c.batch, c.heads, c.queries});
    const Hiding hiding(c, v, 3);
    for_each({c.batch, c.queries, c.heads}, [&](const Shape& at) {
      double sum = 0;
      std::vector<double> values(static_cast<std::size_t>(c.width));
      for (std::int64_t s = 0; s < c.keys; ++s) {
        const double p = probability(c, scale, v[0], v[1], hiding, at[0], at[1], at[2], s, 0);
        sum += p;
        for (std::int64_t d = 0; d < c.width; ++d)
          values[std::size_t(d)] += p * v[2].at({at[0], s, at[2] / (c.heads / c.key_heads), d});
      }
      lse.at({at[0], at[2], at[1]}) = sum > 0 ? std::log(sum) : INFINITY;
      for (std::int64_t d = 0; d < c.width; ++d)
        y.at({at[0], at[1], at[2], d}) = sum > 0 ? values[std::size_t(d)] / sum : 0;
    });
    return std::vector<Tensor>{y, lse};
  };
}

/// (dy, q, k, v, y, lse, maybe mask) → (dq, dk, dv), whatever y and lse are.
Reference attention_grad(const AttentionCase& c, double scale) {
  return [=](const std::vector<Tensor>& v) {
    Tensor dq = empty(v[1].shape), dk = empty(v[2].shape), dv = dk;
    const Hiding hiding(c, v, 6);
    for_each({c.batch, c.queries, c.heads, c.keys}, [&](const Shape& at) {
      const std::int64_t b = at[0], t = at[1], h = at[2], s = at[3],
                         kh = h / (c.heads / c.key_heads);
      const double p = probability(c, scale, v[1], v[2], hiding, b, t, h, s, v[5].at({b, h, t}));
      double dp = 0;
      for (std::int64_t d = 0; d < c.width; ++d)
        dp += v[0].at({b, t, h, d}) * (v[3].at({b, s, kh, d}) - v[4].at({b, t, h, d}));
      const double slope = score_of(c, scale, product_of(c, v[1], v[2], b, t, h, s)).second;
      for (std::int64_t d = 0; d < c.width; ++d) {
        dq.at({b, t, h, d}) += p * dp * slope * v[2].at({b, s, kh, d});
        dk.at({b, s, kh, d}) += p * dp * slope * v[1].at({b, t, h, d});
        dv.at({b, s, kh, d}) += p * v[0].at({b, t, h, d});
      }
    });
    return std::vector<Tensor>{dq, dk, dv};
  };
}

Attributes attributes_of(const AttentionCase& c, double scale) {
  Attributes attributes{{"scale", scale}};
  if (c.window > 0) attributes.set("window", c.window);
  if (c.soft_cap > 0) attributes.set("soft_cap", c.soft_cap);
  return attributes;
}

/// FLOPs of so many per point: of a window w of S keys, the share w (2 S - w) / S² of all.
double flops_of(const AttentionCase& c, double per_point) {
  const double share = c.window > 0 ? std::min(1.0, double(c.window) / double(c.keys)) : 1;
  return per_point * share * (2 - share) * double(c.batch * c.queries * c.heads * c.keys * c.width);
}

void add_attention(std::vector<Case>& table, DType dtype, const AttentionCase& c) {
  const double scale = 0.5;
  Attributes attributes = attributes_of(c, scale);
  attributes.set("causal", std::int64_t{c.causal});
  attributes.set("dropout", 0.0);
  const Operand q{{dtype, {c.batch, c.queries, c.heads, c.width}}, -1, 1},
      k{{dtype, {c.batch, c.keys, c.key_heads, c.width}}, -1, 1},
      rows{{statistics_of(dtype), {c.batch, c.heads, c.queries}}, 0.5, 2};
  std::vector<Operand> forward{q, k, k}, backward{q, q, k, k, q, rows};
  if (c.mask)
    for (auto* operands : {&forward, &backward})
      operands->push_back({{u8, {c.batch, c.keys}}, 0, 1});
  if (c.segments)
    for (auto* operands : {&forward, &backward}) {
      operands->push_back({{i32, {c.batch, c.queries}}, 0, 2});
      operands->push_back({{i32, {c.batch, c.keys}}, 0, 2});
    }
  table.push_back({&ops::attention, forward, attention(c, scale), flops_of(c, 4), attributes});
  table.push_back(
      {&ops::attention_grad, backward, attention_grad(c, scale), flops_of(c, 10), attributes});
}

Reference cached_attention(const AttentionCase& c, double scale) {
  return [=](const std::vector<Tensor>& v) {
    AttentionCase of_cache = c;
    of_cache.positions = &v[3];
    return std::vector<Tensor>{attention(of_cache, scale)(v)[0]};
  };
}

/// Positions from `low` on.
void add_cached_attention(std::vector<Case>& table, DType dtype, const AttentionCase& c,
                          double low = 0) {
  const Operand q{{dtype, {c.batch, c.queries, c.heads, c.width}}, -1, 1},
      k{{dtype, {c.batch, c.keys, c.key_heads, c.width}}, -1, 1},
      positions{{i32, {c.batch}}, low, double(c.keys - c.queries)};
  table.push_back({&ops::cached_attention,
                   {q, k, k, positions},
                   cached_attention(c, 0.5),
                   flops_of(c, 4),
                   attributes_of(c, 0.5)});
}

Reference write_rows() {
  return [](const std::vector<Tensor>& v) {
    Tensor y = v[0];
    for_each(v[1].shape, [&](const Shape& at) {
      Shape to = at;
      to[1] += std::int64_t(v[2].at({at[0]}));
      if (to[1] >= 0 && to[1] < y.shape[1]) y.at(to) = v[1].at(at);
    });
    return std::vector<Tensor>{y};
  };
}

/// Positions some of which are outside.
void add_write_rows(std::vector<Case>& table, DType dtype, const Shape& x, std::int64_t rows) {
  Shape written = x;
  written[1] = rows;
  table.push_back({&ops::write_rows,
                   {{{dtype, x}}, {{dtype, written}}, {{i32, {x[0]}}, double(-rows), double(x[1])}},
                   write_rows()});
}

// ---- random numbers: tests of their own (tests/api/dropout_test.cc) check the values

void add_dropped(std::vector<Case>& table) {
  const Attributes dropout{{"rate", 0.25}, {"stream", std::int64_t{3}}};
  for (DType dtype : {f64, f32, bf16, f16})
    table.push_back({&ops::dropout, {{{dtype, {5, 7}}}}, {}, 35 * 20, dropout});
  table.push_back({&ops::dropout, {{{f32, {}}}}, {}, 20, dropout});
  const Attributes attention{
      {"causal", std::int64_t{1}}, {"scale", 0.5}, {"dropout", 0.25}, {"stream", std::int64_t{3}}};
  for (DType dtype : {f64, f32}) {
    const Operand q{{dtype, {2, 3, 4, 2}}, -1, 1}, k{{dtype, {2, 5, 2, 2}}, -1, 1},
        rows{{dtype, {2, 4, 3}}, 0.5, 2};
    table.push_back({&ops::attention, {q, k, k}, {}, 240 * 4, attention});
    table.push_back({&ops::attention_grad, {q, q, k, k, q, rows}, {}, 240 * 10, attention});
  }
}

}  // namespace

std::vector<Case> transformer_cases() {
  std::vector<Case> table;
  add_rms_norm(table, f64, {5}, 6);
  add_rms_norm(table, f64, {2, 3}, 1);
  add_rms_norm(table, f32, {3}, 1040);
  add_rms_norm(table, f32, {97}, 400);
  add_rms_norm(table, bf16, {3, 2}, 8);
  add_rms_norm(table, f16, {7}, 5);
  add_rotary(table, f64, {2, 5, 3, 6}, false, 0, 0);
  add_rotary(table, f64, {2, 5, 3, 6}, true, 1, 1);
  add_rotary(table, f32, {1, 4, 1, 2}, false, 1, 0);
  add_rotary(table, f32, {3, 2, 2, 520}, true, 0, 1);
  add_rotary(table, bf16, {2, 3, 2, 8}, false, 0, 0);
  add_rotary(table, f16, {2, 3, 2, 8}, true, 1, 0);
  add_rotary(table, f32, {2, 5, 1, 12}, false, 0, 0, {8, 32});
  add_rotary(table, f32, {1, 6, 2, 16}, true, 1, 1, {8, 32});
  add_rotary(table, f64, {1, 3, 2, 4}, false, 0, 0, {2.5});
  add_rotary(table, f64, {2, 3, 2, 6}, false, 0, 0, {1, 0, {1.5, 4, 9}, 1.25});
  add_rotary(table, f32, {2, 4, 1, 8}, true, 1, 1, {1, 0, {1, 2.5, 3, 0.5}, 0.75});
  add_attention(table, f64, {2, 3, 3, 3, 3, 4, true});
  add_attention(table, f64, {2, 3, 4, 5, 2, 2});
  add_attention(table, f64, {1, 2, 3, 4, 1, 3, true});
  add_attention(table, f64, {2, 3, 2, 7, 2, 2, false, true});
  add_attention(table, f32, {1, 1, 1, 1, 1, 1});
  add_attention(table, f32, {1, 66, 2, 130, 1, 3, true});  // several tiles of queries and of keys
  add_attention(table, f32, {1, 5, 1, 3, 1, 33});
  add_attention(table, bf16, {2, 4, 2, 4, 2, 8, true});
  add_attention(table, f16, {1, 3, 2, 5, 1, 4});
  add_attention(table, f16, {2, 3, 4, 5, 2, 16, true});
  // Windows, those of several tiles too, and soft caps.
  add_attention(table, f64, {2, 5, 4, 5, 2, 4, true, false, 3});
  add_attention(table, f64, {1, 4, 2, 7, 2, 3, true, true, 2, 0.7});
  add_attention(table, f64, {2, 3, 3, 4, 1, 2, false, false, 0, 1.5});
  add_attention(table, f32, {1, 150, 1, 210, 1, 8, true, false, 70, 2});
  add_attention(table, f32, {1, 130, 2, 130, 1, 3, true, false, 1});
  add_attention(table, bf16, {1, 140, 2, 150, 1, 16, true, false, 40});
  add_attention(table, f16, {2, 3, 4, 5, 2, 16, true, false, 2, 1});
  // Segments.
  add_attention(table, f64, {2, 5, 4, 5, 2, 4, true, false, 0, 0, true});
  add_attention(table, f64, {2, 4, 2, 6, 2, 3, false, true, 0, 0.9, true});
  add_attention(table, f32, {2, 70, 1, 130, 1, 8, true, false, 60, 0, true});
  add_attention(table, bf16, {2, 66, 2, 70, 1, 16, true, false, 0, 0, true});
  add_attention(table, f16, {2, 3, 4, 5, 2, 16, true, true, 0, 0, true});
  add_cached_attention(table, f64, {2, 3, 4, 9, 2, 2, false, false, 4, 0.8});
  add_cached_attention(table, f32, {2, 1, 4, 150, 1, 33, false, false, 20, 1.1}, 100);
  add_cached_attention(table, f32, {1, 66, 2, 230, 2, 16, false, false, 75}, 130);
  add_cached_attention(table, f64, {2, 1, 3, 5, 3, 4});
  add_cached_attention(table, f64, {2, 3, 4, 7, 2, 2});
  add_cached_attention(table, f32, {3, 2, 4, 150, 1, 33});
  add_cached_attention(table, f32, {1, 66, 2, 230, 2, 16}, 130);
  add_cached_attention(table, bf16, {2, 1, 4, 6, 2, 8});
  add_cached_attention(table, f16, {2, 4, 2, 9, 2, 16});
  add_write_rows(table, f64, {3, 5, 2, 4}, 2);
  add_write_rows(table, f32, {2, 6, 4, 8}, 1);
  add_write_rows(table, bf16, {2, 4, 3}, 4);
  add_write_rows(table, i32, {4, 3}, 1);
  add_write_rows(table, u8, {1, 40, 7}, 9);
  add_dropped(table);
  return table;
}

}  // namespace alpa::testing::cases
