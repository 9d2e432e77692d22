#include "reference.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace alpa::testing::cases {
namespace {

std::size_t flat(const Shape& shape, const Shape& index) {
  std::size_t position = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) position = position * shape[d] + index[d];
  return position;
}

Tensor empty(const Shape& shape, double value = 0) {
  std::size_t n = 1;
  for (std::int64_t extent : shape) n *= extent;
  return {shape, std::vector<double>(n, value)};
}

/// The element of a broadcast operand that belongs to `index` of the result.
double broadcast_at(const Tensor& x, const Shape& index) {
  Shape mine(x.shape.size());
  for (std::size_t d = 0; d < mine.size(); ++d)
    mine[d] = x.shape[d] == 1 ? 0 : index[d + index.size() - mine.size()];
  return x.at(mine);
}

}  // namespace

double& Tensor::at(const Shape& index) { return data[flat(shape, index)]; }

void for_each(const Shape& shape, const std::function<void(const Shape&)>& visit) {
  std::size_t n = 1;
  for (std::int64_t extent : shape) n *= extent;
  Shape index(shape.size(), 0);
  for (std::size_t i = 0; i < n; ++i) {
    visit(index);
    for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
}

Reference elementwise(const std::function<double(const std::vector<double>&)>& f) {
  return [f](const std::vector<Tensor>& x) {
    Shape shape;
    for (const Tensor& t : x) {
      shape.insert(shape.begin(), std::max(t.shape.size(), shape.size()) - shape.size(), 1);
      for (std::size_t d = 0; d < t.shape.size(); ++d) {
        std::int64_t& extent = shape[d + shape.size() - t.shape.size()];
        extent = std::max(extent, t.shape[d]);
      }
    }
    Tensor y = empty(shape);
    for_each(shape, [&](const Shape& index) {
      std::vector<double> values;
      for (const Tensor& t : x) values.push_back(broadcast_at(t, index));
      y.at(index) = f(values);
    });
    return std::vector<Tensor>{y};
  };
}

Reference contraction(const std::string& x, const std::string& y, const std::string& z) {
  return [=](const std::vector<Tensor>& in) {
    std::map<char, std::int64_t> sizes;
    for (std::size_t d = 0; d < x.size(); ++d) sizes[x[d]] = in[0].shape[d];
    for (std::size_t d = 0; d < y.size(); ++d) sizes[y[d]] = in[1].shape[d];
    std::string letters;
    Shape space;
    for (const auto& [letter, size] : sizes) letters += letter, space.push_back(size);
    const auto pick = [&](const std::string& wanted, const Shape& point) {
      Shape index;
      for (char c : wanted) index.push_back(point[letters.find(c)]);
      return index;
    };
    Tensor result = empty(pick(z, space));
    for_each(space, [&](const Shape& p) {
      result.at(pick(z, p)) += in[0].at(pick(x, p)) * in[1].at(pick(y, p));
    });
    return std::vector<Tensor>{result};
  };
}

Reference reduction(const std::vector<std::int64_t>& axes, bool keep_dims, double first,
                    double (*combine)(double, double)) {
  return [=](const std::vector<Tensor>& in) {
    const auto reduced = [&](std::size_t d) {
      return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
    };
    const auto kept = [&](const Shape& from, bool extents) {
      Shape to;
      for (std::size_t d = 0; d < from.size(); ++d) {
        if (!reduced(d))
          to.push_back(from[d]);
        else if (keep_dims)
          to.push_back(extents ? 1 : 0);
      }
      return to;
    };
    Tensor y = empty(kept(in[0].shape, true), first);
    for_each(in[0].shape, [&](const Shape& index) {
      double& total = y.at(kept(index, false));
      total = combine(total, in[0].at(index));
    });
    return std::vector<Tensor>{y};
  };
}

Reference gather(const Shape& result, const std::function<Shape(const Shape&)>& source) {
  return [=](const std::vector<Tensor>& in) {
    Tensor y = empty(result);
    for_each(result, [&](const Shape& index) { y.at(index) = in[0].at(source(index)); });
    return std::vector<Tensor>{y};
  };
}

Reference padded(std::int64_t axis, std::int64_t before, std::int64_t after, std::int64_t interior,
                 double value) {
  return [=](const std::vector<Tensor>& in) {
    Shape shape = in[0].shape;
    shape[axis] += before + after + (shape[axis] - 1) * interior;
    Tensor y = empty(shape);
    for (double& element : y.data) element = value;
    for_each(in[0].shape, [&](Shape index) {
      const double element = in[0].at(index);
      index[axis] = before + index[axis] * (interior + 1);
      y.at(index) = element;
    });
    return std::vector<Tensor>{y};
  };
}

Reference concatenation(std::int64_t axis) {
  return [axis](const std::vector<Tensor>& in) {
    Shape shape = in[0].shape;
    shape[axis] = 0;
    for (const Tensor& part : in) shape[axis] += part.shape[axis];
    Tensor y = empty(shape);
    std::int64_t begin = 0;
    for (const Tensor& part : in) {
      for_each(part.shape, [&](Shape index) {
        const double element = part.at(index);
        index[axis] += begin;
        y.at(index) = element;
      });
      begin += part.shape[axis];
    }
    return std::vector<Tensor>{y};
  };
}

Reference same_order(const Shape& result) {
  return [=](const std::vector<Tensor>& in) { return std::vector<Tensor>{{result, in[0].data}}; };
}

Reference channel_sums() {
  return [](const std::vector<Tensor>& v) {
    const Tensor &x = v.front(), &y = v.back();
    const std::size_t width = std::size_t(x.shape.back());
    Tensor sums = empty({x.shape.back()}), products = sums;
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      sums.data[i % width] += x.data[i];
      products.data[i % width] += x.data[i] * y.data[i];
    }
    return std::vector<Tensor>{sums, products};
  };
}

