// Folders of Hugging Face: configurations, and SentencePiece's tokenizer.model.
#include <alpa/data/text.h>
#include <alpa/models/pretrained.h>
#include <alpa/models/pretrained_encoder.h>

#include "fuzz/harness.h"
#include "src/base/file.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace alpa::fuzz {

int fuzz_folder(const std::uint8_t* data, std::size_t size) {
  const testing::TemporaryFolder folder("fuzz_folder");
  std::filesystem::create_directories(folder.path());
  write_file(folder.path() + "/config.json", input_text(data, size));
  write_file(folder.path() + "/generation_config.json", input_text(data, size));
  write_file(folder.path() + "/model.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
  accepts([&] { models::read_pretrained(folder.path()); });
  accepts([&] { models::read_pretrained_encoder(folder.path()); });
  return 0;
}

std::vector<std::string> folder_seeds() {
  std::vector<std::string> seeds;
  for (const char* name :
       {"gpt2", "llama", "qwen3-window", "mixtral", "gemma3", "phi4", "bert", "vit", "resnet"})
    seeds.push_back(testing::golden_text(fmt::format("pretrained/{}/config.json", name)));
  return seeds;
}

int fuzz_sentence_pieces(const std::uint8_t* data, std::size_t size) {
  const testing::TemporaryFolder folder("fuzz_sentence_pieces");
  std::filesystem::create_directories(folder.path());
  write_file(folder.path() + "/tokenizer.model", input_text(data, size));
  accepts([&] {
    const Tokenizer tokenizer = Tokenizer::of_folder(folder.path());
    tokenizer.decode(
        tokenizer.encode_whole("The  planner's\t\xef\xac\x81 \xff\xe4\xb8\xad <|end|>"));
  });
  return 0;
}

std::vector<std::string> sentence_pieces_seeds() {
  return {testing::golden_text("sentencepiece/pairs.model"),
          testing::golden_text("sentencepiece/unigram.model")};
}

}  // namespace alpa::fuzz
