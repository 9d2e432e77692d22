#pragma once
/// Devices that execute resharding steps on real numbers, written from the documented meaning of
/// ShardingSpec and CollectiveKind alone. A device's memory is the whole tensor with a mark on the
/// elements it holds, so no index arithmetic of the library is reused.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "src/plan/cost/reshard.h"
#include "support/combine.h"

namespace alpa::testing::simulated {

using Kind = alpa::AxisPlacement::Kind;

/// What one device holds of a tensor: per element of the whole, row-major, whether
/// it is here and its value.
struct Memory {
  std::vector<char> here;
  std::vector<double> value;
};

/// Elements sent during one step.
struct Traffic {
  std::int64_t most_sent = 0;      ///< by one device
  std::int64_t largest_piece = 0;  ///< from one device to another (all_reduce: the largest operand)
  bool even = true;                ///< all pieces equally large
};

struct Tensor {
  const alpa::DeviceMesh& mesh;
  alpa::Shape shape;
  alpa::ShardingSpec spec;
  std::vector<Memory> devices;
};

inline int coordinate(const alpa::DeviceMesh& mesh, int device, int axis) {
  for (int a = mesh.num_axes() - 1; a > axis; --a) device /= mesh.axes()[a].size;
  return device % mesh.axes()[axis].size;
}

/// Devices that agree with `device` on every axis but `axes`.
inline std::vector<int> group_of(const alpa::DeviceMesh& mesh, int device,
                                 const std::vector<int>& axes) {
  std::vector<int> group;
  for (int other = 0; other < mesh.num_devices(); ++other) {
    bool same = true;
    for (int a = 0; a < mesh.num_axes(); ++a) {
      const bool free = std::find(axes.begin(), axes.end(), a) != axes.end();
      same = same && (free || coordinate(mesh, device, a) == coordinate(mesh, other, a));
    }
    if (same) group.push_back(other);
  }
  return group;
}

/// Indices of a dimension that a device holds: cut the list into nominal chunks, axis by axis.
inline std::vector<std::int64_t> indices_held(std::int64_t size, int dim,
                                              const alpa::ShardingSpec& spec,
                                              const alpa::DeviceMesh& mesh, int device) {
  std::vector<std::int64_t> held(size);
  std::iota(held.begin(), held.end(), 0);
  std::int64_t nominal = size;
  for (int order = 0; order < mesh.num_axes(); ++order) {
    for (int a = 0; a < mesh.num_axes(); ++a) {
      if (spec.axes[a].kind != Kind::split || spec.axes[a].dim != dim ||
          spec.axes[a].order != order)
        continue;
      const int parts = mesh.axes()[a].size;
      nominal = nominal / parts + (nominal % parts != 0);
      std::vector<std::int64_t> mine;
      for (std::int64_t i = 0; i < nominal; ++i) {
        const std::int64_t place = coordinate(mesh, device, a) * nominal + i;
        if (place < static_cast<std::int64_t>(held.size())) mine.push_back(held[place]);
      }
      held = mine;
    }
  }
  return held;
}

/// Which elements of the whole tensor a device holds under `spec`.
inline std::vector<char> elements_held(const alpa::Shape& shape, const alpa::ShardingSpec& spec,
                                       const alpa::DeviceMesh& mesh, int device) {
  std::vector<std::int64_t> elements{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> longer;
    for (std::int64_t prefix : elements) {
      for (std::int64_t i : indices_held(shape[d], static_cast<int>(d), spec, mesh, device))
        longer.push_back(prefix * shape[d] + i);
    }
    elements = longer;
  }
  std::vector<char> here(alpa::num_elements(shape), 0);
  for (std::int64_t e : elements) here[e] = 1;
  return here;
}

inline std::int64_t count(const std::vector<char>& here) {
  return std::count(here.begin(), here.end(), 1);
}

inline std::vector<int> partial_axes(const alpa::ShardingSpec& spec) {
  std::vector<int> axes;
  for (int a = 0; a < alpa::kMaxMeshAxes; ++a) {
    if (spec.axes[a].kind == Kind::partial) axes.push_back(a);
  }
  return axes;
}

/// Element `e` combined over a group of devices.
inline double combined(const Tensor& t, const std::vector<int>& group, alpa::Combiner combiner,
                       std::size_t e) {
  double value = identity(combiner);
  for (int device : group) value = combine(combiner, value, t.devices[device].value[e]);
  return value;
}

/// What is left of `rest` for another member after `part`.
inline double without(alpa::Combiner combiner, double rest, double part) {
  if (combiner == alpa::Combiner::sum) return rest - part;
  if (combiner == alpa::Combiner::max) return rest;
  return rest + std::log1p(-std::exp(part - rest));
}

/// `whole` laid out as `spec`; partial results are irregular and combine to it. Of sums and maxima
/// they are whole numbers.
inline Tensor distribute(const std::vector<double>& whole, const alpa::Shape& shape,
                         const alpa::ShardingSpec& spec, const alpa::DeviceMesh& mesh) {
  Tensor t{mesh, shape, spec, {}};
  const std::vector<int> axes = partial_axes(spec);
  for (int device = 0; device < mesh.num_devices(); ++device)
    t.devices.push_back({elements_held(shape, spec, mesh, device), whole});
  if (axes.empty()) return t;
  const alpa::Combiner combiner = spec.axes[axes[0]].combiner;
  for (int first = 0; first < mesh.num_devices(); ++first) {
    const std::vector<int> group = group_of(mesh, first, axes);
    if (group[0] != first) continue;
    for (std::size_t e = 0; e < whole.size(); ++e) {
      const std::size_t full =
          (e + first) % group.size();  // this member gets what is left of the sum, or the maximum
      double rest = whole[e];
      for (std::size_t m = 0; m < group.size(); ++m) {
        if (m == full) continue;
        const double number = static_cast<double>((7 * e + 5 * m + 3) % 11);
        const double part = combiner == alpa::Combiner::sum ? number : whole[e] - 3 - number;
        t.devices[group[m]].value[e] = part;
        rest = without(combiner, rest, part);
      }
      t.devices[group[full]].value[e] = rest;
    }
  }
  return t;
}

/// True if every device holds exactly the elements its spec says and they stand for `whole`.
inline bool represents(const Tensor& t, const std::vector<double>& whole) {
  const std::vector<int> axes = partial_axes(t.spec);
  for (int device = 0; device < t.mesh.num_devices(); ++device) {
    const Memory& memory = t.devices[device];
    if (memory.here != elements_held(t.shape, t.spec, t.mesh, device)) return false;
    const std::vector<int> group = group_of(t.mesh, device, axes);
    for (std::size_t e = 0; e < whole.size(); ++e) {
      if (!memory.here[e]) continue;
      const double value =
          axes.empty() ? memory.value[e] : combined(t, group, t.spec.axes[axes[0]].combiner, e);
      if (!(std::abs(value - whole[e]) <= 1e-9)) return false;  // whole numbers, or rounded ones
    }
  }
  return true;
}

inline void note_piece(Traffic& traffic, std::int64_t piece) {
  traffic.even = traffic.even && (traffic.largest_piece == 0 || piece == traffic.largest_piece);
  traffic.largest_piece = std::max(traffic.largest_piece, piece);
}

/// Traffic of a ring in which `chunks` travel past every device: each sends all chunks but one.
inline void note_ring(Traffic& traffic, const std::vector<std::int64_t>& chunks) {
  for (std::int64_t chunk : chunks) note_piece(traffic, chunk);
  const std::int64_t all = std::accumulate(chunks.begin(), chunks.end(), std::int64_t{0});
  traffic.most_sent =
      std::max(traffic.most_sent, all - *std::min_element(chunks.begin(), chunks.end()));
}

/// all_reduce and reduce_scatter: the group's values combined, of which each device
/// keeps what `to` gives it.
inline Traffic reduce(Tensor& t, const alpa::ReshardStep& step) {
  const Tensor before = t;
  const alpa::Combiner combiner = before.spec.axes[step.axes.at(0)].combiner;
  Traffic traffic;
  for (int device = 0; device < t.mesh.num_devices(); ++device) {
    const std::vector<int> group = group_of(t.mesh, device, step.axes);
    Memory& mine = t.devices[device];
    mine.here = elements_held(t.shape, step.to, t.mesh, device);
    std::vector<std::int64_t> kept;
    for (int other : group) {
      if (before.devices[other].here != before.devices[device].here)
        throw std::logic_error("a reduction of different parts");
      kept.push_back(count(elements_held(t.shape, step.to, t.mesh, other)));
    }
    for (std::size_t e = 0; e < mine.here.size(); ++e) {
      if (mine.here[e] && !before.devices[device].here[e])
        throw std::logic_error("reduced element was not there");
      if (mine.here[e]) mine.value[e] = combined(before, group, combiner, e);
    }
    const std::int64_t all = count(before.devices[device].here),
                       n = static_cast<std::int64_t>(group.size());
    if (step.kind == alpa::CollectiveKind::reduce_scatter) {
      if (std::accumulate(kept.begin(), kept.end(), std::int64_t{0}) != all)
        throw std::logic_error("scattered parts do not add up");
      note_ring(traffic, kept);
    } else {
      note_piece(traffic, all);
      traffic.most_sent = std::max(traffic.most_sent, 2 * (all - all / n));
      traffic.even = traffic.even && all % n == 0;
    }
  }
  return traffic;
}

inline Traffic all_gather(Tensor& t, const alpa::ReshardStep& step) {
  const Tensor before = t;
  Traffic traffic;
  for (int device = 0; device < t.mesh.num_devices(); ++device) {
    std::vector<std::int64_t> chunks;
    for (int other : group_of(t.mesh, device, step.axes)) {
      const Memory& theirs = before.devices[other];
      chunks.push_back(count(theirs.here));
      for (std::size_t e = 0; e < theirs.here.size(); ++e) {
        if (!theirs.here[e]) continue;
        t.devices[device].here[e] = 1;
        t.devices[device].value[e] = theirs.value[e];
      }
    }
    note_ring(traffic, chunks);
  }
  return traffic;
}

inline Traffic all_to_all(Tensor& t, const alpa::ReshardStep& step) {
  const Tensor before = t;
  Traffic traffic;
  for (int to = 0; to < t.mesh.num_devices(); ++to)
    t.devices[to].here.assign(t.devices[to].here.size(), 0);
  for (int from = 0; from < t.mesh.num_devices(); ++from) {
    std::int64_t sent = 0;
    for (int to : group_of(t.mesh, from, step.axes)) {
      std::vector<char> piece = elements_held(t.shape, step.to, t.mesh, to);
      for (std::size_t e = 0; e < piece.size(); ++e) {
        piece[e] = piece[e] && before.devices[from].here[e];
        if (!piece[e]) continue;
        t.devices[to].here[e] = 1;
        t.devices[to].value[e] = before.devices[from].value[e];
      }
      note_piece(traffic, count(piece));
      if (to != from) sent += count(piece);
    }
    traffic.most_sent = std::max(traffic.most_sent, sent);
  }
  return traffic;
}

/// slice and to_partial: nothing is sent.
inline Traffic local(Tensor& t, const alpa::ReshardStep& step) {
  for (int device = 0; device < t.mesh.num_devices(); ++device) {
    Memory& mine = t.devices[device];
    if (step.kind == alpa::CollectiveKind::slice) {
      const std::vector<char> kept = elements_held(t.shape, step.to, t.mesh, device);
      for (std::size_t e = 0; e < kept.size(); ++e) mine.here[e] = mine.here[e] && kept[e];
    } else if (coordinate(t.mesh, device, step.axes.at(0)) != 0) {
      std::fill(mine.value.begin(), mine.value.end(),
                identity(step.to.axes[step.axes[0]].combiner));
    }
  }
  return {};
}

/// Executes one step.
inline Traffic run(Tensor& t, const alpa::ReshardStep& step) {
  using alpa::CollectiveKind;
  Traffic traffic;
  switch (step.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter: traffic = reduce(t, step); break;
    case CollectiveKind::all_gather: traffic = all_gather(t, step); break;
    case CollectiveKind::all_to_all: traffic = all_to_all(t, step); break;
    case CollectiveKind::slice:
    case CollectiveKind::to_partial: traffic = local(t, step); break;
    default: throw std::logic_error("no reshard");
  }
  t.spec = step.to;
  return traffic;
}

}  // namespace alpa::testing::simulated
