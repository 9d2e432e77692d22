// einsum_group on the device: one batched product where its tensors lie side by side, and its
// members one after another elsewhere, with the bits of the members alone.
#include "src/spmd/einsum_group.h"
#include "device_run.h"
#include "epilogue_call.h"
#include "kernels/cuda/einsum_group_plan.h"

namespace alpa::einsum_group_test {
namespace {

using namespace testing;

constexpr std::size_t kMembers = 3;
/// From one tensor of a row to the next: more than any of them.
constexpr std::int64_t kDistance = 16384;

const EpilogueCase kCases[] = {
    {"bmk,kn->bmn", "", {3, 4, 16}, {16, 24}},
    {"bmk,kn->bmn", "bias", {3, 4, 16}, {16, 24}},
    {"mk,kn->mn", "bias gelu", {9, 16}, {16, 24}},
    {"mk,kn->mn", "bias relu", {9, 16}, {16, 24}},
    {"mk,nk->mn", "add", {9, 16}, {24, 16}, true},
    {"mk,kn->mn", "bias add", {9, 16}, {16, 24}},
    {"bmk,bmn->kn", "sums1", {3, 4, 16}, {3, 4, 24}},
    {"bmk,bmn->kn", "sums1 add", {3, 4, 16}, {3, 4, 24}, true},
    {"bmk,bmn->nk", "sums1", {3, 4, 16}, {3, 4, 24}},  // the product is of the exchanged operands
    {"mk,mn->kn", "sums0", {9, 16}, {9, 24}},
};

/// The members' calls, all of the first one's x.
std::vector<EpilogueCall> members_of(const EpilogueCase& c, DType dtype) {
  std::vector<EpilogueCall> members;
  for (unsigned m = 0; m < kMembers; ++m) {
    members.push_back(prepare(c, dtype, 7 + 100 * m));
    members.back().inputs[0] = members.front().inputs[0];
  }
  return members;
}

/// The group's operands and results, in device memory.
class Group {
 public:
  /// Tensors of a row are kDistance apart, the last one `shift` bytes further.
  explicit Group(const std::vector<EpilogueCall>& members, std::int64_t shift = 0)
      : attributes_(members.front().attributes), memory_(static_cast<std::size_t>(kDistance * 32)) {
    attributes_.set("members", static_cast<std::int64_t>(kMembers));
    call_.attributes = &attributes_;
    add(call_.inputs, members.front().inputs[0], 0);
    next_ += kDistance;
    for (const TensorRow& row : rows_of(einsum_group_of(attributes_))) {
      const std::size_t tensor =
          row.results ? row.first / kMembers : 1 + (row.first - 1) / kMembers;
      for (std::size_t m = 0; m < kMembers; ++m)
        add(row.results ? call_.outputs : call_.inputs,
            row.results ? members[m].outputs[tensor] : members[m].inputs[tensor],
            m + 1 == kMembers ? shift : 0);
      next_ += kDistance;
    }
    std::vector<TensorType> types;
    for (const KernelTensor& tensor : call_.inputs) types.push_back(tensor.type);
    const std::vector<TensorType> results = result_types(ops::einsum_group, {types, attributes_});
    for (std::size_t o = 0; o < results.size(); ++o) CHECK(results[o] == call_.outputs[o].type);
  }

  cuda::Launch load(const cuda::Gpu& card) {
    return cuda::find_kernel(ops::einsum_group)(ops::einsum_group, call_, card);
  }
  cuda::EinsumGroupSteps steps() const { return cuda::plan_einsum_group(call_); }

  /// The results of every member.
  std::vector<std::vector<HostTensor>> run(const cuda::Launch& launch) {
    const DeviceBuffer scratch(
        static_cast<std::size_t>(cuda::scratch_bytes("einsum_group", call_)));
    call_.workspace = static_cast<std::byte*>(scratch.data());
    queue(launch, call_, false);
    scratch.check_guards();
    std::vector<std::vector<HostTensor>> results(kMembers);
    for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
      HostTensor& result = results[o % kMembers].emplace_back(call_.outputs[o].type);
      check(cudaMemcpy(result.bytes.data(), call_.outputs[o].data, result.bytes.size(),
                       cudaMemcpyDeviceToHost));
    }
    return results;
  }

 private:
  void add(std::vector<KernelTensor>& tensors, const HostTensor& tensor, std::int64_t shift) {
    KernelTensor& there = tensors.emplace_back(kernel_tensor(tensor));
    there.data = static_cast<std::byte*>(memory_.data()) + next_ + shift;
    check(cudaMemcpy(there.data, tensor.bytes.data(), tensor.bytes.size(), cudaMemcpyHostToDevice));
    next_ += kDistance;
  }

  Attributes attributes_;
  DeviceBuffer memory_;
  std::int64_t next_ = 0;
  KernelCall call_;
};

TEST_CASE("a group computes what its members compute, side by side and elsewhere") {
  if (no_device()) return;
  for (const EpilogueCase& c : kCases)
    for (DType dtype : {f32, bf16, f16}) {
      CAPTURE(std::string(c.equation));
      CAPTURE(std::string(c.epilogue));
      CAPTURE(name_of(dtype));
      const std::vector<EpilogueCall> members = members_of(c, dtype);
      for (const std::int64_t shift : {0, 256}) {
        Group group(members, shift);
        CHECK(group.steps().joint);
        cuda::Matmuls products({.measured = false, .cached = false});
        const std::vector<std::vector<HostTensor>> got = group.run(group.load(this_card(products)));
        for (std::size_t m = 0; m < kMembers; ++m) {
          const std::vector<HostTensor> expected =
              run_on_device(ops::einsum_epilogue, members[m].inputs, members[m].outputs,
                            {.attributes = members[m].attributes});
          for (std::size_t o = 0; o < expected.size(); ++o)
            CHECK(difference(got[m][o], values_of(expected[o])) <=
                  (dtype == f32 ? 2e-5 : 2 * epsilon(dtype)));
        }
      }
    }
}

TEST_CASE("products whose operands must be copied or converted are no group") {
  const auto joint = [](const EpilogueCase& c, DType dtype) {
    const EpilogueCall member = prepare(c, dtype, 1);
    Attributes attributes = member.attributes;
    attributes.set("members", std::int64_t{2});
    std::vector<HostTensor> inputs = {member.inputs[0]};
    std::vector<TensorType> outputs;
    for (std::size_t i = 1; i < member.inputs.size(); ++i)
      inputs.insert(inputs.end(), 2, member.inputs[i]);
    for (const HostTensor& output : member.outputs) outputs.insert(outputs.end(), 2, output.type);
    return cuda::plan_einsum_group(planned_call(inputs, outputs, attributes)).joint;
  };
  CHECK(joint({"mk,kn->mn", "", {9, 16}, {16, 24}}, f32));
  CHECK_FALSE(joint({"mk,kn->mn", "", {9, 16}, {16, 24}}, f64));
  CHECK_FALSE(joint({"bmk,bkn->bmn", "", {3, 4, 16}, {3, 16, 8}}, f32));
  CHECK_FALSE(joint({"btc,chd->bhtd", "", {3, 4, 16}, {16, 2, 8}}, f32));
  CHECK_FALSE(joint({"mk,kn->mn", "", {0, 16}, {16, 24}}, f32));
}

}  // namespace
}  // namespace alpa::einsum_group_test
