// The first file that the library is linked of: its kernels' static shared memory lies behind it.
namespace alpa::emulation {
alignas(4096) __thread char shared_begin[16];
}  // namespace alpa::emulation
