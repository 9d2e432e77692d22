#pragma once
/// Other frameworks: the best plans that they can run, and their command lines or files for them.
#include <string>
#include <string_view>
#include <vector>

#include "src/search/stages/stage_guess.h"
#include "tools/plan_methods.h"

namespace plan {

/// How devices share a step, and what is computed again.
struct Degrees {
  int replicas = 1;        ///< groups of devices with copies of the state, which split the batch
  int shards = 1;          ///< devices of a group that split the batch and state
  int experts = 1;         ///< of these, the neighbours that split experts
  int context = 1;         ///< devices that split the tokens of a row
  int tensor = 1;          ///< devices that split heads and hidden features
  int pipeline = 1;        ///< parts of the devices that layers go through
  int virtual_stages = 1;  ///< stages of each part
  alpa::AxisUse shard_use = alpa::AxisUse::zero2;  ///< what of the state is split
  int micro_batches = 1;
  bool recomputes = false;  ///< every layer

  int data() const { return replicas * shards; }
};

/// What it takes to have another value of one degree, all others being chosen anew.
struct OtherChoice {
  std::string own;       ///< of the best plan: "pipeline 2"
  std::string choice;    ///< "pipeline 4"
  double seconds = 0;    ///< of the best plan, or guess, with this value
  bool guessed = false;  ///< no point with this value was planned
};

/// A plan in the terms of a framework, or why there is none.
struct FrameworkPlan {
  MethodResult result;
  Degrees degrees = {};
  std::vector<OtherChoice> others = {};  ///< of each degree, those that take least first
  double bound_seconds = 0;              ///< lower bound on all plans, whatever their degrees

  /// Rows of a micro-batch on each device that splits the batch.
  std::int64_t rows(const PlanFlags& flags) const {
    return flags.batch / degrees.micro_batches / degrees.data();
  }
};

/// A framework's grid of degrees, and how it is told the point to run. Layers of stages may differ
/// in number; all layers are computed again or none; 1F1B.
struct Framework {
  std::string_view name;                    ///< of --for
  std::vector<alpa::AxisUse> shard_uses;    ///< choices for the devices that split batch and state
  bool replicas = false;                    ///< may hold state in copies, beside shards
  bool experts = false;                     ///< expert parallelism
  bool context = false;                     ///< context parallelism, keys and values gathered
  bool tensor = false;                      ///< tensor parallelism inside a host
  bool stages = false;                      ///< pipeline parallelism
  bool virtual_stages = false;              ///< several stages on each device
  void (*check)(const Subject&) = nullptr;  ///< throws Error if it does not train the model
  /// The command line or file.
  std::vector<std::string> (*lines)(const Subject&, const FrameworkPlan&) = nullptr;
};

/// The framework of this name. Throws Error that lists them if there is none.
const Framework& find_framework(std::string_view name);
std::vector<std::string> framework_names();

/// The best plan of the framework's grid within the time limit, in the order of closed-form
/// guesses. Throws Error if the model has no layers to make stages of.
FrameworkPlan best_of_grid(const Framework& framework, const Subject& subject,
                           const Stoppable& stoppable);

/// 0 to 3: what of the state devices split that split the batch.
int zero_stage(alpa::AxisUse use);
/// "every layer recomputed" or "nothing recomputed".
std::string recomputed_text(const Degrees& degrees);

/// Shape and uses of the mesh of every stage, for these degrees: up to four axes, and one for
/// experts if the model `has_experts`, so that no other axis splits them.
alpa::inter_op::GuessedMeshes meshes_of(const alpa::Cluster& cluster, const Degrees& degrees,
                                        bool has_experts = false);

/// "data 8 (2 copies of 4 shards) x tensor 2 x pipeline 1; 4 micro-batches of 1 row; every layer
/// recomputed". `rows`: of a micro-batch, on a device that splits the batch.
std::string degrees_text(const Degrees& degrees, std::int64_t rows);

/// The plan, what the framework's restrictions cost beside `unrestricted`, and how to run it.
std::string framework_text(const Framework& framework, const Subject& subject,
                           const FrameworkPlan& found, const alpa::CompiledStep& unrestricted);
nlohmann::ordered_json framework_json(const Framework& framework, const Subject& subject,
                                      const FrameworkPlan& found,
                                      const alpa::CompiledStep& unrestricted);

/// What the frameworks' rows point to (framework_lines.cc).
void check_megatron(const Subject& subject);
void check_torchtitan(const Subject& subject);
void check_deepspeed(const Subject& subject);
void check_maxtext(const Subject& subject);
std::vector<std::string> megatron_lines(const Subject& subject, const FrameworkPlan& found);
std::vector<std::string> torchtitan_lines(const Subject& subject, const FrameworkPlan& found);
std::vector<std::string> deepspeed_lines(const Subject& subject, const FrameworkPlan& found);
std::vector<std::string> maxtext_lines(const Subject& subject, const FrameworkPlan& found);

}  // namespace plan