Reference layer_norm(double epsilon) {
  return [epsilon](const std::vector<Tensor>& v) {
    const Tensor &x = v[0], &scale = v[1], &bias = v[2];
    const std::size_t width = scale.data.size(), rows = x.data.size() / width;
    const Shape row_shape(x.shape.begin(), x.shape.end() - 1);
    Tensor y = x, means = empty(row_shape), rstds = means;
    for (std::size_t r = 0; r < rows; ++r) {
      const double* const row = x.data.data() + r * width;
      double mean = 0, variance = 0;
      for (std::size_t c = 0; c < width; ++c) mean += row[c] / double(width);
      for (std::size_t c = 0; c < width; ++c)
        variance += (row[c] - mean) * (row[c] - mean) / double(width);
      means.data[r] = mean, rstds.data[r] = 1 / std::sqrt(variance + epsilon);
      for (std::size_t c = 0; c < width; ++c)
        y.data[r * width + c] = (row[c] - mean) * rstds.data[r] * scale.data[c] + bias.data[c];
    }
    return std::vector<Tensor>{y, means, rstds};
  };
}

Reference layer_norm_grad() {
  return [](const std::vector<Tensor>& v) {
    const std::size_t width = v[2].data.size(), rows = v[3].data.size();
    Tensor dx = v[1], dscale = empty(v[2].shape), dbias = dscale;
    for (std::size_t r = 0; r < rows; ++r) {
      const auto dy = [&](std::size_t c) { return v[0].data[r * width + c]; };
      const auto normal = [&](std::size_t c) {
        return (v[1].data[r * width + c] - v[3].data[r]) * v[4].data[r];
      };
      double first = 0, second = 0;
      for (std::size_t c = 0; c < width; ++c) {
        first += dy(c) * v[2].data[c] / double(width);
        second += dy(c) * v[2].data[c] * normal(c) / double(width);
        dscale.data[c] += dy(c) * normal(c);
        dbias.data[c] += dy(c);
      }
      for (std::size_t c = 0; c < width; ++c)
        dx.data[r * width + c] = v[4].data[r] * (dy(c) * v[2].data[c] - first - normal(c) * second);
    }
    return std::vector<Tensor>{dx, dscale, dbias};
  };
}

