// src/lower/emit.cc — a partitioned program as the instruction list of one device
#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/ir/input.h"
#include "src/lower/carried_memory.h"
#include "src/lower/program_facts.h"
#include "src/lower/take_over.h"
#include "src/ops/all_ops.h"
#include "updates.h"

namespace alpa::lower {
namespace {

using Kind = Instruction::Kind;

/// A sent value has two slots, so that one can be computed while the other is in transit.
constexpr int kSentSlots = 2;

class Emitter {
 public:
  Emitter(const ProgramFacts& facts, int device)
      : facts_(facts),
        program_(facts.program),
        graph_(program_.graph),
        lists_(facts.lists),
        at_(program_.meshes.size()) {
    const spmd::MeshPlace place = spmd::place_of(program_, device);
    group_ = lists_.group_of_mesh[place.mesh];
    device_.device = device;
    device_.mesh = place.mesh;
    device_.rank = place.rank;
    for (int mesh : own().meshes) at_[mesh] = program_.meshes[mesh].coordinates(place.rank);
    device_.buffer_of_value.assign(graph_.values.size(), -1);
    for (const std::string& name : own().names) device_.lists.push_back({name, {}});
    device_.schedule = own().schedule;
    device_.begins = own().begins;
  }

  DeviceProgram run() && {
    for (int n : own().nodes)
      if (spmd::is_transfer(node(n)))
        add_transfer(n);
      else
        add(n);
    for (const Update& update : graph_.updates)
      if (is_here(update.value)) ensure_loaded(update.value, apply());
    for (int m = 0; m < static_cast<int>(graph_.metrics.size()); ++m) {
      const int value = graph_.metrics[m].value;
      if (!is_here(value)) continue;
      ensure_loaded(value, apply());
      device_.reported.push_back({m, buffer(value)});
    }
    for (int o = 0; o < static_cast<int>(graph_.outputs.size()); ++o)
      if (is_here(graph_.outputs[o].value)) add_returned(o);
    set_slots();
    return std::move(device_);
  }

 private:
  const Node& node(int n) const { return graph_.nodes[n]; }

  const GroupLists& own() const { return lists_.groups[group_]; }
  bool is_here(int value) const {
    return lists_.group_of_mesh[program_.mesh_index(value)] == group_;
  }
  /// Coordinates of the device in the mesh of a value.
  const std::vector<int>& at(int value) const { return at_[program_.mesh_index(value)]; }

  /// The list of a transfer's messages on the mesh of a value.
  std::vector<Instruction>& messages_of(int n, int value) {
    return device_.lists[lists_.of_messages(n, node(n).region, program_.mesh_index(value))]
        .instructions;
  }
  std::vector<Instruction>& list_of(int n) { return device_.lists[lists_.of_node[n]].instructions; }
  std::vector<Instruction>& apply() { return device_.lists[own().apply()].instructions; }

  void add_returned(int output) {
    const auto& [name, value] = graph_.outputs[output];
    invariant(!program_.specs[value].is_partial(), "output \"{}\" is returned as partial sums",
              name);
    ensure_loaded(value, list_of(graph_.values[value].producer));
    device_.returned.push_back({output, buffer(value)});
  }

  void set_slots() {
    const std::vector<CarriedMemory> carries = carried_memory(device_);
    for (std::size_t b = 0; b < device_.buffers.size(); ++b)
      device_.buffers[b].slots = carries[b].slots;
    for (int l = 0; l < static_cast<int>(device_.lists.size()); ++l)
      for (const Instruction& instruction : device_.lists[l].instructions) {
        if (instruction.kind != Kind::send || runs_of(device_, l) == 1) continue;
        const int memory = memory_of(device_, instruction.inputs[0]);
        if (is_lasting(memory)) continue;
        int& slots = device_.buffers[memory].slots;
        if (carries[memory].lists.empty()) slots = std::max(slots, kSentSlots);
        if (!instruction.message.passed_on)
          slots = std::max(slots, facts_.slots.of(node(instruction.node)));
      }
    for (const Returned& returned : device_.returned) {
      const int value = graph_.outputs[returned.output].value;
      int& slots = device_.buffers[memory_of(device_, returned.buffer)].slots;
      slots = std::max(slots, runs_per_step(graph_, graph_.producer(value)));
    }
  }

  /// State and accumulators.
  bool is_lasting(int memory) const {
    const auto has = [&](const std::vector<int>& buffers) {
      return std::any_of(buffers.begin(), buffers.end(),
                         [&](int buffer) { return memory_of(device_, buffer) == memory; });
    };
    return has(device_.kept) || has(device_.zeroed);
  }

