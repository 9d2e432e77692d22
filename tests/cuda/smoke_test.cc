// What a card is asked first: one product for every type and epilogue, jointly and apart. A joint
// form that its cuBLASLt has no algorithm for is printed.
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

/// The results on the device; none, and a line that says why, if it refuses the call.
std::vector<HostTensor> results_of(const EpilogueCall& call, EpilogueForm form) {
  try {
    return run_on_device(ops::einsum_epilogue, call.inputs, call.outputs,
                         {.attributes = call.attributes, .epilogues = form});
  } catch (const Error& error) {
    const std::string text = error.what();
    if (form != EpilogueForm::joint || text.find("has no algorithm") == text.npos) FAIL_CHECK(text);
    std::printf("%s\n", text.c_str());
    return {};
  }
}

void check(const EpilogueCase& c, DType dtype, EpilogueForm form) {
  const EpilogueCall call = prepare(c, dtype, 3);
  const std::vector<HostTensor> got = results_of(call, form),
                                expected =
                                    run_kernel(cpu::einsum_epilogue, call.inputs, call.outputs,
                                               {.attributes = call.attributes});
  if (got.empty()) return;
  // Sums of up to 128 products below 4, and of what lies between up to three roundings.
  const double bound = dtype == f32 ? 2e-4 : 8 * epsilon(dtype);
  CHECK(difference(got[0], values_of(expected[0])) <= bound);
  if (got.size() == 1) return;
  if (got[1].type.dtype == u8)
    CHECK(are_bits_of(got[1], got[0]));
  else
    CHECK(difference(got[1], values_of(expected[1])) <= bound);
}

TEST_SUITE("smoke") {
  TEST_CASE("each type and epilogue, jointly and apart, is the CPU's") {
    if (no_device()) return;
    for (DType dtype : {f32, bf16, f16})
      for (const EpilogueCase& c : kSmoke)
        for (const EpilogueForm form : {EpilogueForm::joint, EpilogueForm::apart}) {
          CAPTURE(name_of(dtype));
          CAPTURE(std::string(c.epilogue));
          CAPTURE(form == EpilogueForm::joint);
          check(c, dtype, form);
        }
  }
}

}  // namespace
}  // namespace alpa::smoke_test
