// src/lower/verify_contents.cc — checks that a device's lists have everything exactly once
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/lower/verify_device.h"

namespace alpa::lower {
namespace {

class Contents {
 public:
  Contents(const DeviceProgram& device, const spmd::SpmdProgram& program, const Messages& messages)
      : device_(device),
        program_(program),
        graph_(program.graph),
        expected_(messages),
        runs_(graph_.nodes.size()) {
    for (const Input& input : graph_.inputs) is_input_.insert(graph_.values[input.value].producer);
  }

  void run() {
    verify_buffers();
    for (list_ = 0; list_ < static_cast<int>(device_.lists.size()); ++list_) {
      verify_runs();
      const std::vector<Instruction>& list = device_.lists[list_].instructions;
      for (at_ = 0; at_ < static_cast<int>(list.size()); ++at_) add(list[at_]);
    }
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) verify_node(n);
    for (const Update& update : graph_.updates) verify_update(update);
  }

 private:
  using Kind = Instruction::Kind;

  bool is_here(int value) const {
    return program_.same_devices(program_.mesh_index(value), device_.mesh);
  }
  int buffer(int value) const { return device_.buffer_of_value[value]; }
  std::string here() const { return place_of(device_, program_, list_, at_); }

  std::vector<int> buffers(const std::vector<int>& values) const {
    std::vector<int> result;
    for (int value : values) result.push_back(buffer(value));
    return result;
  }

  // ---- buffers

  void verify_buffers() const {
    for (int value = 0; value < static_cast<int>(graph_.values.size()); ++value) {
      if (buffer(value) < 0) continue;
      const DeviceMesh& mesh = program_.mesh_of(value);
      const TensorType type{graph_.type(value).dtype,
                            local_shape(graph_.type(value).shape, program_.specs[value], mesh,
                                        mesh.coordinates(device_.rank))};
      invariant(device_.buffers[buffer(value)].type == type,
                "schedules: device {}: buffer {} of \"{}\" is {}, but its part of the value is {}",
                device_.device, buffer(value), graph_.producer(value).name,
                to_string(device_.buffers[buffer(value)].type), to_string(type));
    }
    for (const Input& input : graph_.inputs) {
      if (!is_here(input.value)) continue;
      verify_listed(input, InputKind::state, device_.kept, "kept");
      verify_listed(input, InputKind::accumulator, device_.zeroed, "cleared");
    }
  }

  void verify_listed(const Input& input, InputKind kind, const std::vector<int>& listed,
                     const char* how) const {
    const auto count = std::count(listed.begin(), listed.end(), buffer(input.value));
    invariant(input.kind != kind || count == 1, "schedules: device {}: {} \"{}\" is {} {} times",
              device_.device, name_of(kind), input.name, how, count);
  }

  // ---- runs

  /// Lists of region apply run once, and so does what comes before the micro-batches; all others
  /// run once per micro-batch, in order.
  void verify_runs() const {
    const std::vector<Instruction>& list = device_.lists[list_].instructions;
    const bool last = list_ + 1 == static_cast<int>(device_.lists.size());
    const bool first = list_ == 0 && device_.begins;
    const int runs = first || last ? 1 : graph_.num_micro_batches;
    std::vector<int> micro_batches;
    for (const ListRun& run : device_.schedule)
      if (run.list == list_) micro_batches.push_back(run.micro_batch);
    std::vector<int> expected(runs);
    std::iota(expected.begin(), expected.end(), 0);
    invariant(micro_batches == expected,
              "schedules: device {} in {}{}: runs of micro-batches [{}], but it needs [{}]",
              device_.device, device_.lists[list_].name,
              list.empty() ? "" : fmt::format(" (first \"{}\")", graph_.nodes[list[0].node].name),
              fmt::join(micro_batches, ", "), fmt::join(expected, ", "));
  }

  // ---- instructions

  void add(const Instruction& instruction) {
    const Node& node = graph_.nodes[instruction.node];
    switch (instruction.kind) {
      case Kind::load:
        return expect(instruction.outputs == buffers(node.results) &&
                          loads_.emplace(list_, instruction.node).second,
                      "loads a second time, or into another buffer");
      case Kind::wait: return;
      case Kind::send:
      case Kind::receive: return add_message(instruction, node);
      default: break;
    }
    if (is_input_.count(instruction.node) > 0) return add_copy(instruction, node);
    if (instruction.kind == Kind::collective || instruction.kind == Kind::start)
      verify_call(instruction, node);
    expect(instruction.outputs == buffers(node.results) &&
               (instruction.kind == Kind::fill || instruction.inputs == buffers(node.operands)),
           "uses other buffers than those of its values");
    expect(++runs_[instruction.node] == 1, "computes the node a second time");
  }

  void expect(bool condition, const char* otherwise) const {
    if (!condition) bug("schedules: {} {}", here(), otherwise);
  }

