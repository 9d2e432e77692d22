// What a card is asked first: one product for every type and epilogue, jointly and apart. Each is a
// row of JSON: how far it is from the CPU's, or why it has no algorithm.
#include <cmath>
#include <nlohmann/json.hpp>

#include "alpa/base/error.h"
#include "device_run.h"
#include "epilogue_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::smoke_test {
namespace {

using namespace testing;
using cuda::EpilogueForm;

const EpilogueCase kSmoke[] = {
    {"mk,kn->mn", "bias", {64, 96}, {96, 128}},
    {"mk,kn->mn", "bias relu", {64, 96}, {96, 128}},
    {"mk,kn->mn", "bias relu keep", {64, 96}, {96, 128}},
    {"mk,kn->mn", "bias gelu", {64, 96}, {96, 128}},
    {"mk,kn->mn", "bias gelu keep", {64, 96}, {96, 128}},
    {"mn,kn->mk", "relu gradient", {64, 96}, {128, 96}},
    {"mn,kn->mk", "gelu gradient", {64, 96}, {128, 96}},
    {"mk,mn->kn", "sums0", {64, 96}, {64, 128}},
    {"mk,mn->kn", "sums1", {64, 96}, {64, 128}},
};

/// One form of one case. `row` is printed before anything is judged, so that a card's figures are
/// known however it ends: "algorithm" is false where cuBLASLt refuses the form, "reason" says why.
struct Trial {
  const EpilogueCase& c;
  DType dtype;
  EpilogueForm form;

  void print(const char* name, nlohmann::ordered_json figures) const {
    nlohmann::ordered_json row = {{"name", name},
                                  {"dtype", name_of(dtype)},
                                  {"epilogue", c.epilogue},
                                  {"form", form == EpilogueForm::joint ? "joint" : "apart"}};
    row.update(figures);
    std::printf("%s\n", row.dump().c_str());
    std::fflush(stdout);
  }

  /// JSON has no infinity.
  void require_within(const char* name, double difference, double bound) const {
    const bool finite = std::isfinite(difference);
    print(name, {{"algorithm", true},
                 {"difference", finite ? nlohmann::ordered_json(difference) : "infinite"},
                 {"bound", bound}});
    CHECK(difference <= bound);
  }

  /// The results on the device; none if it refuses the call, which only a joint form may be.
  std::vector<HostTensor> results(const EpilogueCall& call) const {
    try {
      return run_on_device(ops::einsum_epilogue, call.inputs, call.outputs,
                           {.attributes = call.attributes, .epilogues = form});
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool refused = text.find("has no algorithm") != text.npos;
      print("result", {{"algorithm", !refused}, {"difference", nullptr}, {"reason", text}});
      if (form != EpilogueForm::joint || !refused) FAIL_CHECK(text);
      return {};
    }
  }

  void run() const {
    const EpilogueCall call = prepare(c, dtype, 3);
    const std::vector<HostTensor> got = results(call),
                                  expected =
                                      run_kernel(cpu::einsum_epilogue, call.inputs, call.outputs,
                                                 {.attributes = call.attributes});
    if (got.empty()) return;
    // Sums of up to 128 products below 4, and of what lies between up to three roundings.
    const double bound = dtype == f32 ? 2e-4 : 8 * epsilon(dtype);
    require_within("result", difference(got[0], values_of(expected[0])), bound);
    if (got.size() == 1) return;
    if (got[1].type.dtype == u8)
      require_within("wrong bits of the result", wrong_bits(got[1], got[0]), 0);
    else
      require_within("second result", difference(got[1], values_of(expected[1])), bound);
  }
};

TEST_SUITE("smoke") {
  TEST_CASE("each type and epilogue, jointly and apart, is the CPU's") {
    if (no_device()) return;
    for (DType dtype : {f32, bf16, f16})
      for (const EpilogueCase& c : kSmoke)
        for (const EpilogueForm form : {EpilogueForm::joint, EpilogueForm::apart}) {
          CAPTURE(name_of(dtype));
          CAPTURE(std::string(c.epilogue));
          CAPTURE(form == EpilogueForm::joint);
          Trial{c, dtype, form}.run();
        }
  }
}

}  // namespace
}  // namespace alpa::smoke_test
