// models/vit.cc — alpa-vit: trains a vision transformer on CPU or CUDA devices
#include "models/vit.h"

#include "models/common/images.h"
#include "models/common/run.h"

using namespace alpa;
using namespace models;

namespace {

VitOptions options_of(const ImageFlags& flags, std::int64_t classes) {
  VitOptions options{
      .encoder = {.norm_first = true, .dtype = own_dtype(flags.dtype), .remat = marks_remat(flags)},
      .classes = classes};
  for (const VitSize& size : kVitSizes)
    if (size.name == flags.model) {
      options.patch = size.patch;
      options.encoder.layers = size.layers, options.encoder.hidden = size.hidden;
      options.encoder.heads = size.heads;
    }
  return options;
}

int run_vit(int argc, char** argv) {
  ImageFlags flags("tiny");
  std::vector<std::string> sizes;
  for (const VitSize& size : kVitSizes) sizes.emplace_back(size.name);
  if (read_flags(argc, argv, "Trains a vision transformer with an automatic parallel plan.",
                 rows_of_images(flags, sizes), flags))
    return 0;
  run_task(flags, [&] {
    return image_task(flags, 10, [&](std::int64_t classes) -> nn::Layer {
      return Vit(options_of(flags, classes));
    });
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-vit", run_vit, argc, argv); }
