// src/cuda/dnn_plans.cc — chooses cuDNN's engine of a problem, by measurement or from the cache
#include "dnn_plans.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <set>

#include "alpa/base/error.h"
#include "dnn_library.h"
#include "trial.h"

namespace alpa::cuda {
namespace {

/// Plans that are timed against each other. Some are compiled for the card when they first run.
constexpr int kCandidates = 4;

/// Bytes of device memory for a trial of the problem: workspace and operands.
std::int64_t trial_bytes(const DnnProblem& problem) {
  std::int64_t bytes = problem.workspace_bytes;
  for (const DnnOperand& operand : problem.operands)
    bytes += operand.elements * static_cast<std::int64_t>(size_of(operand.dtype));
  return bytes;
}

/// -1 if the text is no number.
int place_of(const std::string& text) {
  int place = -1;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, place);
  return error == std::errc() && read == end ? place : -1;
}

bool keeps_numerics(const DnnEngine& engine, bool uses_tensor_cores, bool repeats) {
  const auto has_none = [&](std::initializer_list<cudnnBackendNumericalNote_t> notes) {
    return std::none_of(notes.begin(), notes.end(), [&](auto note) { return engine.has(note); });
  };
  return has_none({CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                   CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
                   CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
                   CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13}) &&
         (!repeats || has_none({CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC})) &&
         (uses_tensor_cores ||
          has_none({CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_WINOGRAD,
                    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_FFT}));
}

}  // namespace

DnnEngines::DnnEngines(const DnnTarget& target, const DnnProblem& problem, bool tf32)
    : target_(target),
      proposed_(dnn_engines(target, problem.operations())),
      uses_tensor_cores_(tf32 || !problem.has_f32_products),
      repeats_(problem.repeats),
      workspace_bytes_(problem.workspace_bytes) {}

std::shared_ptr<const DnnPlan> DnnEngines::plan(int place) const {
  const auto count = static_cast<int>(proposed_.size());
  if (place < 0 || place >= count ||
      !keeps_numerics(proposed_[place], uses_tensor_cores_, repeats_))
    return nullptr;
  try {
    auto plan = std::make_shared<const DnnPlan>(target_, proposed_[place]);
    return plan->workspace_bytes() <= workspace_bytes_ ? plan : nullptr;
  } catch (const Error&) {
    return nullptr;
  }
}

std::vector<PlacedPlan> DnnEngines::plans(int most, const Stopwatch& node) const {
  std::vector<PlacedPlan> plans;
  for (int place = 0; place < static_cast<int>(proposed_.size()); ++place) {
    const bool in_time = plans.empty() || node.seconds() < kNodeSeconds;
    if (static_cast<int>(plans.size()) == most || !in_time) break;
    if (auto found = plan(place)) plans.push_back({place, std::move(found)});
  }
  return plans;
}

int DnnEngines::count() const {
  return static_cast<int>(
      std::count_if(proposed_.begin(), proposed_.end(), [&](const DnnEngine& engine) {
        return keeps_numerics(engine, uses_tensor_cores_, repeats_);
      }));
}

void say_plain(std::string_view subject, const std::string& why) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::string line =
      fmt::format("alpa: {} on plain kernels, which are slow: {}\n", subject, why);
  const std::lock_guard lock(mutex);
  if (said.insert(line).second) fmt::print(stderr, "{}", line);
}

DnnPlans::~DnnPlans() = default;

bool DnnPlans::has_dnn(const DnnProblem& problem) {
  try {
    require_dnn(problem.least_version);
  } catch (const Error& error) {
    say_plain(problem.subject, error.what());
    return false;
  }
  if (handle_) return true;
  handle_ = make_dnn_handle();
  if (options_.measured && options_.cached)
    choices_ = Choices(choice_file_name("engines", dnn().version()), options_.known);
  return true;
}

std::shared_ptr<const DnnPlan> DnnPlans::load(const DnnProblem& problem, const Stopwatch& node) {
  if (!has_dnn(problem)) return nullptr;
  const std::string key = (options_.tf32 ? "tf32 " : "") + problem.key;
  if (const auto known = chosen_.find(key); known != chosen_.end()) return known->second;
  return chosen_[key] = choose(problem, key, node);
}

std::shared_ptr<const DnnPlan> DnnPlans::choose(const DnnProblem& problem, const std::string& key,
                                                const Stopwatch& node) {
  const DnnEngines engines({.handle = handle_.get()}, problem, options_.tf32);
  if (const std::string* const text = choices_.find(key))
    if (auto plan = engines.plan(place_of(*text))) return plan;
  const std::vector<PlacedPlan> plans = engines.plans(options_.measured ? kCandidates : 1, node);
  if (plans.empty()) {
    fmt::print(stderr,
               "alpa: cuDNN has no engine for {} within {} bytes of workspace; it runs on a plain "
               "kernel, which is slow\n",
               key, problem.workspace_bytes);
    return nullptr;
  }
  return options_.measured ? fastest(problem, key, plans, node) : plans[0].plan;
}

std::shared_ptr<const DnnPlan> DnnPlans::fastest(const DnnProblem& problem, const std::string& key,
                                                 const std::vector<PlacedPlan>& plans,
                                                 const Stopwatch& node) {
  std::optional<Trial> trial = Trial::of(trial_bytes(problem));
  if (!trial) return plans[0].plan;
  std::vector<std::pair<std::int64_t, void*>> tensors(problem.numbers.begin(),
                                                      problem.numbers.end());
  for (const DnnOperand& operand : problem.operands)
    tensors.emplace_back(operand.number, trial->random(operand.dtype, operand.elements));
  DnnPacks packs;
  const DnnDescriptor& pack = packs.of(tensors, trial->scratch(problem.workspace_bytes));
  std::vector<Way> ways;
  for (const PlacedPlan& plan : plans)
    ways.push_back([&](Stream stream) { plan.plan->run(pack, stream); });
  const Trial::Outcome outcome = trial->run(ways, node);
  if (outcome.fastest < 0) {
    fmt::print(stderr,
               "alpa: none of {} engines that cuDNN proposes for {} runs, so a plain kernel does, "
               "which is slow: {}\n",
               plans.size(), key, outcome.refusal);
    return nullptr;
  }
  choices_.remember(key, std::to_string(plans[outcome.fastest].place));
  return plans[outcome.fastest].plan;
}

}  // namespace alpa::cuda
