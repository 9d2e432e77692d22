#pragma once
/// An RMS norm and a causal fused attention as a program defines them, on nothing but what
/// alpa/alpa.h has. Both compute with any element type.
#include <alpa/alpa.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace alpa::testing {

/// Calls body(zero of the C++ type of f64 or f32).
template <class Body>
void with_float(const OpCall& call, const Body& body) {
  switch (call.operands.at(0).type.dtype) {
    case DType::f64: return body(double{});
    case DType::f32: return body(float{});
    default: fail("own operators of the tests take f32 and f64");
  }
}

// ---- RMS norm: x, gain -> x · gain / sqrt(mean(x²) + epsilon), and 1 / sqrt(mean(x²) + epsilon)

inline void rms_forward(const OpCall& call) {
  with_float(call, [&]<class T>(T) {
    const T *x = call.operands[0].as<T>(), *gain = call.operands[1].as<T>();
    T *y = call.results[0].as<T>(), *scale = call.results[1].as<T>();
    const std::int64_t width = call.operands[1].type.shape[0];
    call.parallel_for(call.results[1].type.elements(), 16, [&](auto begin, auto end) {
      for (std::int64_t r = begin; r < end; ++r) {
        double squares = 0;
        for (std::int64_t c = 0; c < width; ++c)
          squares += static_cast<double>(x[r * width + c]) * x[r * width + c];
        const double mean = squares / static_cast<double>(width);
        const double by = 1 / std::sqrt(mean + call.attributes.real("epsilon"));
        scale[r] = static_cast<T>(by);
        for (std::int64_t c = 0; c < width; ++c)
          y[r * width + c] = static_cast<T>(x[r * width + c] * by * gain[c]);
      }
    });
  });
}

/// dy, x, gain, scale -> dx, dgain: the latter is summed over the rows of the device.
inline void rms_backward(const OpCall& call) {
  with_float(call, [&]<class T>(T) {
    const auto in = [&](int i) { return call.operands[i].as<T>(); };
    const T *dy = in(0), *x = in(1), *gain = in(2), *scale = in(3);
    T *dx = call.results[0].as<T>(), *dgain = call.results[1].as<T>();
    const std::int64_t width = call.operands[2].type.shape[0];
    std::vector<double> sums(width);
    for (std::int64_t r = 0; r < call.operands[3].type.elements(); ++r) {
      double along = 0;
      for (std::int64_t c = 0; c < width; ++c)
        along += static_cast<double>(dy[r * width + c]) * gain[c] * x[r * width + c];
      const double by = scale[r], share = along * by * by / static_cast<double>(width);
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t i = r * width + c;
        dx[i] = static_cast<T>(by * (static_cast<double>(dy[i]) * gain[c] - x[i] * share));
        sums[c] += static_cast<double>(dy[i]) * x[i] * by;
      }
    }
    for (std::int64_t c = 0; c < width; ++c) dgain[c] = static_cast<T>(sums[c]);
  });
}

/// "PREFIXrms_norm" and its gradient, with launches on CUDA or without.
inline CustomOp define_rms_norm(
    const std::string& prefix,
    const std::function<void(const OpCall&, void* stream)>& forward_on_cuda = {},
    const std::function<void(const OpCall&, void* stream)>& backward_on_cuda = {},
    const std::function<std::int64_t(const OpCall&)>& scratch_of_backward = {}) {
  const CustomOp gradient = define_op({.name = prefix + "rms_norm_grad",
                                       .dims = "...c!, ...c!, c!, ... -> ...c!, c!",
                                       .linear = {0b0001},
                                       .cpu = rms_backward,
                                       .cuda = backward_on_cuda,
                                       .scratch_bytes = scratch_of_backward});
  return define_op({
      .name = prefix + "rms_norm",
      .dims = "...c!, c! -> ...c!, ...",
      .flops = [](const auto& in,
                  const Attributes&) { return 5.0 * static_cast<double>(in[0].elements()); },
      .gradient =
          [gradient](const GradientCall& g) {
            return gradient({g.result_gradients[0], g.operands[0], g.operands[1], g.results[1]});
          },
      .cpu = rms_forward,
      .cuda = forward_on_cuda,
  });
}

inline const CustomOp& own_rms_norm() {
  static const CustomOp norm = define_rms_norm("tests.");
  return norm;
}

