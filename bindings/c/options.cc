// bindings/c/options.cc — options as JSON
#include "bindings/c/options.h"

#include <fmt/ranges.h>

#include <set>
#include <type_traits>

#include "alpa/optim/adafactor.h"
#include "alpa/optim/adam.h"
#include "alpa/optim/lion.h"
#include "alpa/optim/sgd.h"
#include "src/base/json.h"

namespace bindings {

using namespace alpa;

namespace {

using Json = nlohmann::json;

template <class T>
bool holds(const Json& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return value.is_string();
  else if constexpr (std::is_same_v<T, bool>)
    return value.is_boolean();
  else if constexpr (std::is_integral_v<T>)
    return value.is_number_integer() && value >= 0 && value <= std::numeric_limits<T>::max();
  else if constexpr (std::is_floating_point_v<T>)
    return value.is_number();
  else
    return value.is_object();
}

template <class T>
const char* expected() {
  if constexpr (std::is_same_v<T, std::string>)
    return "a text";
  else if constexpr (std::is_same_v<T, bool>)
    return "true or false";
  else if constexpr (std::is_integral_v<T>)
    return "a whole number from 0 on";
  else if constexpr (std::is_floating_point_v<T>)
    return "a number";
  else
    return "an object";
}

/// The members of an object, each of which must be read.
class Members {
 public:
  Members(Json object, std::string what) : object_(std::move(object)), what_(std::move(what)) {
    require(object_.is_object(), "{} is {}; it must be an object", what_, shown(object_));
  }

  bool has(const char* name) const { return object_.contains(name); }
  /// Sets `target` if the member is there.
  template <class T>
  void read(const char* name, T& target) {
    known_.insert(name);
    const auto found = object_.find(name);
    if (found == object_.end()) return;
    require(holds<T>(*found), "{} {} is {}; it must be {}", what_, name, shown(*found),
            expected<T>());
    target = found->get<T>();
  }
  /// Throws Error if there is a member that nothing read.
  void require_known() const {
    for (const auto& [name, value] : object_.items())
      require(known_.contains(name), "{} {} is unknown; there are {}", what_, name,
              fmt::join(known_, ", "));
  }

