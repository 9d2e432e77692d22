#pragma once
/// Run-time compilation by NVRTC, with a cache in memory and one on disk.
#include <string>
#include <vector>

namespace alpa::cuda {

/// A header that code compiled at run time may include.
struct RunTimeHeader {
  const char* name;
  const char* text;
};
/// The repository's headers that kernels/cuda/fused.h needs, as they were
/// when the library was built.
extern const RunTimeHeader kRunTimeHeaders[];
extern const int kNumRunTimeHeaders;

/// True if this NVRTC makes machine code for cards of compute capability `architecture` (90 means
/// 9.0). One that is older than the card does not.
bool can_compile_for(int architecture);

/// Machine code of `source`; needs no card. What was compiled once is found again: by this process
/// in memory, by later ones in the cache folder (cache_folder.h), as long as source, headers,
/// architecture and NVRTC's version stay the same. May be called from any thread. Throws Bug with
/// the compiler's log if the source is wrong.
std::vector<char> compile_kernel(const std::string& source, int architecture);

/// Compiles sources that `compile_kernel` will be asked for, on all cores; known ones cost nothing.
/// Throws as it does.
void compile_kernels(std::vector<std::string> sources, int architecture);

/// Name in the cache folder under which `compile_kernel` keeps the machine code.
std::string kernel_file(const std::string& source, int architecture);

}  // namespace alpa::cuda
