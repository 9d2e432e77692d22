#include <doctest/doctest.h>

#include <limits>
#include <map>

#include "reference.h"
#include "run_case.h"
#include "src/plan/facts/strategy.h"
#include "support/combine.h"
#include "support/difference.h"

namespace strategy_test {

using namespace alpa::testing::cases;
using namespace alpa;

namespace {

using Kind = AxisPlacement::Kind;

/// Number of copies that are summed, and this device's place among them.
std::pair<int, int> partial_place(const ShardingSpec& spec, const DeviceMesh& mesh,
                                  const std::vector<int>& at) {
  int parts = 1, place = 0;
  for (int a = 0; a < mesh.num_axes(); ++a)
    if (spec.axes[a].kind == Kind::partial)
      place = place * mesh.size(a) + at[a], parts *= mesh.size(a);
  return {parts, place};
}

/// The part of `value` that copy `place` of `parts` holds: unequal parts that add up to it.
double part_of(double value, int parts, int place, bool whole_numbers) {
  if (parts == 1) return value;
  const int others = parts * (parts - 1) / 2;  // copies 1 … parts-1 hold `place` shares each
  const double share = whole_numbers ? 1 : value / (2.0 * others);
  return place > 0 ? place * share : value - others * share;
}

/// This device's shard of a whole tensor under `spec`.
HostTensor shard(const HostTensor& whole, const ShardingSpec& spec, const DeviceMesh& mesh,
                 const std::vector<int>& at) {
  HostTensor local({whole.type.dtype, local_shape(whole.type.shape, spec, mesh, at)});
  local.offset = local_offset(whole.type.shape, spec, mesh, at);
  local.global_shape = whole.type.shape;
  const std::pair<int, int> place = partial_place(spec, mesh, at);
  std::int64_t i = 0;
  const std::int64_t first = testing::flat_index(whole.type.shape, local.offset);
  for_each(local.type.shape, [&](const Shape& index) {
    const double value = whole.get(first + testing::flat_index(whole.type.shape, index));
    local.put(i++, part_of(value, place.first, place.second, !is_floating(whole.type.dtype)));
  });
  return local;
}

/// What replica `r` of a result's devices holds together.
struct Assembled {
  std::vector<double> value;
  std::vector<int> pieces;  ///< devices that contributed to each element
};

int replica_of(const ShardingSpec& spec, const DeviceMesh& mesh, const std::vector<int>& at) {
  int replica = 0;
  for (int a = 0; a < mesh.num_axes(); ++a)
    if (spec.axes[a].kind == Kind::replicated) replica = replica * mesh.size(a) + at[a];
  return replica;
}

Combiner combiner_of(const ShardingSpec& spec) {
  for (const AxisPlacement& axis : spec.axes)
    if (axis.kind == Kind::partial) return axis.combiner;
  return Combiner::sum;
}

void collect(std::map<int, Assembled>& replicas, const HostTensor& local, const ShardingSpec& spec,
             const DeviceMesh& mesh, const std::vector<int>& at) {
  Assembled& all = replicas[replica_of(spec, mesh, at)];
  const std::size_t n = static_cast<std::size_t>(num_elements(local.global_shape));
  const Combiner combiner = combiner_of(spec);
  if (all.value.empty())
    all = {std::vector<double>(n, testing::identity(combiner)), std::vector<int>(n)};
  std::int64_t i = 0;
  const std::int64_t first = testing::flat_index(local.global_shape, local.offset);
  for_each(local.type.shape, [&](const Shape& index) {
    const std::int64_t e = first + testing::flat_index(local.global_shape, index);
    const double value = local.get(i++);
    all.value[e] = testing::combine(combiner, all.value[e], value);
    ++all.pieces[e];
  });
}

/// Runs one device of the mesh.
std::vector<HostTensor> run_device(const Case& row, const Rule& rule, const Strategy& strategy,
                                   const DeviceMesh& mesh, const std::vector<int>& at,
                                   const std::vector<HostTensor>& operands) {
  std::vector<HostTensor> inputs, outputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(shard(
        operands[i], intra_op::operand_spec(rule, strategy, mesh, static_cast<int>(i)), mesh, at));
  const std::vector<TensorType> types = result_types(row);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const ShardingSpec spec = intra_op::result_spec(rule, strategy, mesh, static_cast<int>(i));
    HostTensor local({types[i].dtype, local_shape(types[i].shape, spec, mesh, at)});
    local.offset = local_offset(types[i].shape, spec, mesh, at);
    local.global_shape = types[i].shape;
    outputs.push_back(std::move(local));
  }
  return testing::run_kernel(
      *row.op->cpu, inputs, outputs,
      {.attributes = row.attributes, .step = {.seed = 5, .step = 2, .micro_batch = 1}});
}

/// Largest error of any replica of any result, relative to the result's largest element; infinite
/// if a place has too few pieces.
double worst_error(const Case& row, const Rule& rule, const Strategy& strategy,
                   const DeviceMesh& mesh, const std::vector<HostTensor>& operands,
                   const std::vector<HostTensor>& unsplit) {
  std::vector<std::map<int, Assembled>> results(unsplit.size());
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    const std::vector<int> at = mesh.coordinates(rank);
    const std::vector<HostTensor> local = run_device(row, rule, strategy, mesh, at, operands);
    for (std::size_t i = 0; i < local.size(); ++i)
      collect(results[i], local[i],
              intra_op::result_spec(rule, strategy, mesh, static_cast<int>(i)), mesh, at);
  }
  double worst = 0;
  for (std::size_t i = 0; i < unsplit.size(); ++i) {
    const Tensor expected = to_reference(unsplit[i]);
    const int parts =
        partial_place(intra_op::result_spec(rule, strategy, mesh, static_cast<int>(i)), mesh,
                      mesh.coordinates(0))
            .first;
    const double scale = testing::largest_magnitude(expected.data, 1);
    for (const auto& [replica, all] : results[i])
      for (std::size_t e = 0; e < expected.data.size(); ++e) {
        if (all.pieces[e] != parts) return std::numeric_limits<double>::infinity();
        worst = std::max(worst, testing::distance(all.value[e], expected.data[e]) / scale);
      }
  }
  return worst;
}

