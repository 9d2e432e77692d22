// models/vit.cc — a vision transformer
#include "alpa/models/vit.h"

#include <algorithm>

#include "models/common/images.h"
#include "models/common/model.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

VitOptions vit_options(const Flags& flags, std::int64_t classes) {
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

}  // namespace

const Model vit{
    .name = "vit",
    .purpose = "Trains a vision transformer with an automatic parallel plan.",
    .sizes = names_of(kVitSizes),
    .initial = {.batch = 32},
    .rows = [](Flags& f) { return rows_of_images(f, names_of(kVitSizes)); },
    .publish = [](Flags& f) { publish_image(f, f.model == "tiny"); },
    .task =
        [](const Flags& flags) {
          return image_task(flags, 10, [&](std::int64_t classes) -> nn::Layer {
            return Vit(vit_options(flags, classes));
          });
        },
};

}  // namespace programs