// ---- causal attention: q, k, v [B, T, H, D] -> y, and the log-sum-exp of the scores [B, H, T]

/// One head of one row of the batch: its place in q and k, and the strides of T and D.
struct Head {
  std::int64_t queries, keys, q, k, lse, t_stride, s_stride, width, first_query;
};

template <class Body>
void for_each_head(const OpCall& call, const TensorView& q, const TensorView& k,
                   const TensorView& lse, const Body& body) {
  const Shape& shape = q.type.shape;
  call.parallel_for(shape[0] * shape[2], 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / shape[2], h = i % shape[2];
      body(Head{shape[1], k.type.shape[1], b * q.strides[0] + h * q.strides[2],
                b * k.strides[0] + h * k.strides[2], b * lse.strides[0] + h * lse.strides[1],
                q.strides[1], k.strides[1], shape[3], q.offset[1]});
    }
  });
}

template <class T>
double score(const T* q, const T* k, const Head& h, std::int64_t t, std::int64_t s) {
  double sum = 0;
  for (std::int64_t d = 0; d < h.width; ++d)
    sum += static_cast<double>(q[h.q + t * h.t_stride + d]) * k[h.k + s * h.s_stride + d];
  return sum / std::sqrt(static_cast<double>(h.width));
}

/// Keys that query `t` of the device sees: queries may be split, so its number is the whole's.
inline std::int64_t seen(const Head& h, std::int64_t t) {
  return std::min(h.keys, h.first_query + t + 1);
}

inline void attention_forward(const OpCall& call) {
  with_float(call, [&]<class T>(T) {
    const auto in = [&](int i) { return call.operands[i].as<T>(); };
    T *y = call.results[0].as<T>(), *lse = call.results[1].as<T>();
    const auto one_head = [&](const Head& h) {
      std::vector<double> row(h.width);
      for (std::int64_t t = 0; t < h.queries; ++t) {
        double sum = 0, largest = -INFINITY;
        for (std::int64_t s = 0; s < seen(h, t); ++s)
          largest = std::max(largest, score(in(0), in(1), h, t, s));
        std::fill(row.begin(), row.end(), 0);
        for (std::int64_t s = 0; s < seen(h, t); ++s) {
          const double weight = std::exp(score(in(0), in(1), h, t, s) - largest);
          sum += weight;
          for (std::int64_t d = 0; d < h.width; ++d)
            row[d] += weight * in(2)[h.k + s * h.s_stride + d];
        }
        lse[h.lse + t] = static_cast<T>(largest + std::log(sum));
        for (std::int64_t d = 0; d < h.width; ++d)
          y[h.q + t * h.t_stride + d] = static_cast<T>(row[d] / sum);
      }
    };
    for_each_head(call, call.operands[0], call.operands[1], call.results[1], one_head);
  });
}

/// dy, q, k, v, y, lse -> dq, dk, dv: the latter two are sums over the queries of the device.
inline void attention_backward(const OpCall& call) {
  with_float(call, [&]<class T>(T) {
    const auto in = [&](int i) { return call.operands[i].as<T>(); };
    T *dq = call.results[0].as<T>(), *dk = call.results[1].as<T>(), *dv = call.results[2].as<T>();
    for (const TensorView& result : call.results)
      for (std::int64_t i = 0; i < result.type.elements(); ++i) result.as<T>()[i] = 0;
    const auto one_head = [&](const Head& h) {
      const double scale = 1 / std::sqrt(static_cast<double>(h.width));
      for (std::int64_t t = 0; t < h.queries; ++t) {
        const std::int64_t q = h.q + t * h.t_stride;
        double along = 0;
        for (std::int64_t d = 0; d < h.width; ++d)
          along += static_cast<double>(in(0)[q + d]) * in(4)[q + d];
        for (std::int64_t s = 0; s < seen(h, t); ++s) {
          const std::int64_t k = h.k + s * h.s_stride;
          const double weight = std::exp(score(in(1), in(2), h, t, s) - in(5)[h.lse + t]);
          double dweight = 0;
          for (std::int64_t d = 0; d < h.width; ++d)
            dweight += static_cast<double>(in(0)[q + d]) * in(3)[k + d];
          const double dscore = weight * (dweight - along) * scale;
          for (std::int64_t d = 0; d < h.width; ++d) {
            dq[q + d] += static_cast<T>(dscore * in(2)[k + d]);
            dk[k + d] += static_cast<T>(dscore * in(1)[q + d]);
            dv[k + d] += static_cast<T>(weight * in(0)[q + d]);
          }
        }
      }
    };
    for_each_head(call, call.operands[1], call.operands[2], call.operands[5], one_head);
  });
}

