// With sums of one order, every operator gives the bits of one device however it is split.
#include <doctest/doctest.h>

#include <map>

#include "run_case.h"
#include "src/comm/combine.h"
#include "src/lower/kernel_call.h"
#include "src/plan/facts/strategy.h"

namespace sum_order_test {

using namespace alpa::testing::cases;
using namespace alpa;

namespace {

using Kind = AxisPlacement::Kind;

/// f32, where floating, without 16-bit and 64-bit types.
bool is_plain(const Case& row) {
  const auto plain = [](const std::vector<TensorType>& types) {
    return std::all_of(types.begin(), types.end(), [](const TensorType& type) {
      return !is_floating(type.dtype) || type.dtype == f32;
    });
  };
  return is_computed(row) && plain(operand_types(row)) && plain(result_types(row));
}

/// A device's part of a tensor, without elements.
HostTensor part_of(const TensorType& type, const ShardingSpec& spec, const DeviceMesh& mesh,
                   const std::vector<int>& at) {
  HostTensor part({type.dtype, local_shape(type.shape, spec, mesh, at)});
  part.offset = local_offset(type.shape, spec, mesh, at);
  part.global_shape = type.shape;
  return part;
}

/// visit(element of the part, element of the whole) for all elements.
template <class Visit>
void for_elements(const HostTensor& part, const Visit& visit) {
  std::int64_t i = 0;
  testing::for_each_index(part.type.shape, [&](Shape index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] += part.offset[d];
    visit(i++, testing::flat_index(part.global_shape, index));
  });
}

std::vector<HostTensor> run(const Case& row, const std::vector<HostTensor>& inputs,
                            const std::vector<HostTensor>& outputs, int threads) {
  const Rule rule = rule_of(row);
  return testing::run_kernel(
      *row.op->cpu, inputs, outputs,
      {.attributes = row.attributes,
       .step = {.seed = 5, .step = 2, .micro_batch = 1},
       .threads = threads,
       .sums = [&](const KernelCall& call) { return lower::sum_order(rule, call); }});
}

std::vector<HostTensor> run_whole(const Case& row, const std::vector<HostTensor>& operands,
                                  int threads) {
  std::vector<HostTensor> results;
  for (const TensorType& type : result_types(row)) results.emplace_back(type);
  return run(row, operands, results, threads);
}

std::vector<HostTensor> run_device(const Case& row, const Strategy& strategy,
                                   const DeviceMesh& mesh, const std::vector<int>& at,
                                   const std::vector<HostTensor>& operands) {
  const Rule rule = rule_of(row);
  std::vector<HostTensor> inputs, outputs;
  for (int i = 0; i < static_cast<int>(operands.size()); ++i) {
    inputs.push_back(
        part_of(operands[i].type, intra_op::operand_spec(rule, strategy, mesh, i), mesh, at));
    for_elements(inputs.back(), [&](std::int64_t here, std::int64_t there) {
      inputs.back().put(here, operands[i].get(there));
    });
  }
  const std::vector<TensorType> types = result_types(row);
  for (int i = 0; i < static_cast<int>(types.size()); ++i)
    outputs.push_back(part_of(types[i], intra_op::result_spec(rule, strategy, mesh, i), mesh, at));
  return run(row, inputs, outputs, 1);
}

/// The parts of devices that hold partial results of equal elements, in the order of devices,
/// combined as collectives do.
HostTensor combined(const std::vector<HostTensor>& parts, Combiner combiner) {
  HostTensor result = parts.front();
  std::vector<comm::Subtotal> all;
  for (int p = 0; p < static_cast<int>(parts.size()); ++p)
    all.push_back({parts[p].bytes.data(), p, p + 1});
  std::byte* const target = result.bytes.data();
  if (parts.size() > 1 && result.type.elements() > 0)
    comm::combine(result.type.dtype, combiner, all, {&target, 1}, result.type.elements());
  return result;
}

bool holds_bits(const HostTensor& part, const HostTensor& whole) {
  const std::size_t size = size_of(part.type.dtype);
  bool same = true;
  for_elements(part, [&](std::int64_t here, std::int64_t there) {
    same = same && std::memcmp(part.bytes.data() + here * size, whole.bytes.data() + there * size,
                               size) == 0;
  });
  return same;
}

/// Whether every replica of every result has the bits of `whole`.
bool gives_bits(const Case& row, const Strategy& strategy, const DeviceMesh& mesh,
                const std::vector<HostTensor>& operands, const std::vector<HostTensor>& whole) {
  const Rule rule = rule_of(row);
  for (int i = 0; i < static_cast<int>(whole.size()); ++i) {
    const ShardingSpec spec = intra_op::result_spec(rule, strategy, mesh, i);
    std::map<std::vector<int>, std::vector<HostTensor>> groups;  // by place on other axes
    Combiner combiner = Combiner::sum;
    for (int rank = 0; rank < mesh.num_devices(); ++rank) {
      const std::vector<int> at = mesh.coordinates(rank);
      std::vector<int> place = at;
      for (int axis = 0; axis < mesh.num_axes(); ++axis)
        if (spec.axes[axis].kind == Kind::partial)
          place[axis] = 0, combiner = spec.axes[axis].combiner;
      groups[place].push_back(run_device(row, strategy, mesh, at, operands)[i]);
    }
    for (const auto& [place, parts] : groups)
      if (!holds_bits(combined(parts, combiner), whole[i])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("sums of one order have the bits of one device under every strategy that keeps it") {
  int run = 0, partial = 0;
  for (const Case& row : all()) {
    if (!is_plain(row)) continue;
    CAPTURE(row.label());
    const Rule rule = rule_of(row);
    const std::vector<HostTensor> operands = draw_operands(row),
                                  whole = run_whole(row, operands, 1);
    CHECK(run_whole(row, operands, 3) == whole);
    for (const DeviceMesh& mesh : meshes())
      for (const Strategy& strategy : intra_op::all_strategies(rule, mesh)) {
        if (!intra_op::keeps_sum_order(rule, strategy, mesh)) continue;
        CHECK_MESSAGE(gives_bits(row, strategy, mesh, operands, whole), shape_text(mesh), " ",
                      to_string(strategy));
        ++run;
        partial += intra_op::result_spec(rule, strategy, mesh).is_partial();
      }
  }
  MESSAGE(run << " strategies, " << partial << " with partial results");
  CHECK(run > 200);
  CHECK(partial > 20);
}

}  // namespace sum_order_test
