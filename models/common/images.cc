// models/common/images.cc — flags and tasks of programs that classify images
#include "models/common/images.h"

#include <algorithm>

#include "models/common/data.h"

namespace programs {

using namespace alpa;

namespace {

constexpr std::int64_t kMadeImages = 256;

/// Images of noise, brighter where the class says so; only their types if they are planned.
TaskData made_images(const Flags& flags, std::int64_t classes) {
  const std::int64_t rows = std::max(kMadeImages, flags.batch),
                     elements = flags.image * flags.image * 3;
  if (flags.plan_only) return {{f32, {rows, elements}}, {i32, {rows}}, classes};
  require_memory(4.0 * static_cast<double>(rows) * static_cast<double>(elements),
                 fmt::format("--batch is {} and --image is {}", flags.batch, flags.image));
  Array images = standard_normal({rows, elements}, static_cast<std::uint64_t>(flags.seed), 1);
  std::vector<std::int32_t> labels(rows);
  auto x = images.mutable_elements_as<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    labels[row] = static_cast<std::int32_t>(row % classes);
    for (std::int64_t i = row % classes; i < elements; i += classes) x[row * elements + i] += 1;
  }
  return Dataset{images, Array(labels, {rows}), classes};
}

/// Images of --data [n, pixels · channels]; `image`: takes rows, columns and channels.
TaskData load_images(const Flags& flags, std::int64_t classes, Shape& image) {
  cli::require_effect(flags.given, "--image", flags.data != "made",
                      fmt::format("with --data {}; it is of made images", excerpt(flags.data)));
  image = {flags.image, flags.image, 3};
  if (flags.data == "made") return made_images(flags, classes);
  image = {28, 28, 1};
  TaskData data = load_data(flags);
  require(data.x.shape.at(1) == 28 * 28, "--data is '{}'; it must be made or fashion-mnist",
          flags.data);
  return data;
}

}  // namespace

std::vector<cli::Flag> rows_of_images(Flags& flags, const std::vector<std::string>& sizes) {
  using namespace cli;
  ModelRows own;
  own.model = {choice("--model", &flags.model, "size", sizes),
               whole("--image", &flags.image, "rows and columns of made images", 1, 4096),
               choice("--dtype", &flags.dtype, "element type of parameters and activations",
                      {"f32", "bf16", "f16", "f64"})};
  own.data = {text("--data", &flags.data, "made: images that can be learnt; fashion-mnist[:DIR]")};
  return rows_of(flags, own);
}

void publish_image(Flags& flags, bool small) {
  follow(flags, "--image", flags.image, std::int64_t{small ? 32 : 224});
}

LossAndMetrics classify_images(const nn::Layer& network, Value images, Value labels) {
  const Value logits = cast(network(images), images.dtype() == f64 ? f64 : f32);
  return {nn::cross_entropy(logits, labels), {{"accuracy", nn::accuracy(logits, labels)}}};
}

Task image_task(const Flags& flags, std::int64_t classes,
                const std::function<nn::Layer(std::int64_t classes)>& make) {
  Shape image;
  const TaskData data = load_images(flags, classes, image);
  return dataset_task(
      flags, data,
      [network = make(data.classes), image, dtype = own_dtype(flags.dtype)](const Batch& b) {
        const Value x = reshape(b["x"], {b["x"].dim(0), image[0], image[1], image[2]});
        return classify_images(network, dtype ? cast(x, *dtype) : x, b["y"]);
      });
}

}  // namespace programs
