// src/plan/facts/verify_op.cc — runs operators of programs in parts, and compares with the whole
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/ir/graph.h"
#include "alpa/mesh/device_mesh.h"
#include "src/ir/notation.h"
#include "src/ops/custom_ops.h"
#include "strategy.h"

namespace alpa {
namespace {

using Placement = AxisPlacement::Kind;

/// A tensor, or the part of one that a device holds.
struct HeldPart {
  TensorView view;
  std::unique_ptr<std::uint64_t[]> memory;  ///< aligned for any element
};

HeldPart make_part(TensorType type, Shape offset, Shape whole) {
  HeldPart part;
  part.memory = std::make_unique<std::uint64_t[]>(static_cast<std::size_t>(type.bytes() + 7) / 8);
  part.view = dense_view(part.memory.get(), std::move(type), std::move(offset), std::move(whole));
  return part;
}

HeldPart make_whole(const TensorType& type) {
  return make_part(type, Shape(type.shape.size(), 0), type.shape);
}

/// Calls body(place in the part, place in the whole tensor) for every element of a part.
template <class Body>
void for_each_element(const TensorView& part, const Body& body) {
  const std::int64_t elements = part.type.elements();
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t rest = i, place = 0, stride = 1;
    for (std::size_t d = part.whole.size(); d-- > 0;) {
      place += (part.offset[d] + rest % part.type.shape[d]) * stride;
      rest /= part.type.shape[d], stride *= part.whole[d];
    }
    body(i, place);
  }
}

HeldPart random_operand(const TensorType& type, std::mt19937_64& random) {
  HeldPart part = make_whole(type);
  std::uniform_real_distribution<double> around_zero(-1, 1);
  for (std::int64_t i = 0; i < type.elements(); ++i)
    part.view.set(
        i, is_floating(type.dtype) ? around_zero(random) : static_cast<double>(random() % 2));
  return part;
}

std::vector<HeldPart> run(const OpDef& op, const Attributes& attributes,
                          const std::vector<HeldPart>& operands, std::vector<HeldPart> results) {
  OpCall call{.operands = {}, .results = {}, .attributes = attributes};
  for (const HeldPart& part : operands) call.operands.push_back(part.view);
  for (const HeldPart& part : results) call.results.push_back(part.view);
  HeldPart scratch;
  if (op.custom->scratch_bytes) {
    scratch = make_whole({u8, {op.custom->scratch_bytes(call) + 64}});
    call.scratch = reinterpret_cast<void*>(
        (reinterpret_cast<std::uintptr_t>(scratch.view.data) + 63) / 64 * 64);
  }
  op.custom->cpu(call);
  return results;
}

/// Largest difference, as a share of the largest element, that is rounding.
double rounding(const std::vector<HeldPart>& tensors) {
  double most = 1e-9;
  for (const HeldPart& part : tensors) {
    const DType dtype = part.view.type.dtype;
    if (dtype == f32) most = std::max(most, 1e-4);
    if (dtype == bf16 || dtype == f16) most = std::max(most, 0.1);
  }
  return most;
}

/// One operator at given operands, whole and in parts.
class OpVerifier {
 public:
  OpVerifier(const OpDef& op, std::vector<TensorType> operands, Attributes attributes)
      : op_(op), types_(std::move(operands)), attributes_(std::move(attributes)) {
    const OpQuery query{types_, attributes_, &op_};
    rule_ = rule_of(op_, query);
    verify(rule_);
    rule_of_notation(op_, query, &letters_);
    std::mt19937_64 random(1);
    for (const TensorType& type : types_) operands_.push_back(random_operand(type, random));
    std::vector<HeldPart> results;
    for (const TensorType& type : result_types(op_, query)) results.push_back(make_whole(type));
    results_ = run(op_, attributes_, operands_, std::move(results));
  }

  void verify_on(const DeviceMesh& mesh) const {
    for (const Strategy& strategy : intra_op::all_strategies(rule_, mesh))
      verify_strategy(mesh, strategy);
  }

 private:
  static HeldPart part_of(const TensorView& whole, const ShardingSpec& spec, const DeviceMesh& mesh,
                          const std::vector<int>& at) {
    return make_part({whole.type.dtype, local_shape(whole.type.shape, spec, mesh, at)},
                     local_offset(whole.type.shape, spec, mesh, at), whole.type.shape);
  }

  /// Devices along the axes on which the tensor is partial, and this one's number among them.
  static std::pair<int, int> partial_place(const ShardingSpec& spec, const DeviceMesh& mesh,
                                           const std::vector<int>& at) {
    std::pair<int, int> place{1, 0};
    for (int a = 0; a < mesh.num_axes(); ++a)
      if (spec.axes[a].kind == Placement::partial)
        place = {place.first * mesh.size(a), place.second * mesh.size(a) + at[a]};
    return place;
  }

  HeldPart operand(std::size_t i, const ShardingSpec& spec, const DeviceMesh& mesh,
                   const std::vector<int>& at) const {
    const TensorView& whole = operands_[i].view;
    HeldPart part = part_of(whole, spec, mesh, at);
    const auto [parts, number] = partial_place(spec, mesh, at);
    // a quarter of the element on each but the first device
    const double share = number > 0 ? 0.25 : 1 - 0.25 * (parts - 1);
    for_each_element(part.view, [&](std::int64_t here, std::int64_t there) {
      part.view.set(here, share * whole.get(there));
    });
    return part;
  }

