// models/wide_resnet.cc — alpa-wide-resnet: trains a Wide-ResNet on CPU or CUDA devices
#include "models/wide_resnet.h"

#include "models/common/images.h"
#include "models/common/run.h"

using namespace alpa;
using namespace models;

namespace {

int run_resnet(int argc, char** argv) {
  ImageFlags flags("cifar");
  std::vector<std::string> sizes;
  for (const auto& [name, size] : wide_resnet_sizes()) sizes.push_back(name);
  if (read_flags(argc, argv, "Trains a Wide-ResNet with an automatic parallel plan.",
                 rows_of_images(flags, sizes), flags))
    return 0;
  run_task(flags, [&] {
    WideResNetSize size = wide_resnet_sizes().at(flags.model);
    size.remat = marks_remat(flags);
    return image_task(flags, size.classes, [&](std::int64_t classes) {
      size.classes = classes;
      return wide_resnet(size);
    });
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-wide-resnet", run_resnet, argc, argv); }
