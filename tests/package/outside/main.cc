#include <alpa/base/error.h>
#include <alpa/base/shape.h>
#include <alpa/mesh/cluster.h>
#include <alpa/version.h>
#include <fmt/core.h>

#include <string_view>

const char* try_model();  // model.cc

/// Whether the program found libalpa_cuda.so; a machine without devices gives another reason.
bool has_cuda_library() {
  try {
    alpa::Cluster::local(1, "cuda");
  } catch (const alpa::Error& error) {
    return std::string_view(error.what()).find("this build has no CUDA") == std::string_view::npos;
  }
  return true;
}

int main() {
  fmt::print("alpa {} {}\n", alpa::version(),
             alpa::to_string(alpa::TensorType{alpa::bf16, {8, 768}}));
  fmt::print("CUDA library {}\n", has_cuda_library() ? "loaded" : "absent");
  fmt::print("{}\n", try_model());
}
