#include <alpa/base/error.h>
#include <alpa/base/shape.h>
#include <alpa/data/images.h>
#include <alpa/mesh/cluster.h>
#include <alpa/version.h>
#include <fmt/core.h>

#include <string>
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

/// What the image at `path` is, or why it can't be read.
std::string image_text(const char* path) {
  try {
    return alpa::to_string(alpa::read_image(path).type());
  } catch (const alpa::Error& error) {
    return error.what();
  }
}

int main(int argc, char** argv) {
  fmt::print("alpa {} {}\n", alpa::version(),
             alpa::to_string(alpa::TensorType{alpa::bf16, {8, 768}}));
  fmt::print("CUDA library {}\n", has_cuda_library() ? "loaded" : "absent");
  fmt::print("{}\n", try_model());
  for (int i = 1; i < argc; ++i) fmt::print("{}\n", image_text(argv[i]));
}
