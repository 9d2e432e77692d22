// The first file that the library is linked of: static shared memory of its kernels lies behind this.
namespace alpa::emulation {
alignas(4096) __thread char shared_begin[16];
}  // namespace alpa::emulation
