#pragma once
/// Convolutions through cuDNN: the fastest on this card of the engines that cuDNN proposes, that
/// keep the numerics of matrix products (matmul.h) and whose workspace fits into what was planned.
/// Excluded are engines that round f32 (unless TF32 is allowed), convert inputs to fewer bits, sum
/// in fewer bits than f32, or give other bits from run to run. Thread rule: a `Convolutions` and
/// what it loads belong to one host thread.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "choice_file.h"
#include "dnn_convolution.h"
#include "matmul.h"

namespace alpa::cuda {

/// A plan of a convolution, and its engine's place among cuDNN's proposals.
struct ConvolutionPlan {
  int place = 0;
  std::shared_ptr<const DnnPlan> plan;
};

/// What cuDNN proposes for a convolution.
class ConvolutionEngines {
 public:
  /// Throws Error with cuDNN's reason if it refuses the description.
  ConvolutionEngines(const DnnTarget& target, const ConvolutionLaunch& problem, bool tf32);

  /// Null if the engine does not keep the numerics, needs more workspace than
  /// `convolution_scratch`, or cuDNN refuses it after all.
  std::shared_ptr<const DnnPlan> plan(int place) const;
  /// The first `most`, the most promising ones first.
  std::vector<ConvolutionPlan> plans(int most) const;

 private:
  DnnTarget target_;
  std::vector<DnnEngine> proposed_;
  bool rounds_f32_;
  std::int64_t workspace_bytes_;
};

/// Creates the convolutions of one card. The card's device must be current at every call.
class Convolutions {
 public:
  explicit Convolutions(const MatmulOptions& options = {}) : options_(options) {}
  ~Convolutions();

  /// Null, with a line on stderr (once for each problem, or for all where cuDNN does not load), if
  /// cuDNN cannot compute it. Equal problems are measured once. Throws Error with cuDNN's reason if
  /// it refuses the description.
  std::shared_ptr<const DnnPlan> load(const ConvolutionLaunch& problem);

  /// The choices made so far, as a text.
  std::string choices() const { return choices_.text(); }

 private:
  bool has_dnn();
  std::shared_ptr<const DnnPlan> choose(const ConvolutionLaunch& problem, const std::string& key);
  std::shared_ptr<const DnnPlan> fastest(const ConvolutionLaunch& problem, const std::string& key,
                                         const std::vector<ConvolutionPlan>& plans);

  MatmulOptions options_;
  DnnHandle handle_;  ///< made at first use
  bool absent_ = false;
  Choices choices_;  ///< places
  std::map<std::string, std::shared_ptr<const DnnPlan>> chosen_;
};

}  // namespace alpa::cuda