  /// Sends of the devices that have the operand, receives of those that need the result, and sends
  /// of what they pass on.
  void add_transfer(int n) {
    const int operand = node(n).operands[0], result = node(n).results[0];
    const DeviceMessages& messages = facts_.messages.of(n, device_.device);
    for (const Message& message : messages.sends) add_message(n, Kind::send, operand, message);
    for (const Message& message : messages.receives) add_message(n, Kind::receive, result, message);
    for (const Message& message : messages.passed_on) add_message(n, Kind::send, result, message);
  }

  void add_message(int n, Kind kind, int value, const Message& message) {
    std::vector<Instruction>& list = messages_of(n, value);
    if (kind == Kind::send) ensure_loaded(value, list);
    Instruction instruction{.kind = kind, .node = n, .message = message};
    (kind == Kind::send ? instruction.inputs : instruction.outputs) = {buffer(value)};
    list.push_back(std::move(instruction));
  }

  /// The buffer of a value, made when first asked for.
  int buffer(int value) {
    int& buffer = device_.buffer_of_value[value];
    if (buffer >= 0) return buffer;
    const TensorType& type = graph_.type(value);
    const ShardingSpec& spec = program_.specs[value];
    buffer = static_cast<int>(device_.buffers.size());
    const DeviceMesh& mesh = program_.mesh_of(value);
    device_.buffers.push_back({{type.dtype, local_shape(type.shape, spec, mesh, at(value))},
                               local_offset(type.shape, spec, mesh, at(value)),
                               type.shape,
                               -1,
                               -1});
    return buffer;
  }

  const TensorType& local(int value) { return device_.buffers[buffer(value)].type; }

  void add(int n) {
    if (const Input* input = find_input(graph_, node(n).results[0])) return add_input(*input);
    std::vector<Instruction>& list = list_of(n);
    if (lies_in_operand(n)) {
      ensure_loaded(node(n).operands[0], list);
      const int operand = buffer(node(n).operands[0]);
      device_.buffers[buffer(node(n).results[0])].alias_of = operand;
      return;
    }
    if (is_idle(n)) return;
    if (!spmd::is_to_partial(node(n)))
      for (int value : node(n).operands) ensure_loaded(value, list);
    list.push_back(instruction(n));
  }

  void add_input(const Input& input) {
    invariant(input.kind != InputKind::boundary, "boundary input \"{}\" of a program that runs",
              input.name);
    if (input.kind == InputKind::state) device_.kept.push_back(buffer(input.value));
    if (input.kind == InputKind::accumulator) device_.zeroed.push_back(buffer(input.value));
  }

  /// Batch, shared and scalar inputs are loaded just before a list first reads them.
  void ensure_loaded(int value, std::vector<Instruction>& list) {
    const Input* input = find_input(graph_, value);
    const auto is = [&](InputKind kind) { return input && input->kind == kind; };
    if (!is(InputKind::batch) && !is(InputKind::shared) && !is(InputKind::scalar)) return;
    const int loaded = buffer(value);
    if (!loaded_.emplace(&list, loaded).second) return;
    list.push_back(
        {.kind = Kind::load, .node = graph_.values[value].producer, .outputs = {loaded}});
  }

  /// Nodes whose result is their operand's bytes under another shape.
  bool lies_in_operand(int n) {
    const OpDef& op = *node(n).op;
    if (spmd::is_to_partial(node(n)))
      return at(node(n).results[0])[node(n).attributes.integers("axes")[0]] == 0;
    return op.alias &&
           local(node(n).operands[0]).elements() == local(node(n).results[0]).elements();
  }

  /// True if this device computes nothing: its part of every result is empty.
  /// Collectives run even then.
  bool is_idle(int n) {
    return !spmd::is_collective(node(n)) &&
           std::all_of(node(n).results.begin(), node(n).results.end(),
                       [&](int value) { return local(value).elements() == 0; });
  }

  Instruction instruction(int n) {
    Instruction result{.node = n};
    for (int value : node(n).operands) result.inputs.push_back(buffer(value));
    for (int value : node(n).results) result.outputs.push_back(buffer(value));
    if (spmd::is_collective(node(n))) {
      result.kind = Kind::collective;
      result.call = call(n);
    } else if (spmd::is_to_partial(node(n))) {
      result.kind = Kind::fill;
      result.inputs.clear();
      result.value = identity(n);
    } else if (node(n).op->reshard) {
      result.kind = Kind::copy;
    }
    result.overlapped = node(n).attributes.contains(spmd::kOverlapped);
    return result;
  }

  double identity(int n) const {
    const auto axis = node(n).attributes.integers("axes")[0];
    const Combiner combiner = program_.specs[node(n).results[0]].axes[axis].combiner;
    return combiner == Combiner::sum ? 0 : -kInfinity;
  }

