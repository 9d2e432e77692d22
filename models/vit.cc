// models/vit.cc — a vision transformer
#include "alpa/models/vit.h"

#include <algorithm>

#include "models/common/encoder_folder.h"
#include "models/common/images.h"
#include "models/common/model.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

VitOptions vit_options(const Flags& flags, std::int64_t classes) {
  if (const VitOptions* const folder = folder_options<VitOptions>(flags)) {
    VitOptions options = *folder;
    options.classes = classes;
    options.encoder.dtype = own_dtype(flags.dtype);
    options.encoder.remat = marks_remat(flags);
    return options;
  }
  const VitSize& size = *std::ranges::find(kVitSizes, flags.model, &VitSize::name);
  return {.encoder = {.layers = size.layers,
                      .hidden = size.hidden,
                      .heads = size.heads,
                      .norm_first = true,
                      .dtype = own_dtype(flags.dtype),
                      .remat = marks_remat(flags)},
          .patch = size.patch,
          .classes = classes};
}

/// Classes of the folder, or of made images.
std::int64_t vit_classes(const Flags& flags) {
  const VitOptions* const folder = folder_options<VitOptions>(flags);
  return folder ? folder->classes : 10;
}

Task vit_task(const Flags& flags) {
  return image_task(flags, vit_classes(flags), [&](std::int64_t classes) -> nn::Layer {
    return Vit(vit_options(flags, classes));
  });
}

void train_vit(Flags& flags) {
  read_encoder(flags, {"--model", "--image"});
  if (const VitOptions* const folder = folder_options<VitOptions>(flags))
    flags.image = folder->image;
  train_encoder(
      flags, [&] { return vit_task(flags); },
      image_predictor(flags, Vit(vit_options(flags, vit_classes(flags)))));
}

}  // namespace

const Model vit{
    .name = "vit",
    .purpose = "Trains a vision transformer with an automatic parallel plan.",
    .sizes = names_of(kVitSizes),
    .initial = {.batch = 32},
    .rows =
        [](Flags& f) {
          return cli::joined({rows_of_images(f, names_of(kVitSizes)), folder_rows(f, kImages)});
        },
    .publish = [](Flags& f) { publish_image(f, f.model == "tiny"); },
    .task = vit_task,
    .train = train_vit,
};

}  // namespace programs
