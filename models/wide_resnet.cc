// models/wide_resnet.cc — a Wide-ResNet
#include "alpa/models/wide_resnet.h"

#include "models/common/encoder_folder.h"
#include "models/common/images.h"
#include "models/common/model.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

WideResNetSize network_size(const Flags& flags) {
  const WideResNetSize* const folder = folder_options<WideResNetSize>(flags);
  WideResNetSize size = folder ? *folder : wide_resnet_sizes().at(flags.model);
  size.remat = marks_remat(flags);
  return size;
}

Task wide_resnet_task(const Flags& flags) {
  WideResNetSize size = network_size(flags);
  return image_task(flags, size.classes, [&](std::int64_t classes) {
    size.classes = classes;
    return models::wide_resnet(size);
  });
}

void train_wide_resnet(Flags& flags) {
  read_encoder(flags, {"--model"});
  train_encoder(
      flags, [&] { return wide_resnet_task(flags); },
      image_predictor(flags, models::wide_resnet(network_size(flags))));
}

}  // namespace

const Model wide_resnet{
    .name = "wide-resnet",
    .purpose = "Trains a Wide-ResNet with an automatic parallel plan.",
    .sizes = {"tiny", "small", "cifar", "250M", "500M", "1B", "2B", "4B", "6.8B", "13B"},
    .initial = {.batch = 32, .model = "cifar"},
    .rows =
        [](Flags& f) {
          std::vector<std::string> names;
          for (const auto& [name, size] : wide_resnet_sizes()) names.push_back(name);
          return cli::joined({rows_of_images(f, names), folder_rows(f, kImages)});
        },
    .publish = [](Flags& f) { publish_image(f, wide_resnet_sizes().at(f.model).small_images); },
    .task = wide_resnet_task,
    .train = train_wide_resnet,
};

}  // namespace programs