  /// Dimension `dim` of `value` with the extent of a full shard.
  ShardedDim sharded(int value, std::int64_t dim) const {
    const DeviceMesh& mesh = program_.mesh_of(value);
    const std::vector<int> first(mesh.num_axes(), 0);
    const int d = static_cast<int>(dim);
    return {
        d, shard_extent(graph_.type(value).shape[d], program_.specs[value], d, mesh, first).extent};
  }

  CollectiveCall call(int n) const {
    const Attributes& attributes = node(n).attributes;
    const auto& axes = attributes.integers("axes");
    CollectiveCall call;
    call.kind = *node(n).op->reshard;
    call.group = spmd::group_of(program_, node(n), device_.rank);
    if (reduces(call.kind))
      call.combiner = program_.specs[node(n).operands[0]].axes[axes[0]].combiner;
    if (!splits(call.kind) && !joins(call.kind)) return call;
    const std::vector<std::int64_t>& dims = attributes.integers("dims");
    for (std::size_t i = 0; i < dims.size(); ++i)
      call.dims.push_back(
          sharded(splits(call.kind) ? node(n).results[i] : node(n).operands[i], dims[i]));
    if (pairwise(call.kind))
      call.from_dim = sharded(node(n).operands[0], attributes.integer("from_dim"));
    return call;
  }

  const ProgramFacts& facts_;
  const spmd::SpmdProgram& program_;
  const Graph& graph_;
  const Lists& lists_;
  int group_ = 0;                     ///< of meshes that have the device
  std::vector<std::vector<int>> at_;  ///< coordinates of the device, by mesh
  DeviceProgram device_;
  std::set<std::pair<const std::vector<Instruction>*, int>> loaded_;  ///< buffers, by list
};

/// For every instruction the position of the next one in the list that touches a result of it; the
/// list's end if there is none. Of a received tensor, a send that passes on another box does not
/// count.
std::vector<std::size_t> next_uses(const DeviceProgram& device,
                                   const std::vector<Instruction>& list) {
  std::vector<std::size_t> next(list.size(), list.size()),
      touched(device.buffers.size(), list.size());
  std::map<int, std::vector<std::size_t>> passed_on;  // sends of what their own transfer brought
  for (std::size_t i = list.size(); i-- > 0;) {
    for (int buffer : list[i].outputs)
      next[i] = std::min(next[i], touched[memory_of(device, buffer)]);
    if (list[i].kind == Kind::receive) {
      for (std::size_t send : passed_on[list[i].outputs[0]])
        if (boxes_meet(list[i].message, list[send].message)) next[i] = std::min(next[i], send);
      continue;  // another box of the same tensor may come before
    }
    if (list[i].message.passed_on) {
      passed_on[list[i].inputs[0]].push_back(i);
      continue;
    }
    for (const auto* buffers : {&list[i].inputs, &list[i].outputs})
      for (int buffer : *buffers) touched[memory_of(device, buffer)] = i;
  }
  return next;
}

/// Collectives in flight at once: one that runs and one that waits for its turn. More would only
/// keep their operands alive. Gathers of state do not count: their operands live anyway.
constexpr std::size_t kMaxInFlight = 2;

bool reads_state_alone(const DeviceProgram& device, const Instruction& instruction) {
  return std::ranges::all_of(instruction.inputs, [&](int buffer) {
    return std::ranges::find(device.kept, memory_of(device, buffer)) != device.kept.end();
  });
}

/// Bytes that live at each instruction of a device program without overlap.
class SynchronousBytes {
 public:
  SynchronousBytes(const DeviceProgram& device, const spmd::SpmdProgram& program)
      : device_(device), last_(last_uses(device)), live_(num_positions(device) + 1, 0) {
    take_over(device_, program);
    const std::vector<LiveRange> ranges = live_ranges(device_);
    std::vector<std::int64_t> change(live_.size() + 1, 0);
    for (std::size_t b = 0; b < ranges.size(); ++b) {
      if (ranges[b].empty()) continue;
      const int end = std::min(ranges[b].end + 1, static_cast<int>(live_.size()));
      change[std::max(ranges[b].begin, 0)] += bytes_of(static_cast<int>(b));
      change[end] -= bytes_of(static_cast<int>(b));
    }
    std::partial_sum(change.begin(), change.end() - 1, live_.begin());
    peak_ = *std::max_element(live_.begin(), live_.end());
  }

  /// True if the operands of these instructions of a list, held there until instruction `at`,
  /// leave the peak as it is.
  bool may_hold(const std::deque<std::size_t>& instructions, int list, std::size_t at) const {
    const int position = first_position(device_, list) + static_cast<int>(at);
    std::int64_t held = 0;
    for (const std::size_t i : instructions)
      held += freed_before(device_.lists[list].instructions[i], position);
    return live_[position] + held <= peak_;
  }

