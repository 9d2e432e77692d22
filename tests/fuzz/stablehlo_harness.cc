// StableHLO text, which is read and recorded as a graph.
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

}  // namespace alpa::fuzz
