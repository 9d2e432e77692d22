// Linked behind the kernels: their static shared memory ends here.
namespace alpa::emulation {
alignas(4096) __thread char shared_end[16];
}  // namespace alpa::emulation
