// The example programs on the emulation of CUDA, as users run them.
#include <doctest/doctest.h>

#include "support/nightly.h"
#include "support/program.h"
#include "support/temporary_file.h"

namespace emulated_programs_test {

using namespace alpa::testing;

namespace {

/// f32 is summed in another order on several devices.
constexpr double kRounding = 1e-6;

/// Four devices so slow that nothing is worth doing on all of them.
const char* kSlowCards = R"({"backend": "cuda", "num_hosts": 1, "devices_per_host": 4,
  "device": {"memory_bytes": 1e9, "flops_per_second": {"f32": 1e9},
             "memory_bytes_per_second": 1e9, "launch_seconds": 2e-6},
  "within_host": {"alpha_seconds": 1e-7, "bytes_per_second": 1e9},
  "between_hosts": {"alpha_seconds": 1e-7, "bytes_per_second": 1e9}})";

bool is_emulated() { return !std::string(ALPA_EMULATED_LIBRARY).empty(); }

std::string run_on_cards(const std::string& name, const std::string& arguments) {
  const ProgramOutput output =
      run_shell("ALPA_CUDA_LIBRARY=" + quoted(ALPA_EMULATED_LIBRARY) + " " ALPA_PROGRAMS "/" +
                name + " --backend cuda " + arguments);
  CHECK_MESSAGE(output.status == 0, output.text);
  CHECK_MESSAGE(output.text.find("emulated device") != output.text.npos, output.text);
  return output.text;
}

/// Two steps, compared with those of one device.
std::string compare(const std::string& name, const std::string& arguments) {
  const std::string text = run_on_cards(
      name, arguments + " --quiet --steps 2 --optimizer sgd --learning-rate 0.1 --compare");
  const std::size_t at = text.find("\ndifference  ");
  REQUIRE_MESSAGE(at != text.npos, text);
  CHECK_MESSAGE(std::stod(text.substr(at + 13)) < kRounding, text);
  return text;
}

}  // namespace

TEST_CASE("the program of the docs ends, and gives its speed as a share of the measured peak") {
  if (!is_emulated()) return;
  const std::string text =
      run_on_cards("alpa-mlp", "--devices 8 --dim 16 --batch 16 --layers 2 --steps 2");
  CHECK_MESSAGE(text.find(" % of peak)") != text.npos, text);
}

TEST_CASE("every example program trains on two devices as on one") {
  if (!is_emulated()) return;
  const std::string language = "--devices 2 --method data --sequence 8 --batch 2 --vocabulary 32";
  compare("alpa-gpt", language + " --layers 1");
  // By day scripts/gpu_check alone has the others.
  if (is_nightly()) compare("alpa-bert", language);
  for (const char* name : sampled<std::vector<const char*>>({}, {"alpa-vit", "alpa-wide-resnet"}))
    compare(name, "--devices 2 --method data --model tiny --image 8 --batch 2");
}

TEST_CASE("a mixture of experts trains on one, two and four devices alike, however it is planned") {
  if (!is_emulated()) return;
  const std::string tiny = "--sequence 8 --batch 4 --group 8 --vocabulary 32 ";
  for (const char* plan : {"--devices 1", "--devices 2 --method data", "--devices 4 --method zero3",
                           "--devices 2 --method pipeline --micro-batches 2"})
    compare("alpa-moe", tiny + plan);
}

TEST_CASE("a mixture of experts trains with experts on different devices") {
  if (!is_emulated()) return;
  const TemporaryFile cluster("emulated_programs_test_slow.json", kSlowCards);
  const std::string text = compare("alpa-moe",
                                   "--sequence 16 --batch 8 --group 16 --vocabulary 64 "
                                   "--cluster " +
                                       cluster.path());
  CHECK_MESSAGE(text.find(" all_to_all per device") != text.npos, text);
}

}  // namespace emulated_programs_test
