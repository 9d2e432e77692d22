// adam_update, sgd_update
#include <algorithm>

#include "alpa/base/thread_team.h"
#include "kernels/cpu/block_io.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"

namespace alpa::cpu {
namespace {

constexpr int kMaxArrays = 4;
constexpr std::int64_t kBlock = 1024;

/// The first `inputs` operands and all results, block after block, in place where they are stored as T.
template <class T>
class UpdateWalk {
 public:
  UpdateWalk(const KernelCall& call, int inputs) : call_(call), inputs_(inputs) {
    plain_ = true;
    for (int i = 0; i < inputs_; ++i) plain_ = plain_ && is_stored_as<T>(call.inputs[i].type.dtype);
    for (const KernelTensor& output : call.outputs) plain_ = plain_ && is_stored_as<T>(output.type.dtype);
  }

  template <class Update>
  void run(std::int64_t begin, std::int64_t end, const Update& update) const {
    const std::int64_t lanes = loops<T>(isa().elementwise).lanes;
    const std::int64_t whole = plain_ ? (end - begin) / lanes * lanes : 0;
    if (whole > 0) in_place(begin, whole, update);
    for (std::int64_t i = begin + whole; i < end; i += kBlock)
      converted(i, std::min(kBlock, end - i), lanes, update);
  }

 private:
  template <class Update>
  void in_place(std::int64_t begin, std::int64_t n, const Update& update) const {
    T *in[kMaxArrays], *out[kMaxArrays];
    for (int i = 0; i < inputs_; ++i) in[i] = call_.inputs[i].template as<T>() + begin;
    for (std::size_t i = 0; i < call_.outputs.size(); ++i)
      out[i] = call_.outputs[i].template as<T>() + begin;
    update(out, in, n);
  }

  template <class Update>
  void converted(std::int64_t begin, std::int64_t n, std::int64_t lanes, const Update& update) const {
    T buffer[kMaxArrays][kBlock];
    T* arrays[kMaxArrays];
    const std::int64_t padded = (n + lanes - 1) / lanes * lanes;
    for (int i = 0; i < inputs_; ++i) {
      arrays[i] = buffer[i];
      load_block(buffer[i], call_.inputs[i].data, call_.inputs[i].type.dtype, begin, n);
      std::fill(buffer[i] + n, buffer[i] + padded, T(0));
    }
    update(arrays, arrays, padded);
    for (std::size_t i = 0; i < call_.outputs.size(); ++i)
      store_block(call_.outputs[i].data, call_.outputs[i].type.dtype, begin, buffer[i], n);
  }

  const KernelCall& call_;
  int inputs_;
  bool plain_;
};

/// Slices are whole vectors of every type, so that an element is computed the same way for any number of
/// threads.
template <class T, class Update>
void update_all(const KernelCall& call, int inputs, const Update& update) {
  constexpr std::int64_t kUnit = 64;
  const std::int64_t n = call.outputs[0].type.elements();
  const UpdateWalk<T> walk(call, inputs);
  call.team->parallel_for((n + kUnit - 1) / kUnit, 8 * 1024 / kUnit,
                          [&](std::int64_t begin, std::int64_t end) {
                            walk.run(begin * kUnit, std::min(end * kUnit, n), update);
                          });
}

bool any_double(const KernelCall& call, int inputs) {
  return std::any_of(call.inputs.begin(), call.inputs.begin() + inputs,
                     [](const KernelTensor& t) { return needs_double(t.type.dtype); });
}

AdamScalars adam_scalars_of(const KernelCall& call) {
  const Attributes& a = *call.attributes;
  return elementwise::adam_scalars(a.real("beta1"), a.real("beta2"), a.real("epsilon"),
                                   a.real("weight_decay"), a.integer("decoupled") != 0,
                                   load_scalar(call.inputs[4]), load_scalar(call.inputs[5]));
}

template <class T>
void run_adam_as(const KernelCall& call) {
  const AdamScalars scalars = adam_scalars_of(call);
  update_all<T>(call, 4, [&](T* const* out, const T* const* in, std::int64_t n) {
    loops<T>(isa().update).adam(out, in, n, scalars);
  });
}

void run_adam(const KernelCall& call) {
  if (any_double(call, 4))
    run_adam_as<double>(call);
  else
    run_adam_as<float>(call);
}

template <class T>
void run_sgd_as(const KernelCall& call) {
  const Attributes& a = *call.attributes;
  const SgdScalars scalars{load_scalar(call.inputs[3]), a.real("momentum"), a.real("weight_decay"),
                           a.integer("nesterov") != 0};
  update_all<T>(call, 3, [&](T* const* out, const T* const* in, std::int64_t n) {
    loops<T>(isa().update).sgd(out, in, n, scalars);
  });
}

void run_sgd(const KernelCall& call) {
  if (any_double(call, 3))
    run_sgd_as<double>(call);
  else
    run_sgd_as<float>(call);
}

}  // namespace

const KernelDef adam_update{run_adam, nullptr, nullptr};
const KernelDef sgd_update{run_sgd, nullptr, nullptr};

}  // namespace alpa::cpu