  void verify_call(const Instruction& instruction, const Node& node) const {
    expect(instruction.call.kind == *node.op->reshard &&
               instruction.call.group == spmd::group_of(program_, node, device_.rank),
           "calls another collective, or another group");
  }

  /// New content of state or an accumulator, or a copy of it saved before.
  void add_copy(const Instruction& instruction, const Node& node) {
    expect(instruction.kind == Kind::copy, "computes an input");
    if (instruction.outputs == buffers(node.results))
      expect(++copies_[node.results[0]] == 1, "updates it a second time");
  }

  /// Node, kind, peer, begin, extent, whether it is passed on.
  using Part = std::tuple<int, Kind, int, Shape, Shape, bool>;

  void add_message(const Instruction& instruction, const Node& node) {
    const bool sends = instruction.kind == Kind::send;
    const Message& message = instruction.message;
    expect(spmd::is_transfer(node) &&
               (sends ? instruction.inputs : instruction.outputs) ==
                   buffers(sends && !message.passed_on ? node.operands : node.results),
           "moves another buffer than that of its value");
    expect(messages_
               .insert({instruction.node, instruction.kind, message.peer, message.begin,
                        message.extent, message.passed_on})
               .second,
           "moves the box a second time");
  }

  // ---- nodes

  void verify_node(int n) const {
    const Node& node = graph_.nodes[n];
    if (spmd::is_transfer(node)) return verify_transfer(n);
    if (!is_here(node.results[0]) || is_input_.count(n) > 0 || runs_[n] == 1) return;
    const bool idle =
        !spmd::is_collective(node) &&
        std::all_of(node.results.begin(), node.results.end(), [&](int value) {
          return buffer(value) < 0 || device_.buffers[buffer(value)].type.elements() == 0;
        });
    invariant(idle || is_view(node),
              "schedules: device {}, {}: no instruction computes \"{}\" ({})", device_.device,
              name_of(node.region), node.name, node.op->name);
  }

  bool is_view(const Node& node) const {
    const bool may = node.op->alias || spmd::is_to_partial(node);
    return may && buffer(node.results[0]) >= 0 &&
           memory_of(device_, buffer(node.results[0])) ==
               memory_of(device_, buffer(node.operands[0]));
  }

  void verify_transfer(int n) const {
    const Node& node = graph_.nodes[n];
    const DeviceMessages& own = expected_.of(n, device_.device);
    const std::tuple<const std::vector<Message>&, Kind> expected[] = {
        {own.sends, Kind::send}, {own.receives, Kind::receive}, {own.passed_on, Kind::send}};
    std::size_t count = 0;
    for (const auto& [messages, kind] : expected)
      for (const Message& message : messages) {
        ++count;
        invariant(
            messages_.count(
                {n, kind, message.peer, message.begin, message.extent, message.passed_on}) == 1,
            "schedules: device {}, {}: no instruction {}s the box of {} at {} of \"{}\", device {}",
            device_.device, name_of(node.region), name_of(kind), alpa::to_string(message.extent),
            alpa::to_string(message.begin), node.name, message.peer);
      }
    const auto moved = std::count_if(messages_.begin(), messages_.end(),
                                     [n](const Part& part) { return std::get<0>(part) == n; });
    invariant(static_cast<std::size_t>(moved) == count,
              "schedules: device {}, {}: {} messages of \"{}\", whose layouts need {}",
              device_.device, name_of(node.region), moved, node.name, count);
  }

  void verify_update(const Update& update) const {
    if (!is_here(update.input) || buffer(update.value) < 0 ||
        device_.buffers[buffer(update.input)].type.bytes() == 0)
      return;
    const bool settled =
        memory_of(device_, buffer(update.value)) == memory_of(device_, buffer(update.input));
    invariant(settled || copies_.count(update.input) > 0,
              "schedules: device {}: nothing updates \"{}\"", device_.device,
              graph_.producer(update.input).name);
  }

  const DeviceProgram& device_;
  const spmd::SpmdProgram& program_;
  const Graph& graph_;
  const Messages& expected_;
  int list_ = 0, at_ = 0;                ///< the instruction that is looked at
  std::set<int> is_input_;               ///< nodes
  std::vector<int> runs_;                ///< per node: its instructions
  std::set<std::pair<int, int>> loads_;  ///< list and node
  std::map<int, int> copies_;            ///< by value of state
  std::set<Part> messages_;
};

}  // namespace

std::string place_of(const DeviceProgram& device, const spmd::SpmdProgram& program, int list,
                     int instruction, int micro_batch) {
  return fmt::format(
      "device {} in {}{}, instruction {} (\"{}\")", device.device, device.lists[list].name,
      micro_batch < 0 ? "" : fmt::format(" of micro-batch {}", micro_batch), instruction,
      program.graph.nodes[device.lists[list].instructions[instruction].node].name);
}

void verify_contents(const DeviceProgram& device, const spmd::SpmdProgram& program,
                     const Messages& messages) {
  Contents(device, program, messages).run();
}

}  // namespace alpa::lower
