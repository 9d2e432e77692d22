// Flags that belong together are checked before anything is planned, trained or written.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "support/program.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace flag_combination_test {

using namespace alpa::testing;

namespace {

using Words = std::vector<std::string>;

/// A step that takes no time, with `more` flags.
ProgramOutput run_small(const std::string& program, const Words& more) {
  Words words{"--batch", "4", "--steps", "1", "--devices", "2", "--backend", "cpu"};
  if (program == "alpa-mlp") words.insert(words.end(), {"--dim", "4", "--layers", "2"});
  if (program == "alpa-gpt") words.insert(words.end(), {"--sequence", "8"});
  words.insert(words.end(), more.begin(), more.end());
  return run_program(ALPA_PROGRAMS "/" + program, words);
}

/// The one line that the program prints instead of working.
std::string mistake(const std::string& program, const Words& more) {
  const ProgramOutput output = run_small(program, more);
  CAPTURE(output.text);
  CHECK(output.status == 2);
  CHECK(output.text.find('\n') == output.text.size() - 1);
  REQUIRE(output.text.starts_with(program + ": "));
  return output.text.substr(program.size() + 2, output.text.size() - program.size() - 3);
}

std::size_t files_in(const std::string& folder) {
  const std::filesystem::directory_iterator here(folder);
  return static_cast<std::size_t>(std::distance(begin(here), end(here)));
}

}  // namespace

TEST_CASE("of a flag that is given twice the last one counts") {
  const ProgramOutput output =
      run_small("alpa-mlp", {"--steps", "5", "--steps", "3", "--quiet", "--compare", "--quiet",
                             "--explain=full", "--explain=summary", "--method", "data"});
  CAPTURE(output.text);
  CHECK(output.status == 0);
  CHECK(output.text.find("method data") == output.text.npos);
  CHECK(run_small("alpa-mlp", {"--steps", "5", "--steps", "3"}).text.find("step 3/3") !=
        std::string::npos);
  CHECK(output.text.find("\nState, a line per layout\n") == output.text.npos);
}

