// kernels/cpu/update.cc — multi_tensor_adam, _sgd and _add, for one or several parameters.
// Operands: the states, parameter by parameter; then the gradients; then the scalars. Results: the
// states, then the copies, if there are any.
#include <algorithm>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr int kMaxArrays = 4;
constexpr std::int64_t kBlock = 1024;

/// One parameter: its states, old and new, its gradient, and where a copy of w goes, or null.
struct Member {
  const KernelTensor* inputs[kMaxArrays];
  const KernelTensor* outputs[kMaxArrays];
  int states;
  const KernelTensor* copy;
};

/// Visits all members of a call with `scalars` operands behind the gradients.
template <class Visit>
void for_each_member(const KernelCall& call, int states, int scalars, const Visit& visit) {
  const int members = (static_cast<int>(call.inputs.size()) - scalars) / (states + 1);
  const bool copies = static_cast<int>(call.outputs.size()) > members * states;
  for (int m = 0; m < members; ++m) {
    Member member{{}, {}, states, copies ? &call.outputs[members * states + m] : nullptr};
    for (int s = 0; s < states; ++s) {
      member.inputs[s] = &call.inputs[m * states + s];
      member.outputs[s] = &call.outputs[m * states + s];
    }
    member.inputs[states] = &call.inputs[members * states + m];
    visit(member);
  }
}

/// The arrays of a member, in place where they are stored as T, else converted block by block.
template <class T>
class UpdateWalk {
 public:
  explicit UpdateWalk(const Member& member) : member_(member), plain_(member.copy == nullptr) {
    for (int i = 0; i <= member.states; ++i) plain_ = plain_ && is_plain(*member.inputs[i]);
    for (int i = 0; i < member.states; ++i) plain_ = plain_ && is_plain(*member.outputs[i]);
  }

  template <class Update>
  void run(std::int64_t begin, std::int64_t end, const Update& update) const {
    const std::int64_t lanes = loops<T>(isa().elementwise).lanes;
    const std::int64_t whole = (end - begin) / lanes * lanes,
                       block = plain_ ? std::max<std::int64_t>(whole, kBlock) : kBlock;
    for (std::int64_t i = begin; i < begin + whole; i += block)
      part(i, std::min(block, begin + whole - i), lanes, update);
    if (begin + whole < end) part(begin + whole, end - begin - whole, lanes, update);
  }

 private:
  static bool is_plain(const KernelTensor& tensor) { return is_stored_as<T>(tensor.type.dtype); }

  /// Elements [begin, begin + n): at most a block unless all are in place.
  template <class Update>
  void part(std::int64_t begin, std::int64_t n, std::int64_t lanes, const Update& update) const {
    T buffer[kMaxArrays][kBlock];
    T *in[kMaxArrays], *out[kMaxArrays];
    const std::int64_t padded = (n + lanes - 1) / lanes * lanes;
    for (int i = 0; i <= member_.states; ++i) {
      const KernelTensor& from = *member_.inputs[i];
      in[i] = buffer[i];
      if (n == padded && is_plain(from)) {
        in[i] = from.template as<T>() + begin;
        continue;
      }
      load_block(buffer[i], from.data, from.type.dtype, begin, n);
      std::fill(buffer[i] + n, buffer[i] + padded, T(0));
    }
    for (int i = 0; i < member_.states; ++i) {
      const KernelTensor& to = *member_.outputs[i];
      out[i] = n == padded && is_plain(to) ? to.template as<T>() + begin : buffer[i];
    }
    update(out, in, padded);
    for (int i = 0; i < member_.states; ++i) store(*member_.outputs[i], begin, out[i], n);
    if (member_.copy) store(*member_.copy, begin, out[0], n);
  }

  static void store(const KernelTensor& to, std::int64_t begin, const T* from, std::int64_t n) {
    if (!is_plain(to) || to.template as<T>() + begin != from)
      store_block(to.data, to.type.dtype, begin, from, n);
  }

  const Member& member_;
  bool plain_;
};

/// Slices are whole vectors of every type, so that an element is computed the same way
/// for any number of threads.
template <class T, class Update>
void update_member(const Member& member, ThreadTeam& team, const Update& update) {
  constexpr std::int64_t kUnit = 64;
  const std::int64_t n = member.outputs[0]->type.elements();
  const UpdateWalk<T> walk(member);
  team.parallel_for((n + kUnit - 1) / kUnit, 8 * 1024 / kUnit,
                    [&](std::int64_t begin, std::int64_t end) {
                      walk.run(begin * kUnit, std::min(end * kUnit, n), update);
                    });
}

bool any_double(const Member& member) {
  return std::any_of(member.inputs, member.inputs + member.states + 1,
                     [](const KernelTensor* t) { return needs_double(t->type.dtype); });
}

/// rule(T(), arrays…) for every member, T being the type it is computed in.
template <class Rule>
void update_all(const KernelCall& call, int states, int scalars, const Rule& rule) {
  for_each_member(call, states, scalars, [&](const Member& member) {
    const auto as = [&](auto type) {
      using T = decltype(type);
      update_member<T>(member, *call.team, [&](T* const* out, const T* const* in, std::int64_t n) {
        rule(loops<T>(isa().update), out, in, n);
      });
    };
    if (any_double(member))
      as(double());
    else
      as(float());
  });
}

void run_adam(const KernelCall& call) {
  const Attributes& a = *call.attributes;
  const std::size_t last = call.inputs.size() - 1;
  const AdamScalars scalars =
      elementwise::adam_scalars(a.real("beta1"), a.real("beta2"), a.real("epsilon"),
                                a.real("weight_decay"), a.integer("decoupled") != 0,
                                load_scalar(call.inputs[last - 1]), load_scalar(call.inputs[last]));
  update_all(call, 3, 2,
             [&](const auto& loops, auto* const* out, const auto* const* in, std::int64_t n) {
               loops.adam(out, in, n, scalars);
             });
}

void run_sgd(const KernelCall& call) {
  const Attributes& a = *call.attributes;
  const SgdScalars scalars{load_scalar(call.inputs.back()), a.real("momentum"),
                           a.real("weight_decay"), a.integer("nesterov") != 0};
  update_all(call, 2, 1,
             [&](const auto& loops, auto* const* out, const auto* const* in, std::int64_t n) {
               loops.sgd(out, in, n, scalars);
             });
}

void run_add(const KernelCall& call) {
  update_all(call, 1, 0, [](const auto&, auto* const* out, const auto* const* in, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) out[0][i] = in[0][i] + in[1][i];
  });
}

}  // namespace

const KernelDef multi_tensor_add{run_add};
const KernelDef multi_tensor_adam{run_adam};
const KernelDef multi_tensor_sgd{run_sgd};

}  // namespace alpa::cpu