Reference onto_last(const Reference& of) {
  return [of](const std::vector<Tensor>& v) {
    std::vector<Tensor> results = of({v.begin(), v.end() - 1});
    for (std::size_t i = 0; i < results[0].data.size(); ++i) results[0].data[i] += v.back().data[i];
    return results;
  };
}

Reference embedding() {
  return [](const std::vector<Tensor>& v) {
    Shape shape = v[1].shape;
    shape.push_back(v[0].shape[1]);
    Tensor y{shape, {}};
    for (double id : v[1].data)
      for (std::int64_t c = 0; c < v[0].shape[1]; ++c)
        y.data.push_back(v[0].at({std::int64_t(id), c}));
    return std::vector<Tensor>{y};
  };
}

Reference embedding_grad(std::int64_t rows) {
  return [rows](const std::vector<Tensor>& v) {
    const std::int64_t width = v[0].shape.back();
    Tensor dtable = empty({rows, width});
    for (std::size_t t = 0; t < v[1].data.size(); ++t)
      for (std::int64_t c = 0; c < width; ++c)
        dtable.at({std::int64_t(v[1].data[t]), c}) += v[0].data[t * width + c];
    return std::vector<Tensor>{dtable};
  };
}

namespace {

/// Weight of class `c` of `classes` in the target of a row.
double target_of(double label, std::size_t c, std::size_t classes, double smoothing) {
  return smoothing / double(classes) + (label == double(c) ? 1 - smoothing : 0);
}

}  // namespace

Reference cross_entropy(double smoothing) {
  return [smoothing](const std::vector<Tensor>& v) {
    Tensor lse = empty(v[1].shape), target = lse;
    const std::size_t rows = lse.data.size(), classes = v[0].data.size() / rows;
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        const double x = v[0].data[r * classes + c];
        sum += std::exp(x);
        target.data[r] += target_of(v[1].data[r], c, classes, smoothing) * x;
      }
      lse.data[r] = std::log(sum);
    }
    return std::vector<Tensor>{lse, target};
  };
}

Reference cross_entropy_grad(double smoothing) {
  return [smoothing](const std::vector<Tensor>& v) {
    Tensor dx = v[0];
    const std::size_t rows = v[1].data.size(), classes = dx.data.size() / rows;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < classes; ++c) {
        double& x = dx.data[r * classes + c];
        x = std::exp(x - v[2].data[r]) * v[3].data[r] +
            target_of(v[1].data[r], c, classes, smoothing) * v[4].data[r];
      }
    return std::vector<Tensor>{dx};
  };
}

Reference take_along_axis(std::int64_t axis) {
  return [axis](const std::vector<Tensor>& v) {
    Tensor y = empty(v[1].shape);
    for_each(y.shape, [&](const Shape& index) {
      Shape from = index;
      from[axis] = std::int64_t(v[1].at(index));
      y.at(index) = v[0].at(from);
    });
    return std::vector<Tensor>{y};
  };
}

Reference take_along_axis_grad(std::int64_t axis, std::int64_t extent) {
  return [=](const std::vector<Tensor>& v) {
    Shape shape = v[1].shape;
    shape[axis] = extent;
    Tensor dx = empty(shape);
    for_each(v[1].shape, [&](const Shape& index) {
      Shape to = index;
      to[axis] = std::int64_t(v[1].at(index));
      dx.at(to) += v[0].at(index);
    });
    return std::vector<Tensor>{dx};
  };
}

Reference cumulative_sum(std::int64_t axis, bool exclusive, bool reverse) {
  return [=](const std::vector<Tensor>& v) {
    Tensor y = empty(v[0].shape);
    for_each(y.shape, [&](const Shape& index) {
      Shape other = index;
      for (other[axis] = 0; other[axis] < y.shape[axis]; ++other[axis]) {
        const std::int64_t behind = (other[axis] - index[axis]) * (reverse ? -1 : 1);
        if (behind < 0 || (behind == 0 && !exclusive)) y.at(index) += v[0].at(other);
      }
    });
    return std::vector<Tensor>{y};
  };
}

