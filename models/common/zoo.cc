// models/common/zoo.cc — models by name and size
#include "models/common/zoo.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "alpa/models/bert.h"
#include "alpa/models/moe.h"
#include "alpa/models/vit.h"
#include "alpa/models/wide_resnet.h"
#include "models/common/decoder_flags.h"
#include "models/common/mlp_task.h"
#include "models/common/zoo_tasks.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

/// A model of the zoo, and how its task is made.
struct Row {
  std::string name;
  std::vector<std::string> sizes;
  bool language = false, images = false;
  Task (*make)(const ZooRequest& request, const CommonFlags& flags);
};

/// The flags of a program: those of all programs, with a size and nothing to run.
template <class Flags>
Flags flags_of(Flags own, const CommonFlags& common, const std::string& size) {
  static_cast<CommonFlags&>(own) = common;
  own.model = size;
  own.plan_only = true;
  own.given.clear();
  return own;
}

/// The same of a language model, whose papers have these extents.
template <class Flags>
Flags language_flags(const ZooRequest& request, const CommonFlags& common, std::int64_t sequence,
                     std::int64_t vocabulary) {
  Flags flags = flags_of(Flags(), common, request.size);
  flags.sequence = request.sequence.value_or(sequence);
  flags.vocabulary = request.vocabulary.value_or(vocabulary);
  return flags;
}

Task decoder_task(const ZooRequest& request, const CommonFlags& common, const std::string& kind) {
  const bool gpt = kind == "gpt";
  const auto* size = std::find_if(kLlamaSizes.begin(), kLlamaSizes.end(),
                                  [&](const DecoderSize& s) { return s.name == request.size; });
  const bool own_vocabulary = !gpt && size != kLlamaSizes.end() && size->vocabulary > 0;
  auto flags = language_flags<GptFlags>(request, common, gpt ? 1024 : 2048,
                                        gpt              ? 51200
                                        : own_vocabulary ? size->vocabulary
                                                         : 32000);
  flags.kind = kind;
  return language_task(flags, [decoder = Decoder(options_of(flags))](const Batch& b) {
    return decoder.loss(b["tokens"], b["labels"]);
  });
}

ImageFlags image_flags(const ZooRequest& request, const CommonFlags& common, bool small) {
  ImageFlags flags = flags_of(ImageFlags(request.size), common, request.size);
  flags.image = request.image.value_or(small ? 32 : 224);
  return flags;
}

struct MlpSize {
  std::string_view name;
  std::int64_t dim, layers;
};
/// Of alpa-mlp, for trials and its tutorial; and one that fills cards.
constexpr std::array<MlpSize, 3> kMlpSizes{
    {{"tiny", 64, 4}, {"tutorial", 512, 10}, {"large", 4096, 16}}};

Task mlp_of(const ZooRequest& request, const CommonFlags& common) {
  MlpFlags flags;
  static_cast<CommonFlags&>(flags) = common;
  flags.plan_only = true;
  for (const MlpSize& size : kMlpSizes)
    if (size.name == request.size) flags.dim = size.dim, flags.layers = size.layers;
  return mlp_task(flags);
}

std::vector<std::string> names_of(const auto& sizes) {
  std::vector<std::string> names;
  for (const auto& size : sizes) names.emplace_back(size.name);
  return names;
}

std::vector<Row> rows() {
  const auto gpt = [](const ZooRequest& r, const CommonFlags& f) {
    return decoder_task(r, f, "gpt");
  };
  const auto llama = [](const ZooRequest& r, const CommonFlags& f) {
    return decoder_task(r, f, "llama");
  };
  const auto moe = [](const ZooRequest& r, const CommonFlags& f) {
    return moe_task(language_flags<MoeFlags>(r, f, 1024, 32000));
  };
  const auto bert = [](const ZooRequest& r, const CommonFlags& f) {
    return bert_task(language_flags<BertFlags>(r, f, 512, 30522));
  };
  const auto vit = [](const ZooRequest& r, const CommonFlags& f) {
    return vit_task(image_flags(r, f, r.size == "tiny"));
  };
  const auto resnet = [](const ZooRequest& r, const CommonFlags& f) {
    return wide_resnet_task(image_flags(r, f, wide_resnet_sizes().at(r.size).small_images));
  };
  return {{"gpt", names_of(kGptSizes), true, false, gpt},
          {"llama", names_of(kLlamaSizes), true, false, llama},
          {"moe", names_of(kMoeSizes), true, false, moe},
          {"bert", names_of(kBertSizes), true, false, bert},
          {"vit", names_of(kVitSizes), false, true, vit},
          {"wide-resnet",
           {"tiny", "small", "cifar", "250M", "500M", "1B", "2B", "4B", "6.8B", "13B"},
           false,
           true,
           resnet},
          {"mlp", names_of(kMlpSizes), false, false, mlp_of}};
}

}  // namespace

std::vector<ZooModel> zoo_models() {
  std::vector<ZooModel> models;
  for (const Row& row : rows()) models.push_back({row.name, row.sizes});
  return models;
}

Task zoo_task(const ZooRequest& request, const CommonFlags& flags) {
  const std::vector<Row> all = rows();
  const auto row = std::ranges::find(all, request.model, &Row::name);
  std::vector<std::string> names;
  for (const Row& known : all) names.push_back(known.name);
  require(row != all.end(), "\"{}\" is no model; the models are {}", excerpt(request.model),
          fmt::join(names, ", "));
  require(std::ranges::find(row->sizes, request.size) != row->sizes.end(),
          "{} has no size \"{}\"; its sizes are {}", row->name, excerpt(request.size),
          fmt::join(row->sizes, ", "));
  const auto has_no = [&](const char* flag, bool given, bool has) {
    require(!given || has, "{} has no effect on {}", flag, row->name);
  };
  has_no("--sequence", request.sequence.has_value(), row->language);
  has_no("--vocabulary", request.vocabulary.has_value(), row->language);
  has_no("--image", request.image.has_value(), row->images);
  return row->make(request, flags);
}

}  // namespace programs
