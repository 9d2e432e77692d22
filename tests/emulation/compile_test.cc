// Elementwise programs of a step are compiled at once, and loading compiles no other.
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "alpa/alpa.h"
#include "cuda/device_run.h"
#include "cuda/epilogue_call.h"
#include "emulation/on_machine.h"
#include "src/base/thread_team.h"
#include "src/cuda/compile_kernel.h"
#include "src/ops/all_ops.h"

namespace alpa::compile_test {
namespace {

using namespace testing;

/// The emulation of NVRTC calls this compiler, which notes that it was called. It waits up to 20 s
/// for a second call, and notes it if there was none.
class NotedCompiler {
 public:
  NotedCompiler() : folder_(std::filesystem::temp_directory_path() / name()) {
    std::filesystem::create_directories(folder_);
    const std::filesystem::path script = folder_ / "compiler";
    std::ofstream(script) << "#!/bin/sh\nlog='" << log().string()
                          << "'\necho called >> \"$log\"\ntries=0\n"
                             "while [ $(grep -c called \"$log\") -lt 2 ]; do\n"
                             "  tries=$((tries + 1))\n"
                             "  if [ $tries -gt 200 ]; then echo alone >> \"$log\"; break; fi\n"
                             "  sleep 0.1\ndone\nexec c++ \"$@\"\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    compiler_.emplace("CXX", script.c_str());
  }
  ~NotedCompiler() { std::filesystem::remove_all(folder_); }

  int count(const std::string& word) const {
    std::ifstream file(log());
    return static_cast<int>(std::count(std::istream_iterator<std::string>(file), {}, word));
  }

 private:
  static std::string name() { return "alpa_noted_compiler." + std::to_string(getpid()); }
  std::filesystem::path log() const { return folder_ / "log"; }

  const std::filesystem::path folder_;
  std::optional<Variable> compiler_;
};

/// Sanitized builds always take the compiler that built them.
constexpr bool kTakesCompiler =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#else
    true;
#endif

TrainingStep step_of_elementwise() {
  const nn::Dense dense(512);
  return training_step(
      {{"x", {f32, {256, 512}}}},
      [=](const Batch& batch) {
        return nn::mean_squared_error(tanh(dense(tanh(batch["x"]) + batch["x"])), batch["x"]);
      },
      optim::Sgd{.learning_rate = 0.1});
}

TEST_CASE("elementwise programs of a step are compiled at the same time") {
  if (!kTakesCompiler || usable_cores() < 2) return;
  const On machine({});
  const NotedCompiler compiler;
  const Executable executable =
      parallelize(step_of_elementwise(), Serial(), Cluster::local(1, "cuda"));
  TrainState state = executable.init(0);
  executable.run(state, {{"x", Array(std::vector<float>(256 * 512, 0.5F), {256, 512})}});
  CHECK(compiler.count("called") >= 2);
  CHECK(compiler.count("alone") == 0);
}

/// The sources that loading `op` would compile are listed and compiled; loading compiles no more.
void check_sources(const OpDef& op, const std::vector<HostTensor>& in,
                   const std::vector<HostTensor>& out, const Attributes& attributes) {
  const On machine({});
  const NotedCompiler compiler;
  KernelCall call;
  for (const HostTensor& t : in) call.inputs.push_back(kernel_tensor(t));
  for (const HostTensor& t : out) call.outputs.push_back(kernel_tensor(t));
  call.attributes = &attributes;
  cuda::Matmuls products;
  std::vector<std::string> sources;
  cuda::Gpu card = this_card(products);
  card.sources = &sources;
  cuda::find_kernel(op)(op, call, card);
  CHECK(!sources.empty());
  CHECK(compiler.count("called") == 0);
  static int others = 0;  // so that none is alone
  sources.push_back("extern \"C\" __global__ void other" + std::to_string(others++) + "() {}");
  sources.push_back(sources[0]);
  cuda::compile_kernels(sources, card.architecture);
  const int compiled = compiler.count("called");
  std::sort(sources.begin(), sources.end());
  CHECK(compiled == std::unique(sources.begin(), sources.end()) - sources.begin());
  card.sources = nullptr;
  cuda::find_kernel(op)(op, call, card);
  CHECK(compiler.count("called") == compiled);
}

TEST_CASE("the sources of an operator are all that loading it compiles") {
  if (!kTakesCompiler) return;
  // Sizes of this test alone: what the process has compiled is not compiled again.
  const EpilogueCall joint = prepare({"mk,kn->mn", "bias gelu", {264, 64}, {64, 520}}, f32, 3);
  check_sources(ops::einsum_epilogue, joint.inputs, joint.outputs, joint.attributes);
  const HostTensor x({i32, {264, 536}}), y({i32, {536, 264}});
  check_sources(ops::einsum, {x, y}, {HostTensor({i32, {264, 264}})}, {{"equation", "mk,kn->mn"}});
  const HostTensor z({f32, {264, 552}});
  check_sources(ops::tanh, {z}, {z}, {});
}

}  // namespace
}  // namespace alpa::compile_test
