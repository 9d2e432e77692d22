// models/wide_resnet.cc — alpa-wide-resnet: trains a Wide-ResNet on CPU or CUDA devices
#include "models/wide_resnet.h"

#include "models/common/data.h"
#include "models/common/run.h"
#include "src/base/program.h"

using namespace alpa;
using namespace models;

namespace {

struct ResNetFlags : CommonFlags {
  std::string model = "cifar", dtype = "f32", data = "made";
  std::int64_t image = 32;

  ResNetFlags() { batch = 32; }
};

std::vector<cli::Flag> rows_of_resnet(ResNetFlags& flags) {
  using namespace cli;
  std::vector<std::string> sizes;
  for (const auto& [name, size] : wide_resnet_sizes()) sizes.push_back(name);
  ModelRows own;
  own.model = {choice("--model", &flags.model, "size", sizes),
               whole("--image", &flags.image, "rows and columns of made images", 1, 4096),
               choice("--dtype", &flags.dtype, "element type of parameters and activations",
                      {"f32", "bf16", "f16", "f64"})};
  own.data = {text("--data", &flags.data, "made: images that can be learnt; fashion-mnist[:DIR]")};
  return rows_of(flags, own);
}

constexpr std::int64_t kMadeImages = 256;

/// Images of noise, brighter where the class says so.
TaskData made_images(const ResNetFlags& flags, std::int64_t classes) {
  const std::int64_t rows = std::max(kMadeImages, flags.batch), pixels = flags.image * flags.image;
  Dataset data = linear_dataset(rows, pixels * 3, static_cast<std::uint64_t>(flags.seed));
  std::vector<std::int32_t> labels(rows);
  auto x = data.x.mutable_elements_as<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    labels[row] = static_cast<std::int32_t>(row % classes);
    for (std::int64_t i = row % classes; i < pixels * 3; i += classes) x[row * pixels * 3 + i] += 1;
  }
  return {{data.x, Array(labels, {rows}), classes}, {}};
}

/// Images and labels [B, pixels · channels]; without examples if only planned.
struct ImageData {
  TaskData sets;
  DataTypes types;
  Shape image;  ///< rows, columns, channels
};

ImageData load_images(const ResNetFlags& flags, std::int64_t classes) {
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

Task make_task(const ResNetFlags& flags) {
  WideResNetSize size = wide_resnet_sizes().at(flags.model);
  const ImageData data = load_images(flags, size.classes);
  size.classes = data.types.classes;
  const auto model = [network = wide_resnet(size), image = data.image,
                      dtype = parse_dtype(flags.dtype)](const Batch& b) {
    const Value x = reshape(b["x"], {b["x"].dim(0), image[0], image[1], image[2]});
    return classify_images(network, cast(x, dtype), b["y"]);
  };
  return dataset_task(model, inputs_of(data.types, flags.batch), data.sets.training, data.sets.test,
                      static_cast<std::uint64_t>(flags.seed));
}

int run_resnet(int argc, char** argv) {
  ResNetFlags flags;
  if (cli::parse(argc, argv, "Trains a Wide-ResNet with an automatic parallel plan.",
                 rows_of_resnet(flags)))
    return 0;
  run_task(flags, [&] { return make_task(flags); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-wide-resnet", run_resnet, argc, argv); }