double tolerance(const Case& row) {
  double narrowest = 0;
  for (const TensorType& type : result_types(row))
    narrowest = std::max(narrowest, testing::epsilon(type.dtype));
  for (const TensorType& type : operand_types(row))
    narrowest = std::max(narrowest, testing::epsilon(type.dtype));
  return 8 * narrowest;
}

}  // namespace

TEST_CASE("every strategy on 2, 3, 4, 2x2 and 3x2 devices gives what one device gives") {
  int run = 0, uneven = 0, partial = 0;
  for (const Case& row : all()) {
    if (!is_computed(row)) continue;
    CAPTURE(row.label());
    const Rule rule = rule_of(row);
    const std::vector<HostTensor> operands = draw_operands(row),
                                  unsplit = run_unsplit(row, operands);
    for (const DeviceMesh& mesh : meshes()) {
      for (const Strategy& strategy : intra_op::all_strategies(rule, mesh)) {
        const double error = worst_error(row, rule, strategy, mesh, operands, unsplit);
        CHECK_MESSAGE(error <= tolerance(row), shape_text(mesh), " ", to_string(strategy), ": ",
                      error);
        ++run;
        const ShardingSpec spec = intra_op::result_spec(rule, strategy, mesh);
        partial += spec.is_partial();
        uneven += local_shape(unsplit[0].type.shape, spec, mesh, mesh.coordinates(0)) !=
                  local_shape(unsplit[0].type.shape, spec, mesh,
                              mesh.coordinates(mesh.num_devices() - 1));
      }
    }
  }
  MESSAGE(run << " strategies, " << uneven << " uneven, " << partial << " with partial results");
  CHECK(uneven > 100);
  CHECK(partial > 100);
}

}  // namespace strategy_test