TEST_CASE("outputs that can't be written are refused before the training, and none is left") {
  const TemporaryFolder folder("flags_test");
  std::filesystem::create_directory(folder.path());
  const TemporaryFile file(folder.path() + "/kept.txt", "kept");
  const std::string log = folder.path() + "/a.txt";
  const auto refused = [&](const std::string& program, const std::string& flag,
                           const std::string& path) {
    return mistake(program, {flag, path});
  };
  for (const char* flag : {"--save-plan", "--trace", "--report", "--log", "--plot", "--json"}) {
    const std::string start = std::string(flag) + ": ";
    CHECK(refused("alpa-mlp", flag, "/nowhere/x") ==
          start + "/nowhere/x: cannot be written: No such file or directory");
    CHECK(refused("alpa-mlp", flag, "/tmp") == start + "/tmp: cannot be written: Is a directory");
    CHECK(refused("alpa-mlp", flag, file.path() + "/x") ==
          start + file.path() + "/x: cannot be written: Not a directory");
    CHECK(run_small("alpa-mlp", {flag, file.path(), "--plan-only", "--method", "x"}).status == 2);
  }
  CHECK(refused("alpa-gpt", "--save", "/nowhere/x") ==
        "--save: /nowhere/x: cannot be written: No such file or directory");
  for (const char* flag : {"--dump", "--tensorboard"})
    CHECK(refused("alpa-mlp", flag, file.path() + "/x/y") ==
          std::string(flag) + ": " + file.path() + "/x/y: cannot be written: Not a directory");
  CHECK(mistake("alpa-mlp", {"--log", log, "--plot", "./" + log}) ==
        "--log and --plot both write ./" + log + "; give them different names");
  CHECK(file.content() == "kept");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("flags that have no effect beside others are refused") {
  const auto refused = [](const std::string& program, const Words& words) {
    return mistake(program, words);
  };
  CHECK(refused("alpa-mlp", {"--stages", "2"}) ==
        "--stages has no effect with --method shard; it is for pipeline");
  CHECK(refused("alpa-mlp", {"--method", "data", "--schedule", "gpipe"}) ==
        "--schedule has no effect with --method data; it is for pipeline");
  CHECK(refused("alpa-mlp", {"--mesh", "2", "--method", "serial"}) ==
        "--mesh has no effect with --method serial, which uses one device");
  CHECK(refused("alpa-mlp", {"--cluster", ALPA_SOURCE_DIR "/clusters/cpu_2x4.json"}) ==
        "--devices has no effect beside --cluster, whose devices count");
  CHECK(refused("alpa-mlp", {"--load-plan", "p.json", "--solver-seconds", "5"}) ==
        "--solver-seconds has no effect beside --load-plan, which takes a plan as it is");
  CHECK(refused("alpa-mlp", {"--trace", "t.json", "--steps", "0"}) ==
        "--trace has no effect with --steps 0: it is of the last step");
  CHECK(refused("alpa-mlp", {"--epochs", "2"}) == "--steps has no effect beside --epochs");
  CHECK(refused("alpa-mlp", {"--plan-only", "--compare"}) ==
        "--plan-only runs nothing: it can't be combined with --compare");
  CHECK(refused("alpa-gpt", {"--plan-only", "--generate", "5"}) ==
        "--plan-only runs nothing: it can't be combined with --generate");
  CHECK(refused("alpa-gpt", {"--top-k", "5"}) == "--top-k has no effect without --generate");
  CHECK(refused("alpa-gpt", {"--stop", "x"}) == "--stop has no effect without --generate");
  CHECK(refused("alpa-gpt", {"--rotary-base", "5"}) ==
        "--rotary-base has no effect with --kind gpt, whose positions are learnt");
  CHECK(refused("alpa-gpt", {"--kind", "llama", "--positions", "9"}) ==
        "--positions has no effect with --kind llama, whose positions are not learnt");
  CHECK(refused("alpa-pipeline-mlp", {}).ends_with("; --help lists the flags"));
}

TEST_CASE("what is to be generated is checked before the training") {
  CHECK(mistake("alpa-gpt", {"--generate", "6"}) ==
        "generate: a prompt of 4 tokens and 6 more exceed the model's sequence of 8");
  CHECK(mistake("alpa-gpt", {"--generate", "2", "--prompt", "A long prompt"}) ==
        "generate: a prompt of 13 tokens and 2 more exceed the model's sequence of 8");
  CHECK(mistake("alpa-gpt", {"--generate", "2", "--prompt", ""}) ==
        "--prompt is empty; give it a value, or leave it out");
  CHECK(mistake("alpa-gpt", {"--generate", "2", "--vocabulary", "64"}) ==
        "--prompt has token 84, but --vocabulary is 64; give at least the tokenizer's 256");
  CHECK(
      mistake("alpa-gpt", {"--generate", "2", "--tokenizer", "/nowhere"}) ==
      "/nowhere: has neither tokenizer.json, nor tokenizer.model, nor vocab.json with merges.txt");
  CHECK(mistake("alpa-gpt", {"--logits", "x.safetensors"}) ==
        "--logits has no effect without --generate");
  CHECK(mistake("alpa-gpt", {"--generate", "2", "--stop", "ab"}) ==
        "--stop has 2 tokens; give the text of a single one");
  CHECK(mistake("alpa-gpt", {"--generate", "2", "--prompts", "/dev/null"}) ==
        "/dev/null: cannot be read: it is a device, not a file");
  CHECK(mistake("alpa-gpt", {"--generate", "2", "--prompts", "x", "--prompt", "y"}) ==
        "--prompt has no effect beside --prompts, whose lines are continued");
  CHECK(mistake("alpa-gpt", {"--generate", "2", "--prompts", "/nowhere"})
            .starts_with("/nowhere: cannot be read"));
  const ProgramOutput unloaded = run_small("alpa-gpt", {"--load", "/nowhere/x.safetensors"});
  CHECK(unloaded.status == 2);
  CHECK(unloaded.text.find("plan  ") == unloaded.text.npos);
  CHECK(unloaded.text.find("step 1/1") == unloaded.text.npos);
  CHECK(mistake("alpa-gpt", {"--save", "x.safetensors", "--head", "tied", "--key-heads", "2"}) ==
        "Hugging Face's GPT-2 has as many key heads as heads, but the decoder has 2 and 4; leave "
        "out its key heads");
  // Tokens that the tokenizer lacks, as of a padded vocabulary, are not drawn.
  const ProgramOutput padded =
      run_small("alpa-gpt", {"--generate", "4", "--vocabulary", "4096", "--temperature", "100",
                             "--top-k", "0", "--quiet"});
  CAPTURE(padded.text);
  CHECK(padded.status == 0);
  CHECK(padded.text.find("\ngenerated   The ") != padded.text.npos);
}

TEST_CASE("alpa-moe has the sizes of its blocks as flags, as alpa-gpt has") {
  const auto planned = [](const Words& sizes) {
    Words words{"--plan-only", "--method", "data", "--json", "/dev/stdout", "--sequence", "8"};
    words.insert(words.end(), sizes.begin(), sizes.end());
    return run_small("alpa-moe", words).text;
  };
  const std::string text = planned({"--layers", "3", "--hidden", "48", "--heads", "6"});
  CAPTURE(text);
  CHECK(text.find("\"blocks.2.attention_norm.scale\"") != text.npos);
  CHECK(text.find("\"blocks.3.attention_norm.scale\"") == text.npos);
  CHECK(planned({"--hidden", "48"}).find("nn::SelfAttention") == std::string::npos);
  CHECK(planned({"--hidden", "48", "--heads", "7"})
            .ends_with("nn::SelfAttention: 7 heads do not divide the width 48\n"));
}

}  // namespace flag_combination_test
