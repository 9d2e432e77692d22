// bindings/c/alpa_c.cc — handles, and failures as messages
#include "bindings/c/alpa_c.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "alpa/parallelize.h"
#include "alpa/version.h"
#include "bindings/c/describe.h"
#include "bindings/c/options.h"
#include "src/base/file.h"
#include "src/base/json.h"

using namespace alpa;

struct alpa_function {
  Imported function;
};

struct alpa_plan {
  CompiledStep step;
  Cluster cluster;
  Imported function;
};

struct alpa_run {
  Imported function;
  Cluster cluster;
  Executable executable;
  TrainState state;
  std::optional<StepResult> result = {};  ///< of the last step
};

struct alpa_array {
  Array array;
};

namespace {

std::string& last_error() {
  thread_local std::string message;
  return message;
}

/// The result of `make`, or null after a failure, whose message is kept.
template <class Make>
auto guarded(const Make& make) -> decltype(make()) {
  try {
    return make();
  } catch (const Bug& bug) {
    last_error() = std::string("a bug of alpa: ") + bug.what();
  } catch (const std::exception& error) {
    last_error() = error.what();
  } catch (...) {
    last_error() = "an exception that is none of alpa's";
  }
  return nullptr;
}

template <class Do>
int status(const Do& run) {
  return guarded([&]() -> const void* { return run(), &last_error(); }) ? 0 : 1;
}

char* text_of(const std::string& text) {
  char* copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

Array view_of(const alpa_tensor& tensor) {
  require(tensor.name && tensor.dtype && tensor.data && tensor.rank >= 0 &&
              (tensor.shape || tensor.rank == 0),
          "a tensor lacks its name, dtype, shape or data");
  return Array::view(tensor.data,
                     {parse_dtype(tensor.dtype), Shape(tensor.shape, tensor.shape + tensor.rank)});
}

const StepResult& result_of(const alpa_run& run) {
  require(run.result.has_value(), "no step has run yet");
  return *run.result;
}

}  // namespace

const char* alpa_last_error(void) { return last_error().c_str(); }

const char* alpa_version(void) {
  static const std::string text(version());
  return text.c_str();
}

void alpa_free_text(char* text) { delete[] text; }

alpa_function* alpa_import(const char* text, size_t length) {
  return guarded([&] { return new alpa_function{import_stablehlo(std::string(text, length))}; });
}

char* alpa_function_json(const alpa_function* function) {
  return guarded([&] { return text_of(json_text(bindings::function_json(function->function))); });
}

void alpa_function_free(alpa_function* function) { delete function; }

alpa_plan* alpa_plan_new(const alpa_function* function, const char* options) {
  return guarded([&] {
    const bindings::Planned what = bindings::planned(function->function, options);
    return new alpa_plan{plan_only(what.step, what.method, what.cluster), what.cluster,
                         function->function};
  });
}

char* alpa_plan_json(const alpa_plan* plan) {
  return guarded(
      [&] { return text_of(json_text(bindings::plan_json(plan->step, plan->function))); });
}

char* alpa_plan_text(const alpa_plan* plan) {
  return guarded([&] { return text_of(explain(plan->step, plan->cluster)); });
}

int alpa_plan_report(const alpa_plan* plan, const char* path) {
  return status([&] { write_file(path, report(plan->step, plan->cluster)); });
}

void alpa_plan_free(alpa_plan* plan) { delete plan; }

alpa_run* alpa_run_new(const alpa_function* function, const char* options, uint64_t seed) {
  return guarded([&] {
    const bindings::Planned what = bindings::planned(function->function, options);
    const Executable executable = parallelize(what.step, what.method, what.cluster);
    return new alpa_run{function->function, what.cluster, executable, executable.init(seed)};
  });
}

alpa_plan* alpa_run_plan(const alpa_run* run) {
  return guarded([&] {
    return new alpa_plan{run->executable.planned(), run->cluster, run->function};
  });
}

int alpa_run_set(alpa_run* run, const alpa_tensor* content) {
  return status([&] {
    const Array array = view_of(*content);
    run->state[content->name] = array;
  });
}

alpa_array* alpa_run_get(const alpa_run* run, const char* name) {
  return guarded([&] { return new alpa_array{run->state[name].to_host()}; });
}

int alpa_run_step(alpa_run* run, const alpa_tensor* batch, size_t count) {
  return status([&] {
    BatchData data;
    for (size_t i = 0; i < count; ++i) {
      const Array array = view_of(batch[i]);
      require(data.emplace(batch[i].name, array).second, "batch input {} is given twice",
              batch[i].name);
    }
    run->result = run->executable.run(run->state, data);
  });
}

char* alpa_run_results(const alpa_run* run) {
  return guarded([&] {
    const StepResult& result = result_of(*run);
    nlohmann::ordered_json json = {{"metrics", result.metrics.values()},
                                   {"outputs", nlohmann::ordered_json::array()}};
    for (const auto& [name, array] : result.outputs) json["outputs"].push_back(name);
    return text_of(json_text(json));
  });
}

alpa_array* alpa_run_output(const alpa_run* run, const char* name) {
  return guarded([&] { return new alpa_array{result_of(*run).outputs[name]}; });
}

void alpa_run_free(alpa_run* run) { delete run; }

alpa_tensor alpa_array_tensor(const alpa_array* array) {
  const TensorType& type = array->array.type();
  return {"", name_of(type.dtype).data(), type.rank(), type.shape.data(), array->array.data()};
}

void alpa_array_free(alpa_array* array) { delete array; }
