// einsum_epilogue on the device, jointly and apart, against the CPU's
// kernel, which is a composition.
#include "device_run.h"
#include "epilogue_call.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cuda/epilogue_plan.h"

namespace alpa::epilogue_test {
namespace {

using namespace testing;

struct Case : EpilogueCase {
  bool joint;
};

const Case kCases[] = {
    {{"mk,kn->mn", "bias", {9, 16}, {16, 24}}, true},
    {{"mk,kn->mn", "bias", {9, 16}, {16, 5}}, true},
    {{"mk,nk->mn", "bias relu", {9, 16}, {24, 16}}, true},
    {{"mk,kn->mn", "relu", {9, 16}, {16, 24}}, true},
    {{"mk,kn->mn", "bias gelu", {9, 16}, {16, 24}}, true},
    {{"mk,kn->mn", "bias gelu keep", {9, 16}, {16, 24}}, true},
    {{"mk,kn->mn", "gelu keep", {9, 16}, {16, 20}}, false},
    {{"mk,kn->mn", "bias relu keep", {9, 16}, {16, 128}}, true},
    {{"mk,kn->mn", "relu keep", {9, 16}, {16, 24}}, false},
    {{"mn,kn->mk", "relu gradient", {9, 16}, {128, 16}}, true},
    {{"mn,kn->mk", "relu gradient", {9, 16}, {40, 16}}, false},
    {{"mn,kn->mk", "gelu gradient", {9, 16}, {40, 16}}, true},
    {{"mn,kn->mk", "gelu gradient", {9, 16}, {20, 16}}, false},
    {{"mk,mn->kn", "sums1", {9, 16}, {9, 24}}, true},
    {{"mn,mk->kn", "sums0", {9, 24}, {9, 16}}, true},
    {{"mk,mn->kn", "sums0", {9, 16}, {9, 24}}, true},
    {{"mk,mn->nk", "sums1", {9, 16}, {9, 24}}, true},
    {{"btc,btn->cn", "sums1", {3, 4, 16}, {3, 4, 24}}, true},
    {{"btc,chd->bthd", "bias relu", {3, 4, 16}, {16, 2, 8}}, true},
    {{"bmk,bkn->bmn", "bias gelu", {3, 4, 16}, {3, 16, 8}}, true},
    {{"bmk,bkn->bmn", "bias gelu keep", {3, 4, 16}, {3, 16, 8}}, true},
    {{"bmk,bkn->bmn", "gelu keep", {3, 4, 16}, {3, 16, 12}}, false},
    {{"bmk,bkn->bmn", "relu keep", {3, 5, 16}, {3, 16, 128}}, true},
    {{"bmk,bkn->bmn", "relu keep", {3, 4, 16}, {3, 16, 32}}, false},
    {{"bmk,bnk->bmn", "relu gradient", {3, 5, 16}, {3, 128, 16}}, true},
    {{"bmk,bnk->bmn", "gelu gradient", {3, 4, 16}, {3, 24, 16}}, true},
    {{"egck,ekn->egcn", "gelu keep", {3, 2, 4, 16}, {3, 16, 24}}, true},
    {{"bmk,bkn->mbn", "gelu keep", {3, 4, 16}, {3, 16, 8}}, false},
    {{"bmk,bmn->bkn", "sums1", {3, 4, 16}, {3, 4, 8}}, false},
    {{"btc,chd->bhtd", "bias", {3, 4, 16}, {16, 2, 8}}, false},
    {{"btc,bthd->chd", "sums1", {3, 4, 16}, {3, 4, 2, 8}}, true},
    {{"mk,kn->mn", "add", {9, 16}, {16, 24}}, true},
    {{"mk,kn->mn", "add", {9, 16}, {16, 5}, true}, true},
    {{"mk,kn->mn", "bias add", {9, 16}, {16, 24}}, true},
    {{"mk,mn->kn", "sums1 add", {9, 16}, {9, 24}, true}, true},
    {{"mk,mn->nk", "sums1 add", {9, 16}, {9, 24}}, true},
    {{"ebk,ebn->ekn", "add", {3, 4, 16}, {3, 4, 8}, true}, true},
    {{"bmk,bkn->bmn", "bias add", {3, 4, 16}, {3, 16, 8}}, true},
    {{"btc,chd->bhtd", "bias add", {3, 4, 16}, {16, 2, 8}}, false},
    {{"btc,chd->bhtd", "add", {3, 4, 16}, {16, 2, 8}, true}, false},
    {{"mk,kn->mn", "bias add", {9, 0}, {0, 24}}, false},
    {{"mk,mn->kn", "sums1 add", {0, 16}, {0, 24}, true}, false},
    {{"mk,kn->mn", "add", {0, 16}, {16, 24}}, false},
    {{"mk,kn->mn", "bias relu", {9, 0}, {0, 24}}, false},
    {{"mk,kn->mn", "bias relu", {0, 16}, {16, 24}}, false},
    {{"mk,mn->kn", "sums1", {0, 16}, {0, 24}}, false},
    {{"mk,mn->kn", "sums1", {9, 0}, {9, 24}}, false},
};

std::vector<HostTensor> on_device(const EpilogueCall& p, bool captured = false) {
  return run_on_device(ops::einsum_epilogue, p.inputs, p.outputs,
                       {.attributes = p.attributes, .captured = captured});
}

TEST_CASE("the plan says which epilogues a product can have") {
  for (const Case& c : kCases) {
    CAPTURE(std::string(c.equation));
    CAPTURE(std::string(c.epilogue));
    CAPTURE(to_string(c.y));
    const EpilogueCall p = prepare(c, f32, 1);
    std::vector<TensorType> outputs;
    for (const HostTensor& t : p.outputs) outputs.push_back(t.type);
    CHECK(cuda::plan_epilogue(planned_call(p.inputs, outputs, p.attributes)).joint == c.joint);
    const EpilogueCall wide = prepare(c, f64, 1);
    for (TensorType& type : outputs) type.dtype = type.dtype == u8 ? u8 : f64;
    CHECK_FALSE(cuda::plan_epilogue(planned_call(wide.inputs, outputs, wide.attributes)).joint);
  }
}

TEST_CASE(
    "a product and its epilogue are the CPU's einsum and what follows it, jointly and apart") {
  if (no_device()) return;
  for (const Case& c : kCases)
    for (DType dtype : {f32, bf16, f16, f64}) {
      CAPTURE(std::string(c.equation));
      CAPTURE(std::string(c.epilogue));
      CAPTURE(to_string(c.y));
      CAPTURE(name_of(dtype));
      const EpilogueCall p = prepare(c, dtype, 11);
      const std::vector<HostTensor> expected = run_kernel(cpu::einsum_epilogue, p.inputs, p.outputs,
                                                          {.attributes = p.attributes}),
                                    got = on_device(p);
      // Sums of 16 products below 4, and of what lies between up to three roundings. cuBLASLt's
      // gradient of gelu takes an approximation of tanh: 4.9e-5 off in f32 on an H200.
      const bool approximate = std::string_view(c.epilogue) == "gelu gradient";
      const double bound = dtype == f64   ? 1e-12
                           : dtype == f32 ? (approximate ? 1e-4 : 2e-5)
                                          : 4 * epsilon(dtype);
      CHECK(difference(got[0], values_of(expected[0])) <= bound);
      if (got.size() == 1) continue;
      if (got[1].type.dtype == u8)
        CHECK(wrong_bits(got[1], got[0]) == 0);
      else
        CHECK(difference(got[1], values_of(expected[1])) <= bound);
    }
}

TEST_CASE(
    "products with epilogues give the same bits every time, queued directly or from a graph") {
  if (no_device()) return;
  for (const Case& c : kCases) {
    const EpilogueCall p = prepare(c, f32, 5);
    const std::vector<HostTensor> first = on_device(p);
    for (const bool captured : {false, true}) CHECK(on_device(p, captured) == first);
  }
}

}  // namespace
}  // namespace alpa::epilogue_test
