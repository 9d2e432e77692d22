#pragma once
/// Kernels that sum over rows, the first dimension of operands, in chunks of rows.
#include "src/tensor/kernel.h"

namespace alpa::cpu {

namespace detail {
std::shared_ptr<const void> prepare_chunks(const KernelCall& call, const KernelDef& at_once);
std::int64_t chunks_workspace(const KernelCall& call, const KernelDef& at_once);
void run_chunks(const KernelCall& call, const KernelDef& at_once);
}  // namespace detail

/// The kernel `at_once`, called for every chunk of `KernelCall::sums`, one after the other. A
/// result of which a chunk has rows gets them; the other ones are the sums of the chunks' results
/// along the tree. Those are f32 or i32.
template <const KernelDef& at_once>
inline constexpr KernelDef in_chunks{
    [](const KernelCall& call) { detail::run_chunks(call, at_once); },
    [](const KernelCall& call) { return detail::prepare_chunks(call, at_once); },
    [](const KernelCall& call) { return detail::chunks_workspace(call, at_once); }};

}  // namespace alpa::cpu