  std::vector<HeldPart> run_device(const DeviceMesh& mesh, const Strategy& strategy,
                                   const std::vector<int>& at) const {
    std::vector<HeldPart> operands, results;
    for (std::size_t i = 0; i < operands_.size(); ++i)
      operands.push_back(
          operand(i, intra_op::operand_spec(rule_, strategy, mesh, static_cast<int>(i)), mesh, at));
    for (std::size_t i = 0; i < results_.size(); ++i)
      results.push_back(part_of(results_[i].view,
                                intra_op::result_spec(rule_, strategy, mesh, static_cast<int>(i)),
                                mesh, at));
    return run(op_, attributes_, operands, std::move(results));
  }

  void verify_strategy(const DeviceMesh& mesh, const Strategy& strategy) const {
    std::vector<std::vector<HeldPart>> results_of;  // by rank
    for (int rank = 0; rank < mesh.num_devices(); ++rank)
      results_of.push_back(run_device(mesh, strategy, mesh.coordinates(rank)));
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const ShardingSpec spec = intra_op::result_spec(rule_, strategy, mesh, static_cast<int>(i));
      std::map<std::vector<int>, std::vector<double>> copies;
      for (int rank = 0; rank < mesh.num_devices(); ++rank) {
        std::vector<int> copy = mesh.coordinates(rank);
        for (int a = 0; a < mesh.num_axes(); ++a)
          if (spec.axes[a].kind != Placement::replicated) copy[a] = 0;
        const TensorView& result = results_of[rank][i].view;
        std::vector<double>& sum = copies[copy];
        sum.resize(static_cast<std::size_t>(results_[i].view.type.elements()));
        for_each_element(
            result, [&](std::int64_t here, std::int64_t there) { sum[there] += result.get(here); });
      }
      for (const auto& [copy, sum] : copies) compare(mesh, strategy, i, sum);
    }
  }

  void compare(const DeviceMesh& mesh, const Strategy& strategy, std::size_t result,
               const std::vector<double>& sum) const {
    double largest = 0, error = 0;
    for (std::size_t e = 0; e < sum.size(); ++e) {
      const double expected = results_[result].view.get(static_cast<std::int64_t>(e)),
                   distance = std::abs(sum[e] - expected);
      largest = std::max(largest, std::abs(expected));
      if (sum[e] == expected) continue;  // infinities, too
      const bool both_nan = std::isnan(expected) && std::isnan(sum[e]);
      if (std::isnan(distance) && !both_nan) error = std::numeric_limits<double>::infinity();
      if (distance > error) error = distance;
    }
    const double allowed = std::max(rounding(operands_), rounding(results_));
    require(error <= allowed * std::max(largest, 1.0),
            "{}: dims \"{}\": with {}, result {} differs by {:.3g} from that of one device, whose "
            "largest element is {:.3g}; {}",
            op_.name, op_.dims, words(mesh, strategy), result, error, largest,
            "mark a letter that cannot be split with `!`, or mend the CPU function");
  }

  /// "c split over 2 devices, operand 0 in partial sums over 2".
  std::string words(const DeviceMesh& mesh, const Strategy& strategy) const {
    std::string text;
    for (int a = 0; a < mesh.num_axes(); ++a) {
      const AxisRole& role = strategy.axes[a];
      if (role.kind == AxisRole::Kind::none) continue;
      text += text.empty() ? "" : " and ";
      text += role.kind == AxisRole::Kind::factor
                  ? fmt::format("{} split over {} devices", letter_of(role.index), mesh.size(a))
                  : fmt::format("operands {} as partial sums of {} devices (OpDefinition::linear)",
                                operands_of(rule_.linear.at(role.index)), mesh.size(a));
    }
    return text.empty() ? "nothing split" : text;
  }

  std::string letter_of(int factor) const {
    for (const auto& [letter, factors] : letters_)
      for (std::size_t i = 0; i < factors.size(); ++i)
        if (factors[i] == factor)
          return letter == '.' ? fmt::format("dimension {} of ...", i) : std::string(1, letter);
    return fmt::format("factor {}", factor);
  }

  static std::string operands_of(std::uint32_t set) {
    std::string text;
    for (int i = 0; i < 32; ++i)
      if (set >> i & 1) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
    return text;
  }

  const OpDef& op_;
  std::vector<TensorType> types_;
  Attributes attributes_;
  Rule rule_;
  FactorsOfLetters letters_;
  std::vector<HeldPart> operands_, results_;
};

void verify_record(const OpDef& op, const std::vector<TensorType>& operands,
                   const Attributes& attributes) {
  const OpVerifier verifier(op, operands, attributes);
  const std::vector<std::vector<int>> meshes = {{2}, {3}, {2, 2}};
  for (const std::vector<int>& sizes : meshes) {
    std::vector<MeshAxis> axes;
    for (int size : sizes) axes.push_back({axes.empty() ? "x" : "y", size, 0, 0});
    verifier.verify_on(DeviceMesh(axes));
  }
}

}  // namespace

void verify_op(const CustomOp& op, const std::vector<TensorType>& operands,
               const Attributes& attributes) {
  verify_record(*op.record_, operands, attributes);
}

void verify_ops(const Graph& graph) {
  std::vector<const Node*> verified;
  for (const Node& node : graph.nodes) {
    if (!node.op->custom) continue;
    const auto is_alike = [&](const Node* other) {
      return other->op == node.op && other->attributes == node.attributes &&
             operand_types(graph, *other) == operand_types(graph, node);
    };
    if (std::any_of(verified.begin(), verified.end(), is_alike)) continue;
    try {
      verify_record(*node.op, operand_types(graph, node), node.attributes);
    } catch (const Error& error) {
      fail("\"{}\": {}", node.name, error.what());
    }
    verified.push_back(&node);
  }
}

}  // namespace alpa
