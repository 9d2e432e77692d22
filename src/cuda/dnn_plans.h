#pragma once
/// Choice of cuDNN's engines: the fastest on this card of those that cuDNN proposes, that keep the
/// numerics of matrix products (matmul.h) and whose workspace fits into what was planned.
/// Excluded are engines that round f32 (unless TF32 is allowed), convert inputs to fewer bits, sum
/// in fewer bits than f32, or, where a problem repeats, give other bits from run to run. Transforms
/// lose digits where terms cancel, so Winograd's and Fourier's of f32 are excluded, too, and
/// Winograd's of tiles above 4×4.
/// Thread rule: a `DnnPlans` and what it loads belong to one host thread at a time.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "choice_file.h"
#include "dnn_graph.h"
#include "matmul.h"

namespace alpa::cuda {

/// A tensor in device memory.
struct DnnOperand {
  std::int64_t number;
  DType dtype;
  std::int64_t elements;
};

/// Description of a computation for cuDNN.
struct DnnProblem {
  std::string key;                                         ///< equal keys mean equal problems
  std::string_view subject;                                ///< "convolutions run", for messages
  std::function<std::vector<DnnDescriptor>()> operations;  ///< throws Error if cuDNN refuses one
  std::vector<DnnOperand> operands;
  DnnTensors numbers = {};  ///< by value, in host memory that outlives the problem
  std::int64_t workspace_bytes = 0;
  bool has_f32_products = false;  ///< which tensor cores round
  bool repeats = true;            ///< with the same bits in every run
  std::size_t least_version = 0;  ///< of cuDNN
};

/// A plan, and its engine's place among cuDNN's proposals.
struct PlacedPlan {
  int place = 0;
  std::shared_ptr<const DnnPlan> plan;
};

/// Engines that cuDNN proposes for a problem.
class DnnEngines {
 public:
  /// Throws Error with cuDNN's reason if it refuses the description.
  DnnEngines(const DnnTarget& target, const DnnProblem& problem, bool tf32);

  /// Null if the engine does not keep the numerics, needs more workspace than planned, or cuDNN
  /// refuses it after all.
  std::shared_ptr<const DnnPlan> plan(int place) const;
  /// The first `most`, the most promising ones first; of those that `node` had no time for (see
  /// kNodeSeconds) one alone. Some are compiled for the card now.
  std::vector<PlacedPlan> plans(int most, const Stopwatch& node = {}) const;
  /// Engines that keep the numerics.
  int count() const;

 private:
  DnnTarget target_;
  std::vector<DnnEngine> proposed_;
  bool uses_tensor_cores_, repeats_;
  std::int64_t workspace_bytes_;
};

/// Says on stderr that `subject` ("attention runs") on plain kernels, which are slow, and why: once
/// per process and reason. Any thread.
void say_plain(std::string_view subject, const std::string& why);

/// Creates the plans of one card. The card's device must be current at every call.
class DnnPlans {
 public:
  explicit DnnPlans(const MatmulOptions& options = {}) : options_(options) {}
  ~DnnPlans();

  /// Null, with a line on stderr (once for each problem, or for all of a subject where cuDNN does
  /// not load or is too old), if cuDNN cannot compute it. Equal problems are measured once, for as
  /// long as kNodeSeconds (trial.h) leaves to `node`. Throws Error with cuDNN's reason if it
  /// refuses the description.
  std::shared_ptr<const DnnPlan> load(const DnnProblem& problem, const Stopwatch& node = {});

  /// The choices made so far, as a text.
  std::string choices() const { return choices_.text(); }

 private:
  bool has_dnn(const DnnProblem& problem);
  std::shared_ptr<const DnnPlan> choose(const DnnProblem& problem, const std::string& key,
                                        const Stopwatch& node);
  std::shared_ptr<const DnnPlan> fastest(const DnnProblem& problem, const std::string& key,
                                         const std::vector<PlacedPlan>& plans,
                                         const Stopwatch& node);

  MatmulOptions options_;
  DnnHandle handle_;  ///< made at first use
  Choices choices_;   ///< places
  std::map<std::string, std::shared_ptr<const DnnPlan>> chosen_;
};

}  // namespace alpa::cuda
