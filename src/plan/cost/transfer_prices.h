#pragma once
/// Transfers between stages of a pipeline, each kind priced once.
#include <vector>

#include "src/plan/cost/transfer.h"

namespace alpa::cost {

/// Prices of one cluster's transfers, kept. Transfers are alike if they differ only in the hosts on
/// which they begin: all devices are as many whole hosts further. Not for several threads.
class TransferPrices {
 public:
  /// `cluster` outlives it.
  explicit TransferPrices(const Cluster& cluster) : cluster_(cluster) {}

  const Cluster& cluster() const { return cluster_; }
  /// `plan_transfer`.
  PlannedTransfer plan(const TensorType& type, const MeshLayout& from, const MeshLayout& to);
  /// `transfer_cost`.
  TransferCost cost(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                    const TransferRoute& route);
  /// Transfers planned or priced so far, like ones once.
  std::size_t distinct() const { return planned_.size() + priced_.size(); }

 private:
  struct Question {
    TensorType type;
    ShardingSpec from, to;
    TransferRoute route;
    DeviceMesh senders, receivers;  ///< moved to the first hosts of the cluster
    bool operator==(const Question&) const = default;
  };
  template <class Answer>
  struct Known {
    Question question;
    Answer answer;
  };

  Question question_of(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                       const TransferRoute& route) const;

  const Cluster& cluster_;
  std::vector<Known<PlannedTransfer>> planned_;
  std::vector<Known<TransferCost>> priced_;
};

}  // namespace alpa::cost
