#pragma once
/// Lower bound on a step over all its variants: numbers of micro-batches, and layers computed again
/// (src/search/stages/recomputable.h).
#include <cstdint>
#include <memory>
#include <vector>

#include "step_variant.h"

namespace alpa {

class VariantProof {
 public:
  /// Arguments must outlive it.
  VariantProof(const std::vector<StepVariant>& variants, const MethodOptions& method,
               const Cluster& cluster, std::int64_t budget);
  ~VariantProof();
  VariantProof(const VariantProof&) = delete;
  VariantProof& operator=(const VariantProof&) = delete;

  /// Raises the least bound of all, up to `enough`, for so many seconds of work.
  void raise(double enough, double work_seconds);
  bool has_begun() const { return !numbers_.empty(); }
  /// Seconds that no variant takes less than, and none with so many micro-batches.
  double bound() const;
  double bound_of(int num_micro_batches) const;

 private:
  struct Number;
  void begin();
  void take_bounds();

  const std::vector<StepVariant>& variants_;
  const MethodOptions& method_;
  const Cluster& cluster_;
  const std::int64_t budget_;
  std::vector<std::unique_ptr<Number>>
      numbers_;  ///< of micro-batches, by their order among the variants
};

}  // namespace alpa
