// models/vit.cc — alpa-vit: trains a vision transformer on CPU or CUDA devices
#include "alpa/models/vit.h"

#include "models/common/run.h"
#include "models/common/zoo_tasks.h"

using namespace alpa;
using namespace models;
using namespace programs;

namespace {

int run_vit(int argc, char** argv) {
  ImageFlags flags("tiny");
  std::vector<std::string> sizes;
  for (const VitSize& size : kVitSizes) sizes.emplace_back(size.name);
  if (read_flags(argc, argv, "Trains a vision transformer with an automatic parallel plan.",
                 rows_of_images(flags, sizes), flags))
    return 0;
  run_task(flags, [&] { return vit_task(flags); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-vit", run_vit, argc, argv); }
