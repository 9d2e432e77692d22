// StableHLO text, which is read and recorded as a graph, and run.
#include <alpa/alpa.h>

#include "alpa/import/stablehlo.h"

#include "fuzz/harness.h"
#include "import/data.h"
#include "src/ir/recorder.h"

namespace alpa::fuzz {

int fuzz_stablehlo(const std::uint8_t* data, std::size_t size) {
  accepts([&] {
    const Imported function = import_stablehlo(input_text(data, size));
    Recorder graph;
    Values arguments;
    for (const ImportedTensor& argument : function.arguments)
      arguments.push_back(graph.input(InputKind::shared, argument.name, argument.type));
    function(arguments);
    verify(graph.finish());
  });
  return 0;
}

std::vector<std::string> stablehlo_seeds() {
  std::vector<std::string> seeds;
  for (const char* model : {"mlp", "mlp_sgd", "resnet", "llama_scan"})
    seeds.push_back(testing::JaxData(model).text());
  return seeds;
}

int fuzz_stablehlo_run(const std::uint8_t* data, std::size_t size) {
  accepts([&] {
    const Imported function = import_stablehlo(input_text(data, size));
    const TrainingStep step =
        custom_step({{"none", {f32, {1}}}}, [&](Builder& graph, const Batch&) {
          Values arguments;
          for (const ImportedTensor& argument : function.arguments)
            arguments.push_back(graph.parameter(argument.name, argument.type, zeros));
          const Values results = function(arguments);
          for (std::size_t i = 0; i < results.size(); ++i)
            graph.update(graph.parameter("new" + std::to_string(i), results[i].type(), zeros),
                         results[i]);
        });
    Serial method;
    method.memory_budget_bytes = 1 << 25;
    const Executable run = parallelize(step, method, Cluster::local(1));
    TrainState state = run.init(0);
    run.run(state, {{"none", Array({f32, {1}})}});
  });
  return 0;
}

std::vector<std::string> stablehlo_run_seeds() {
  std::vector<std::string> seeds;
  for (const auto& [name, text] : testing::modules(testing::JaxData("kinds").text()))
    seeds.push_back(text);
  return seeds;
}

}  // namespace alpa::fuzz