 private:
  /// Per buffer, where its memory is used last.
  static std::vector<int> last_uses(const DeviceProgram& device) {
    const std::vector<LiveRange> ranges = live_ranges(device);
    std::vector<int> last(ranges.size());
    for (std::size_t b = 0; b < last.size(); ++b)
      last[b] = ranges[memory_of(device, static_cast<int>(b))].end;
    return last;
  }

  std::int64_t bytes_of(int memory) const {
    return device_.buffers[memory].slots * device_.buffers[memory].type.bytes();
  }

  /// Bytes of operands that another result could have by the instruction at `position`: unless the
  /// collective's own result has taken them over.
  std::int64_t freed_before(const Instruction& collective, int position) const {
    std::int64_t bytes = 0;
    for (const int buffer : collective.inputs) {
      const bool is_own = std::ranges::any_of(collective.outputs, [&](int result) {
        return memory_of(device_, result) == memory_of(device_, buffer);
      });
      if (!is_own && last_[buffer] <= position) bytes += bytes_of(buffer);
    }
    return bytes;
  }

  DeviceProgram device_;         ///< its results in the memory of operands
  const std::vector<int> last_;  ///< before that
  std::vector<std::int64_t> live_;
  std::int64_t peak_ = 0;
};

/// For every position of list `number` (and its end) what was started before and must be done
/// there: before the results are first touched, before one collective too many starts, or before
/// operands of collectives add to the peak of `bytes`, if given.
std::vector<std::vector<std::size_t>> waits_of(const DeviceProgram& device, int number,
                                               const std::vector<bool>& starts,
                                               const SynchronousBytes* bytes) {
  const std::vector<Instruction>& list = device.lists[number].instructions;
  std::vector<std::vector<std::size_t>> awaited_at(list.size() + 1);
  const std::vector<std::size_t> next = next_uses(device, list);
  std::deque<std::size_t> in_flight;  // by their start
  for (std::size_t i = 0; i <= list.size(); ++i) {
    for (const std::size_t start : in_flight)
      if (next[start] <= i) awaited_at[i].push_back(start);
    std::erase_if(in_flight, [&](std::size_t start) { return next[start] <= i; });
    if (i == list.size()) break;
    const auto await_first = [&] {
      awaited_at[i].push_back(in_flight.front());
      in_flight.pop_front();
    };
    while (bytes && !in_flight.empty() && !bytes->may_hold(in_flight, number, i)) await_first();
    if (!starts[i]) continue;
    if (list[i].kind == Kind::receive || reads_state_alone(device, list[i])) {
      awaited_at[next[i]].push_back(i);
      continue;
    }
    if (in_flight.size() == kMaxInFlight) await_first();
    in_flight.push_back(i);
  }
  return awaited_at;
}

/// Collectives followed by work are started there. They and received messages are
/// awaited where `waits_of` says.
std::vector<Instruction> overlapped(const DeviceProgram& device, int number,
                                    const std::vector<bool>& worth, const SynchronousBytes* bytes) {
  const std::vector<Instruction>& list = device.lists[number].instructions;
  std::vector<bool> starts;
  for (const Instruction& instruction : list)
    starts.push_back(instruction.kind == Kind::receive ||
                     (instruction.kind == Kind::collective && worth[instruction.node]));
  const std::vector<std::vector<std::size_t>> awaited_at = waits_of(device, number, starts, bytes);
  std::vector<Instruction> result;
  std::vector<int> position(list.size());
  for (std::size_t i = 0; i <= list.size(); ++i) {
    for (std::size_t start : awaited_at[i])
      result.push_back({.kind = Kind::wait, .node = list[start].node, .awaits = position[start]});
    if (i == list.size()) break;
    position[i] = static_cast<int>(result.size());
    result.push_back(list[i]);
    if (starts[i] && list[i].kind == Kind::collective) result.back().kind = Kind::start;
  }
  return result;
}

}  // namespace

DeviceProgram emit(const ProgramFacts& facts, int device) {
  DeviceProgram result = Emitter(facts, device).run();
  std::optional<SynchronousBytes> bytes;
  if (facts.awaits_within_peak) bytes.emplace(result, facts.program);
  for (int l = 0; l < static_cast<int>(result.lists.size()); ++l)
    result.lists[l].instructions = overlapped(result, l, facts.starts, bytes ? &*bytes : nullptr);
  return guard_sends(with_updates(result, facts.program));
}

DeviceProgram emit(const spmd::SpmdProgram& program, int device, bool overlap,
                   const pipeline::PipelineSchedule& schedule) {
  return emit(ProgramFacts(program, overlap, schedule), device);
}

}  // namespace alpa::lower