 private:
  Json object_;
  std::string what_;
  std::set<std::string> known_;
};

/// Members that an update rule has besides its learning rate.
void read_rule(Members& m, optim::Adam& r) {
  m.read("beta1", r.beta1), m.read("beta2", r.beta2), m.read("epsilon", r.epsilon);
}
void read_rule(Members& m, optim::AdamW& r) {
  m.read("beta1", r.beta1), m.read("beta2", r.beta2), m.read("epsilon", r.epsilon);
  m.read("weight_decay", r.weight_decay);
}
void read_rule(Members& m, optim::Lamb& r) {
  m.read("beta1", r.beta1), m.read("beta2", r.beta2), m.read("epsilon", r.epsilon);
  m.read("weight_decay", r.weight_decay);
}
void read_rule(Members& m, optim::Lion& r) {
  m.read("beta1", r.beta1), m.read("beta2", r.beta2), m.read("weight_decay", r.weight_decay);
}
void read_rule(Members& m, optim::Sgd& r) {
  m.read("momentum", r.momentum), m.read("weight_decay", r.weight_decay);
  m.read("nesterov", r.nesterov);
}
void read_rule(Members& m, optim::Adafactor& r) {
  m.read("decay", r.decay), m.read("momentum", r.momentum);
  m.read("weight_decay", r.weight_decay);
}

template <class Rule>
Optimizer rule_of(Members members) {
  Rule rule;
  double rate = 0;
  read_rule(members, rule);
  members.read("learning_rate", rate);
  if (members.has("learning_rate")) rule.learning_rate = rate;
  members.require_known();
  return rule;
}

Optimizer optimizer_of(const Json& object) {
  Members members(object, "optimizer");
  std::string name = "adamw";
  members.read("name", name);
  if (name == "adam") return rule_of<optim::Adam>(std::move(members));
  if (name == "adamw") return rule_of<optim::AdamW>(std::move(members));
  if (name == "lamb") return rule_of<optim::Lamb>(std::move(members));
  if (name == "lion") return rule_of<optim::Lion>(std::move(members));
  if (name == "sgd") return rule_of<optim::Sgd>(std::move(members));
  if (name == "adafactor") return rule_of<optim::Adafactor>(std::move(members));
  fail("optimizer {} is unknown; there are adafactor, adam, adamw, lamb, lion, sgd", excerpt(name));
}

Precision precision_of(const std::string& name) {
  if (name == "as_written") return Precision::as_written;
  if (name == "bf16_mixed") return bf16_mixed;
  if (name == "f16_mixed") return f16_mixed;
  fail("option precision is {}; it must be as_written, bf16_mixed or f16_mixed", excerpt(name));
}

TrainingStep step_of(const Imported& function, Members& members) {
  ImportedStepOptions options;
  Json optimizer = Json::object();
  std::string precision = "as_written";
  members.read("parameters", options.parameters);
  members.read("optimizer", optimizer);
  members.read("micro_batches", options.micro_batches);
  members.read("precision", precision);
  members.read("clip_global_norm", options.step.clip_global_norm);
  options.step.precision = precision_of(precision);
  require(options.micro_batches > 0, "option micro_batches is 0; it must be at least 1");
  if (function.is_loss()) return training_step(function, optimizer_of(optimizer), options);
  for (const char* name :
       {"parameters", "optimizer", "micro_batches", "precision", "clip_global_norm"})
    require(!members.has(name),
            "option {} has no effect on a whole step of JAX, which is as it is; give the loss",
            name);
  return whole_step(function);
}

Cluster cluster_of(Members& members) {
  std::string name;
  int hosts = 1, devices = 0;
  members.read("cluster", name);
  members.read("hosts", hosts);
  members.read("devices", devices);
  require(members.has("cluster") != members.has("devices"),
          "give one of the options cluster ({}, or a cluster file) and devices",
          fmt::join(Cluster::names(), ", "));
  require(name.empty() == false || !members.has("hosts"),
          "option hosts has no effect without cluster");
  return name.empty() ? Cluster::local(devices) : Cluster::find(name, hosts);
}

/// Layers are found, as no text marks them.
void set_stages(PipeshardParallel& method, int stages) {
  method.layers = AutoLayers{stages};
  method.stages = AutoStages{};
  if (stages > 0) method.stages = UniformStages{stages};
  method.schedule = kAutoSchedule;
}

Method method_of(const Imported& function, Members& members) {
  std::string name = "shard", mesh = "auto";
  double time_limit = 60;
  std::int64_t budget = 0;
  int stages = 0, micro_batches = 1;
  members.read("method", name);
  members.read("mesh", mesh);
  members.read("stages", stages);
  members.read("time_limit", time_limit);
  members.read("memory_budget", budget);
  members.read("micro_batches", micro_batches);
  if (name == "auto") name = function.is_loss() ? "pipeline" : "shard";
  require(name == "pipeline" || !members.has("stages"),
          "option stages has no effect with method {}; it is for pipeline", name);
  Method method = parse_method(name);
  std::visit(
      [&](auto& options) {
        options.num_micro_batches = micro_batches;
        options.solver_seconds = time_limit;
        if (mesh != "auto") options.mesh_shape = parse_mesh_shape(mesh);
        if (budget > 0) options.memory_budget_bytes = budget;
        if constexpr (std::is_same_v<decltype(options), PipeshardParallel&>)
          set_stages(options, stages);
      },
      method);
  return method;
}

}  // namespace

Planned planned(const Imported& function, const std::string& options) {
  Members members(parse_json(options, "options"), "option");
  Cluster cluster = cluster_of(members);
  Method method = method_of(function, members);
  TrainingStep step = step_of(function, members);
  members.require_known();
  return {std::move(step), std::move(method), std::move(cluster)};
}

}  // namespace bindings
