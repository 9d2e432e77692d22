// models/common/images.cc — flags and tasks of programs that classify images
#include "models/common/images.h"

#include "models/common/data.h"

namespace programs {

using namespace alpa;

namespace {

constexpr std::int64_t kMadeImages = 256;

/// Images of noise, brighter where the class says so.
TaskData made_images(const ImageFlags& flags, std::int64_t classes) {
  const std::int64_t rows = std::max(kMadeImages, flags.batch), pixels = flags.image * flags.image;
  require_memory(4.0 * static_cast<double>(rows) * static_cast<double>(pixels * 3),
                 fmt::format("--batch is {} and --image is {}", flags.batch, flags.image));
  Array images = standard_normal({rows, pixels * 3}, static_cast<std::uint64_t>(flags.seed), 1);
  std::vector<std::int32_t> labels(rows);
  auto x = images.mutable_elements_as<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    labels[row] = static_cast<std::int32_t>(row % classes);
    for (std::int64_t i = row % classes; i < pixels * 3; i += classes) x[row * pixels * 3 + i] += 1;
  }
  return {{images, Array(labels, {rows}), classes}, {}};
}

/// Images and labels [B, pixels · channels]; without examples if only planned.
struct ImageData {
  TaskData sets;
  DataTypes types;
  Shape image;  ///< rows, columns, channels
};

ImageData load_images(const ImageFlags& flags, std::int64_t classes) {
  cli::require_effect(flags.given, "--image", flags.data != "made",
                      fmt::format("with --data {}; it is of made images", excerpt(flags.data)));
  if (flags.data != "made") {
    TaskData sets = load_data(flags.data, flags.batch, 1, 0);
    require(sets.training.features() == 28 * 28, "--data is '{}'; it must be made or fashion-mnist",
            flags.data);
    return {sets, types_of(sets.training), {28, 28, 1}};
  }
  const std::int64_t elements = flags.image * flags.image * 3,
                     rows = std::max(kMadeImages, flags.batch);
  const DataTypes types{{f32, {rows, elements}}, {i32, {rows}}, classes};
  return {flags.plan_only ? TaskData{} : made_images(flags, classes),
          types,
          {flags.image, flags.image, 3}};
}

}  // namespace

std::vector<cli::Flag> rows_of_images(ImageFlags& flags, const std::vector<std::string>& sizes) {
  using namespace cli;
  ModelRows own;
  own.model = {choice("--model", &flags.model, "size", sizes),
               whole("--image", &flags.image, "rows and columns of made images", 1, 4096),
               choice("--dtype", &flags.dtype, "element type of parameters and activations",
                      {"f32", "bf16", "f16", "f64"})};
  own.data = {text("--data", &flags.data, "made: images that can be learnt; fashion-mnist[:DIR]")};
  return rows_of(flags, own);
}

LossAndMetrics classify_images(const nn::Layer& network, Value images, Value labels) {
  const Value logits = cast(network(images), images.dtype() == f64 ? f64 : f32);
  return {nn::cross_entropy(logits, labels), {{"accuracy", nn::accuracy(logits, labels)}}};
}

Task image_task(const ImageFlags& flags, std::int64_t classes,
                const std::function<nn::Layer(std::int64_t classes)>& make) {
  const ImageData data = load_images(flags, classes);
  const auto model = [network = make(data.types.classes), image = data.image,
                      dtype = own_dtype(flags.dtype)](const Batch& b) {
    const Value x = reshape(b["x"], {b["x"].dim(0), image[0], image[1], image[2]});
    return classify_images(network, dtype ? cast(x, *dtype) : x, b["y"]);
  };
  return dataset_task(model, inputs_of(data.types, flags.batch), data.sets.training, data.sets.test,
                      static_cast<std::uint64_t>(flags.seed));
}

}  // namespace programs
