#pragma once
/// What `alpa plan` plans: a model, a cluster and the options of the search.
#include <functional>
#include <optional>
#include <string>

#include "alpa/models/gpt.h"
#include "models/common/flags.h"
#include "models/common/task.h"

namespace plan {

struct PlanFlags : programs::Flags {
  std::string name;  ///< of the model, or a graph file; `model`: its size
  std::optional<int> hosts;
  std::string methods;  ///< of --compare
  std::string given_plan;
  std::string framework;  ///< of --for
  bool as_json = false, counts = false;

  PlanFlags();  ///< the defaults of `alpa plan`
};

/// A model to be planned.
struct PlannedModel {
  std::string name;  ///< "gpt 2.6B", or the file
  alpa::TrainingStep step = {};
  std::string item = {};    ///< what a step takes: "tokens"; "": unknown
  double items = 0;         ///< of a step
  bool traced = false;      ///< the graph is given: neither micro-batches nor layers can be chosen
  int micro_batches = 1;    ///< of a graph that is given
  bool has_layers = true;   ///< that stages can be made of
  bool fixed_rows = false;  ///< a function of JAX: `micro_batches` can't be chosen, layers can
  std::string imported = {};  ///< what was read of it, in words
  /// Of a decoder: what it is made of, and the tokens of an example.
  std::optional<alpa::models::DecoderOptions> decoder = {};
  std::int64_t sequence = 0;
  /// The step with the layers of --remat computed again; empty: it is the same for all.
  std::function<alpa::TrainingStep(const std::string& remat)> with_remat = {};

  /// `step`, with every layer computed again or none if that can be chosen.
  alpa::TrainingStep step_with(const std::string& remat) const {
    return with_remat ? with_remat(remat) : step;
  }
};

/// The cluster of --cluster and --hosts.
alpa::Cluster cluster_of(const PlanFlags& flags);
/// "2 hosts of 8 (dgx-a100)".
std::string cluster_text(const PlanFlags& flags, const alpa::Cluster& cluster);

/// The model of the flags. Throws Error if there is none, and for flags that it does not have.
PlannedModel model_of(const PlanFlags& flags);

/// A decoder that `origin` describes, planned under the flags of data and numbers.
PlannedModel model_of_decoder(const std::string& name, const alpa::models::DecoderOptions& decoder,
                              const std::string& origin, const PlanFlags& flags);

/// The method of the flags for this model, for stages that are searched for unless they say
/// otherwise.
alpa::Method method_of(const PlanFlags& flags, const PlannedModel& model);

/// Bytes with three digits, in MiB or, from 1 GiB on, in GiB: "12.5 GiB".
std::string size_text(double bytes);

/// Bytes of parameters and optimizer state in all.
double state_bytes(const PlannedModel& model);
/// Bytes that a device may use.
double device_bytes(const PlanFlags& flags, const alpa::Cluster& cluster);
/// Throws Error if the state alone takes more than the devices have: the bytes that are missing,
/// and the smallest number of hosts that would do.
void require_room_for_state(const PlanFlags& flags, const PlannedModel& model,
                            const alpa::Cluster& cluster);

/// Floating-point operations of a step, without those that are done again.
double useful_flops(const alpa::Graph& graph);

}  // namespace plan
