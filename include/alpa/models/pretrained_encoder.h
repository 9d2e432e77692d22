#pragma once
/// An encoder's folder as `save_pretrained` of Hugging Face's transformers writes it: that of BERT,
/// ViT or ResNet.
#include <variant>

#include "alpa/models/bert.h"
#include "alpa/models/vit.h"
#include "alpa/models/wide_resnet.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Options of an encoder: `Bert` for BertForMaskedLM, BertModel or BertForSequenceClassification,
/// `Vit` for ViTForImageClassification, `wide_resnet` for ResNetForImageClassification.
using EncoderModel = std::variant<BertOptions, VitOptions, WideResNetSize>;

/// A folder's configuration. Its weights are read by `load_hugging_face`.
struct PretrainedEncoder {
  std::string folder;   ///< its path
  std::string weights;  ///< model.safetensors, or the index of several files
  EncoderModel model;   ///< of dropout 0
};

/// Reads config.json. Throws Error naming file, place and mistake, also where the model computes
/// what these do not.
PretrainedEncoder read_pretrained_encoder(const std::string& folder);

/// Reads a config.json alone, to plan a model without its weights. Throws Error as
/// `read_pretrained_encoder` does.
EncoderModel read_encoder_options(const std::string& path);

/// The map to the names of transformers' class, "bert.encoder.layer.0.output.dense.weight".
WeightMap hugging_face_names(const EncoderModel& model);

/// Loads the weights of a file, whose names may lack "bert." or be those of BERT's first files
/// ("gamma"). Throws Error, naming the tensor, if one is missing or does not fit, if the file has
/// more layers than the model, or a head of hidden tokens that is not the embedding's table; the
/// state is then unchanged.
void load_hugging_face(TrainState& state, const TensorFile& file, const EncoderModel& model);

/// Throws Error as `load_hugging_face` would into a state of this graph, before it is planned.
void check_hugging_face(const Graph& graph, const TensorFile& file, const EncoderModel& model);

/// Writes a folder that transformers opens: the weights of the state, and the other files of the
/// folder that the model was read from. Throws Error if a file can't be written.
void save_pretrained(const TrainState& state, const std::string& folder,
                     const PretrainedEncoder& model);

/// Throws Error if the folder is the one that the model was read from, before anything is trained.
void check_save_pretrained(const std::string& folder, const PretrainedEncoder& model);

}  // namespace alpa::models
#pragma GCC visibility pop
