#pragma once
/// Every model of models/ at a tiny size that is uneven on most meshes, trained under any method
/// and compared with one device.
#include <alpa/alpa.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace alpa::testing {

/// A model with a batch to train on.
struct ZooModel {
  std::string name;
  std::vector<BatchInput> inputs;
  std::function<LossAndMetrics(const Batch&)> model;
  std::map<std::string, Array> batch;
};

/// "gpt", "llama", "moe", "bert", "vit", "wide_resnet": twelve rows each.
const std::vector<ZooModel>& zoo();
const ZooModel& zoo_model(const std::string& name);

/// Rows of i32 tokens and their labels, of a vocabulary of so many.
std::map<std::string, Array> token_batch(std::int64_t rows, std::int64_t sequence,
                                         std::int64_t vocabulary);

/// Losses of three steps of SGD with momentum, and the state after them.
struct ZooOutcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> state;
};

/// Trains; checks on the way that planned and measured memory are equal.
ZooOutcome train(const ZooModel& model, const Method& method, const Cluster& cluster,
                 Precision precision = Precision::as_written);

/// Trains and compares with one device, which works in the same micro-batches. In f32 losses may be
/// 1e-5 apart, relatively, and tensors of the state 1e-5 of their largest element, at least 0.01.
/// In bf16, whose roundings are 1/256 at most, losses may be four roundings apart. The distance
/// (Euclidean) of a tensor from that of f32 may be three times that of one device in bf16, and
/// sixteen roundings of its length.
void check_like_one_device(const ZooModel& model, Method method, const Cluster& cluster,
                           int micro_batches = 1, Precision precision = Precision::as_written);

}  // namespace alpa::testing
