// models/wide_resnet.cc — alpa-wide-resnet: trains a Wide-ResNet on CPU or CUDA devices
#include "alpa/models/wide_resnet.h"

#include "models/common/run.h"
#include "models/common/zoo_tasks.h"

using namespace alpa;
using namespace models;
using namespace programs;

namespace {

int run_resnet(int argc, char** argv) {
  ImageFlags flags("cifar");
  std::vector<std::string> sizes;
  for (const auto& [name, size] : wide_resnet_sizes()) sizes.push_back(name);
  if (read_flags(argc, argv, "Trains a Wide-ResNet with an automatic parallel plan.",
                 rows_of_images(flags, sizes), flags))
    return 0;
  run_task(flags, [&] { return wide_resnet_task(flags); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-wide-resnet", run_resnet, argc, argv); }
