// src/cuda/convolutions.cc — chooses cuDNN's engine of a convolution, by measurement or from the
// cache
#include "convolutions.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>

#include "alpa/base/error.h"
#include "dnn_library.h"
#include "trial.h"

namespace alpa::cuda {
namespace {

/// Plans that are timed against each other. Some are compiled for the card when they first run.
constexpr int kCandidates = 4;

/// Says why convolutions are slow, once per process.
void say_absent(const char* why) {
  static std::atomic<bool> said = false;
  if (!said.exchange(true))
    fmt::print(stderr, "alpa: convolutions run on plain kernels, which are slow: {}\n", why);
}

/// What a trial of a convolution needs.
std::int64_t trial_bytes(const ConvolutionLaunch& problem) {
  const std::int64_t elements =
      problem.x_elements() + problem.kernel_elements() + problem.y_elements();
  return elements * static_cast<std::int64_t>(size_of(problem.dtype)) +
         convolution_scratch(problem).workspace_bytes;
}

/// -1 if the text is no number.
int place_of(const std::string& text) {
  int place = -1;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, place);
  return error == std::errc() && read == end ? place : -1;
}

bool keeps_numerics(const DnnEngine& engine, bool rounds_f32) {
  return !engine.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
         !engine.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
         !engine.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) &&
         (rounds_f32 || !engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
}

}  // namespace

ConvolutionEngines::ConvolutionEngines(const DnnTarget& target, const ConvolutionLaunch& problem,
                                       bool tf32)
    : target_(target),
      proposed_(dnn_engines(target, dnn_convolution(problem))),
      rounds_f32_(tf32 || problem.dtype != f32),
      workspace_bytes_(convolution_scratch(problem).workspace_bytes) {}

std::shared_ptr<const DnnPlan> ConvolutionEngines::plan(int place) const {
  const auto count = static_cast<int>(proposed_.size());
  if (place < 0 || place >= count || !keeps_numerics(proposed_[place], rounds_f32_)) return nullptr;
  try {
    auto plan = std::make_shared<const DnnPlan>(target_, proposed_[place]);
    return plan->workspace_bytes() <= workspace_bytes_ ? plan : nullptr;
  } catch (const Error&) {
    return nullptr;
  }
}

std::vector<ConvolutionPlan> ConvolutionEngines::plans(int most) const {
  std::vector<ConvolutionPlan> plans;
  for (int place = 0; place < static_cast<int>(proposed_.size()); ++place) {
    if (static_cast<int>(plans.size()) == most) break;
    if (auto found = plan(place)) plans.push_back({place, std::move(found)});
  }
  return plans;
}

Convolutions::~Convolutions() = default;

bool Convolutions::has_dnn() {
  if (handle_ || absent_) return !absent_;
  try {
    dnn();
  } catch (const Error& error) {
    say_absent(error.what());
    absent_ = true;
    return false;
  }
  handle_ = make_dnn_handle();
  if (options_.measured && options_.cached)
    choices_ = Choices(choice_file_name("convolutions", dnn().version()), options_.known);
  return true;
}

std::shared_ptr<const DnnPlan> Convolutions::load(const ConvolutionLaunch& problem) {
  if (!has_dnn()) return nullptr;
  const std::string key = (options_.tf32 ? "tf32 " : "") + to_string(problem);
  if (const auto known = chosen_.find(key); known != chosen_.end()) return known->second;
  return chosen_[key] = choose(problem, key);
}

std::shared_ptr<const DnnPlan> Convolutions::choose(const ConvolutionLaunch& problem,
                                                    const std::string& key) {
  const ConvolutionEngines engines({.handle = handle_.get()}, problem, options_.tf32);
  if (const std::string* const text = choices_.find(key))
    if (auto plan = engines.plan(place_of(*text))) return plan;
  const std::vector<ConvolutionPlan> plans = engines.plans(options_.measured ? kCandidates : 1);
  if (plans.empty()) {
    fmt::print(stderr,
               "alpa: cuDNN has no engine for {} within {} bytes of workspace; it runs on a plain "
               "kernel, which is slow\n",
               key, convolution_scratch(problem).workspace_bytes);
    return nullptr;
  }
  return options_.measured ? fastest(problem, key, plans) : plans[0].plan;
}

std::shared_ptr<const DnnPlan> Convolutions::fastest(const ConvolutionLaunch& problem,
                                                     const std::string& key,
                                                     const std::vector<ConvolutionPlan>& plans) {
  std::optional<Trial> trial = Trial::of(trial_bytes(problem));
  if (!trial) return plans[0].plan;
  const std::array<std::pair<std::int64_t, void*>, 3> tensors = {
      std::pair{kDnnX, trial->random(problem.dtype, problem.x_elements())},
      std::pair{kDnnKernel, trial->random(problem.dtype, problem.kernel_elements())},
      std::pair{kDnnY, trial->random(problem.dtype, problem.y_elements())}};
  DnnPacks packs;
  const DnnDescriptor& pack =
      packs.of(tensors, trial->scratch(convolution_scratch(problem).workspace_bytes));
  std::vector<Way> ways;
  for (const ConvolutionPlan& plan : plans)
    ways.push_back([&](Stream stream) { plan.plan->run(pack, stream); });
  const Trial::Outcome outcome = trial->run(ways);
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
