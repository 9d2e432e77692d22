#pragma once
/// What parsers must keep for every input: they return or throw alpa::Error with one printable
/// line, use little memory and time, and what they accept prints and parses again to the same.
/// Anything else leaves a harness as an exception (or as a sanitizer's report): a defect.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace alpa::fuzz {

/// Parses and checks one input. Returns 0, as libFuzzer's entry does.
using Run = int (*)(const std::uint8_t* data, std::size_t size);

struct Harness {
  const char* name;  ///< "graph"
  Run run;
  std::vector<std::string> (*seeds)();  ///< valid inputs, from which others are made
  std::vector<std::string> tokens;      ///< pieces that the format gives a meaning
  std::uint64_t every = 1;              ///< of so many inputs one is run, where runs are slow
};

/// Text and file formats, every one that users can hand to the library, and what comes of plans and
/// clusters that are accepted.
const std::vector<Harness>& harnesses();

inline std::string input_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

int fuzz_graph(const std::uint8_t* data, std::size_t size);
int fuzz_attributes(const std::uint8_t* data, std::size_t size);
int fuzz_strategy(const std::uint8_t* data, std::size_t size);
int fuzz_spec(const std::uint8_t* data, std::size_t size);
int fuzz_stablehlo(const std::uint8_t* data, std::size_t size);
int fuzz_stablehlo_run(const std::uint8_t* data, std::size_t size);
int fuzz_plan(const std::uint8_t* data, std::size_t size);
int fuzz_cluster(const std::uint8_t* data, std::size_t size);
int fuzz_contest(const std::uint8_t* data, std::size_t size);
int fuzz_contest_gz(const std::uint8_t* data, std::size_t size);
int fuzz_csv(const std::uint8_t* data, std::size_t size);
int fuzz_idx(const std::uint8_t* data, std::size_t size);
int fuzz_safetensors(const std::uint8_t* data, std::size_t size);
int fuzz_gguf(const std::uint8_t* data, std::size_t size);
int fuzz_manifest(const std::uint8_t* data, std::size_t size);
int fuzz_vocabulary(const std::uint8_t* data, std::size_t size);
int fuzz_merges(const std::uint8_t* data, std::size_t size);
int fuzz_tokenizer(const std::uint8_t* data, std::size_t size);
int fuzz_chat_template(const std::uint8_t* data, std::size_t size);
int fuzz_json_lines(const std::uint8_t* data, std::size_t size);
int fuzz_plan_run(const std::uint8_t* data, std::size_t size);
int fuzz_stages_run(const std::uint8_t* data, std::size_t size);
int fuzz_kept_plan(const std::uint8_t* data, std::size_t size);
int fuzz_planned_cluster(const std::uint8_t* data, std::size_t size);
int fuzz_folder(const std::uint8_t* data, std::size_t size);
int fuzz_sentence_pieces(const std::uint8_t* data, std::size_t size);
int fuzz_text(const std::uint8_t* data, std::size_t size);
int fuzz_image(const std::uint8_t* data, std::size_t size);
int fuzz_image_folder(const std::uint8_t* data, std::size_t size);

std::vector<std::string> graph_seeds();
std::vector<std::string> attributes_seeds();
std::vector<std::string> strategy_seeds();
std::vector<std::string> spec_seeds();
std::vector<std::string> stablehlo_seeds();
std::vector<std::string> stablehlo_run_seeds();
std::vector<std::string> plan_seeds();
std::vector<std::string> cluster_seeds();
std::vector<std::string> contest_seeds();
std::vector<std::string> contest_gz_seeds();
std::vector<std::string> csv_seeds();
std::vector<std::string> idx_seeds();
std::vector<std::string> safetensors_seeds();
std::vector<std::string> gguf_seeds();
std::vector<std::string> manifest_seeds();
std::vector<std::string> vocabulary_seeds();
std::vector<std::string> merges_seeds();
std::vector<std::string> tokenizer_seeds();
std::vector<std::string> chat_template_seeds();
std::vector<std::string> json_lines_seeds();
std::vector<std::string> plan_run_seeds();
std::vector<std::string> stages_run_seeds();
std::vector<std::string> kept_plan_seeds();
std::vector<std::string> planned_cluster_seeds();
std::vector<std::string> folder_seeds();
std::vector<std::string> sentence_pieces_seeds();
std::vector<std::string> text_seeds();
std::vector<std::string> image_seeds();
std::vector<std::string> image_folder_seeds();

/// Calls `parse`. False if it refused the input as it should; other exceptions pass through. Throws
/// std::logic_error if the refusal is not a message for people.
bool accepts(const std::function<void()>& parse);

/// How often `accepts` has been true.
std::uint64_t accepted();

/// Throws std::logic_error unless the texts are equal.
void expect_same(const std::string& printed, const std::string& again);

}  // namespace alpa::fuzz