inline const CustomOp& own_attention() {
  static const auto products = [](double count) {
    return [count](const std::vector<TensorType>& in, const Attributes&) {
      const Shape &q = in[1].shape, &k = in[2].shape;
      return count * 2.0 * static_cast<double>(q[0] * q[1] * k[1] * q[2] * q[3]);
    };
  };
  static const CustomOp gradient = define_op(
      {.name = "tests.attention_grad",
       .dims = "bthd!, bthd!, bs!hd!, bs!hd!, bthd!, bht -> bthd!, bs!hd!, bs!hd!",
       .result_dtypes = [](const auto& in,
                           const Attributes&) { return std::vector<DType>(3, in[0].dtype); },
       .flops = products(5),
       .linear = {},
       .cpu = attention_backward});
  static const CustomOp attention = define_op({
      .name = "tests.attention",
      .dims = "bthd!, bs!hd!, bs!hd! -> bthd!, bht",
      .flops = products(2),
      .gradient =
          [](const GradientCall& g) {
            return gradient({g.result_gradients[0], g.operands[0], g.operands[1], g.operands[2],
                             g.results[0], g.results[1]});
          },
      .cpu = attention_forward,
  });
  return attention;
}

// ---- softmax, with a wrong rule

/// Softmax over the last dimension.
inline void softmax_rows(const OpCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  const std::int64_t width = x.type.shape.back();
  for (std::int64_t r = 0; width > 0 && r < x.type.elements() / width; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < width; ++c) sum += std::exp(x.get(r * width + c));
    for (std::int64_t c = 0; c < width; ++c)
      y.set(r * width + c, std::exp(x.get(r * width + c)) / sum);
  }
}

/// Says that rows may be split, which they may not.
inline const CustomOp& wrong_softmax() {
  static const CustomOp softmax =
      define_op({.name = "tests.softmax", .dims = "...c -> ...c", .cpu = softmax_rows});
  return softmax;
}

// ---- a model of two blocks, with our operators or with those above

struct SmallDecoder {
  bool own = false;

  static constexpr std::int64_t kHeads = 3, kWidth = 12;

  Value normed(Value x, const nn::Scope& in, const std::string& name) const {
    const Value gain = in.parameter(name, {x.dim(-1)}, ones);
    if (own) return own_rms_norm()({x, gain}, {{"epsilon", 1e-6}})[0];
    return rms_norm(x, gain, 1e-6);
  }

  Value attend(Value q, Value k, Value v) const {
    if (own) return own_attention()({q, k, v})[0];
    return attention(q, k, v, {.causal = true});
  }

  Value block(Value x, std::int64_t i) const {
    const nn::Scope in(x, "blocks", i);
    const nn::LayerId id("mix");
    const nn::Scope layer(x, id, "mix");
    const Shape heads{x.dim(0), x.dim(1), kHeads, kWidth / kHeads};
    const auto project = [&](const char* name) { return nn::Dense(kWidth, {.name = name}); };
    const Value y = normed(x, layer, "gain");
    const Value mixed = attend(reshape(project("q")(y), heads), reshape(project("k")(y), heads),
                               reshape(project("v")(y), heads));
    return x + project("out")(reshape(mixed, x.shape()));
  }

  LossAndMetrics operator()(const Batch& b) const {
    Value x = mark_pipeline_boundary(block(b["x"], 0));
    return nn::mean_squared_error(block(x, 1), b["y"]);
  }
};

/// Twelve rows of five tokens, uneven on most meshes.
inline std::map<std::string, Array> small_batch() {
  const Shape shape{12, 5, SmallDecoder::kWidth};
  std::vector<float> x(num_elements(shape)), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(0.37F * static_cast<float>(i)), y[i] = std::cos(0.11F * static_cast<float>(i));
  return {{"x", Array(x, shape)}, {"y", Array(y, shape)}};
}

inline TrainingStep small_step(bool own) {
  return training_step(inputs_of(small_batch()), SmallDecoder{own},
                       optim::Sgd{.learning_rate = 0.3, .momentum = 0.9});
}

}  // namespace alpa::testing