Reference argmax(std::int64_t axis) {
  return [axis](const std::vector<Tensor>& v) {
    Shape shape = v[0].shape;
    shape.erase(shape.begin() + axis);
    Tensor y = empty(shape);
    for_each(shape, [&](const Shape& index) {
      Shape at = index;
      at.insert(at.begin() + axis, 0);
      double largest = -1e300;
      for (; at[axis] < v[0].shape[axis]; ++at[axis])
        if (v[0].at(at) > largest) largest = v[0].at(at), y.at(index) = double(at[axis]);
    });
    return std::vector<Tensor>{y};
  };
}

Reference top_k(std::int64_t k, bool descending) {
  return [=](const std::vector<Tensor>& v) {
    Shape shape = v[0].shape;
    const std::int64_t extent = shape.back();
    shape.back() = k;
    Tensor values{shape, {}}, indices{shape, {}};
    for (std::size_t begin = 0; begin < v[0].data.size(); begin += extent) {
      std::vector<std::pair<double, std::int64_t>> row;
      for (std::int64_t e = 0; e < extent; ++e)
        row.push_back({v[0].data[begin + e] * (descending ? -1 : 1), e});
      std::sort(row.begin(), row.end());
      for (std::int64_t i = 0; i < k; ++i) {
        values.data.push_back(row[i].first * (descending ? -1 : 1));
        indices.data.push_back(double(row[i].second));
      }
    }
    return std::vector<Tensor>{values, indices};
  };
}

Reference two_members(const Reference& one, int states) {
  return [=](const std::vector<Tensor>& in) {
    std::vector<Tensor> results, copies;
    for (int m = 0; m < 2; ++m) {
      std::vector<Tensor> own(in.begin() + m * states, in.begin() + (m + 1) * states);
      own.push_back(in[2 * states + m]);
      own.insert(own.end(), in.begin() + 2 * states + 2, in.end());
      for (Tensor& result : one(own))
        (static_cast<int>(results.size()) < (m + 1) * states ? results : copies)
            .push_back(std::move(result));
    }
    results.insert(results.end(), copies.begin(), copies.end());
    return results;
  };
}

Reference with_copy(const Reference& update) {
  return [=](const std::vector<Tensor>& in) {
    std::vector<Tensor> results = update(in);
    results.push_back(Tensor(results[0]));
    return results;
  };
}

Reference squared_norms() {
  return [](const std::vector<Tensor>& in) {
    std::vector<Tensor> norms;
    for (const Tensor& x : in) {
      norms.push_back({{}, {0}});
      for (double element : x.data) norms.back().data[0] += element * element;
    }
    return norms;
  };
}

Reference adam(double beta1, double beta2, double epsilon, double weight_decay, bool decoupled) {
  return [=](const std::vector<Tensor>& in) {
    Tensor w = in[0], m = in[1], v = in[2];
    const double rate = in[4].data[0], t = in[5].data[0];
    for (std::size_t i = 0; i < w.data.size(); ++i) {
      const double g = in[3].data[i] + (decoupled ? 0 : weight_decay * w.data[i]);
      m.data[i] = beta1 * m.data[i] + (1 - beta1) * g;
      v.data[i] = beta2 * v.data[i] + (1 - beta2) * g * g;
      const double m_hat = m.data[i] / (1 - std::pow(beta1, t)),
                   v_hat = v.data[i] / (1 - std::pow(beta2, t));
      w.data[i] -= rate * (m_hat / (std::sqrt(v_hat) + epsilon) +
                           (decoupled ? weight_decay * w.data[i] : 0));
    }
    return std::vector<Tensor>{w, m, v};
  };
}

Reference sgd(double momentum, double weight_decay, bool nesterov) {
  return [=](const std::vector<Tensor>& in) {
    Tensor w = in[0], velocity = in[1];
    for (std::size_t i = 0; i < w.data.size(); ++i) {
      const double g = in[2].data[i] + weight_decay * w.data[i];
      velocity.data[i] = momentum * velocity.data[i] + g;
      w.data[i] -= in[3].data[0] * (nesterov ? g + momentum * velocity.data[i] : velocity.data[i]);
    }
    return std::vector<Tensor>{w, velocity};
  };
}

}  // namespace alpa::testing::cases
