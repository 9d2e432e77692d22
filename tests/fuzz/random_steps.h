#pragma once
/// Random models whose numbers depend on the micro-batch, trained on batches of every size.
#include <alpa/alpa.h>

#include <string>
#include <vector>

#include "fuzz/random_model.h"

namespace alpa::fuzz {

/// Four blocks with pipeline boundaries between them, in f64, on x [B, C] or [B, T, C]: dense
/// layers, dropout, batch and layer normalisation, experts, attention, residuals, values that skip
/// blocks. The loss is a cross entropy, with ignored labels as often as not.
class RandomStep {
 public:
  explicit RandomStep(Random& random);

  TrainingStep training(std::int64_t rows) const;
  TrainingStep evaluation(std::int64_t rows) const;
  TrainingStep prediction(std::int64_t rows) const;
  std::map<std::string, Array> batch(std::int64_t rows, Random& random) const;
  const std::string& text() const { return text_; }
  bool computes_again() const { return options_.remat == Remat::all; }

 private:
  struct Flow {
    Value h;
    Value extra_loss;
  };
  using Block = std::function<Flow(Value)>;

  Block random_block(Random& random);
  Value logits(const Batch& b, Value& extra_loss) const;
  LossAndMetrics loss(const Batch& b) const;
  std::vector<BatchInput> inputs(std::int64_t rows) const;

  std::int64_t tokens_ = 0;  ///< 0: x is [B, C]
  std::int64_t width_ = 0, classes_ = 0;
  std::optional<std::int64_t> ignored_;
  std::vector<Block> blocks_;
  bool skips_ = false;  ///< what the first block gives also reaches the last layer
  nn::Dense last_;
  StepOptions options_;
  Optimizer optimizer_;
  std::string text_;
};

/// A method on some devices.
struct Placement {
  Method method;
  int devices = 1;
  std::string text;
};

/// Any method but Serial; of pipelines any schedule, stages and stages per part of the devices.
Placement random_placement(Random& random, const RandomStep& model, int micro_batches,
                           std::int64_t rows);

/// What a sequence of events (training, evaluation and prediction, on whole and short batches)
/// leaves.
struct Trail {
  std::vector<double> numbers;  ///< metrics and predictions, in order
  std::map<std::string, std::vector<double>> state;
  std::string enlarged;  ///< bytes of short batches that needed more than all before
};

/// Draws a model, a batch in micro-batches, a sequence of events and some placements. What differs
/// from one device that cuts batches into as many micro-batches, or in planned and measured bytes;
/// empty if nothing does.
std::string short_batch_difference_of(std::uint64_t seed);

}  // namespace alpa::fuzz
