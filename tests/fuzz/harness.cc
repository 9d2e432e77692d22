#include "fuzz/harness.h"

#include <alpa/base/error.h>
#include <alpa/base/text.h>

#include <stdexcept>

namespace alpa::fuzz {
namespace {

constexpr std::size_t kMaxMessage = 1000;

void check_message(const std::string& message) {
  if (message.empty() || message.size() > kMaxMessage)
    throw std::logic_error("a message of " + std::to_string(message.size()) +
                           " bytes: " + excerpt(message));
  if (excerpt(message, kMaxMessage) != message)
    throw std::logic_error("a message that is not one printable line: " +
                           excerpt(message, kMaxMessage));
}

std::uint64_t accepted_inputs = 0;

const std::vector<std::string> kJsonTokens = {
    "{",    "}",    "[",  "]",     ",",      ":",      "\"", "\\u0000",
    "null", "true", "{}", "[]",    "1e400",  "1e308",  "-1", "\"x\"",
    "1.5",  "-0.0", "\\", "[[[[[", "[1, 2]", "1e-320", "\n", "\xff"};

const std::vector<std::string> kStablehloTokens = {"%",
                                                   "\"stablehlo.add\"",
                                                   "tensor<8xf32>",
                                                   "dense<",
                                                   "array<i64: 0, 1>",
                                                   "<{",
                                                   "}>",
                                                   "({",
                                                   "#stablehlo.gather<",
                                                   "[",
                                                   "]",
                                                   "(",
                                                   ")",
                                                   "^bb0(",
                                                   "->",
                                                   "\"func.call\"",
                                                   "-1",
                                                   "99999999",
                                                   "0xFF800000",
                                                   "ui64",
                                                   "i1"};

const std::vector<std::string> kJinjaTokens = {
    "{{",     "}}",       "{%",          "%}",       "{#",          "#}",     "-",
    "if",     "else",     "endif",       "for",      "in",          "endfor", "loop.index",
    "set",    "endset",   "macro",       "endmacro", "namespace()", "x.y",    "[::-1]",
    "(1, 2)", "{'a': 1}", "messages",    "content",  "range(9)",    "|",      "tojson",
    "is",     "defined",  ".split('a')", "*",        "**",          "99999",  "~",
    "sort",   "map('f')", "'",           "\\u",      "=="};

const std::vector<std::string> kPlanTokens = {
    "\"-\"",    "\"f0@0\"",   "\"l0@0\"", "\"f1@0 l0@1\"", "\"R\"",       "\"S0@0\"",
    "\"S1@0\"", "\"P+@0\"",   "S0@1",     "all_reduce",    "all_gather",  "reduce_scatter",
    "slice",    "all_to_all", "gpipe",    "1f1b",          "zero_bubble", "[]",
    "[0, 1]",   "-1",         "1e300"};

}  // namespace

bool accepts(const std::function<void()>& parse) {
  try {
    parse();
    ++accepted_inputs;
    return true;
  } catch (const Error& error) {
    check_message(error.what());
    return false;
  }
}

std::uint64_t accepted() { return accepted_inputs; }

void expect_same(const std::string& printed, const std::string& again) {
  if (printed == again) return;
  std::size_t at = 0;
  while (at < printed.size() && at < again.size() && printed[at] == again[at]) ++at;
  throw std::logic_error("printed and parsed again differs from byte " + std::to_string(at) + ": " +
                         excerpt(printed.substr(at)) + " became " + excerpt(again.substr(at)));
}

const std::vector<Harness>& harnesses() {
  static const std::vector<Harness> all = {
      {"graph",
       fuzz_graph,
       graph_seeds,
       {"%0",
        "%1",
        "%99",
        ": ",
        " = ",
        "f32[",
        "bf16",
        "u8[]",
        "]",
        "[",
        "(",
        ")",
        "{",
        "}",
        ", ",
        "\"",
        "\\",
        "\n",
        "forward",
        "backward",
        "apply",
        "layer=",
        "update ",
        "metric ",
        "einsum",
        "reshape",
        "broadcast",
        "transpose",
        "reduce_sum",
        "reduce_max",
        "iota",
        "constant",
        "where",
        "cast",
        "input",
        "axes=[",
        "axes=[0, 0]",
        "dims=[",
        "shape=[",
        "permutation=[",
        "keep_dims=1",
        "equation=\"ab,bc->ac\"",
        "axis=",
        "kind=\"state\"",
        "kind=\"scalar\"",
        "micro_batches=",
        "nan",
        "inf",
        "1.0",
        "i32",
        "f64"}},
      {"attributes",
       fuzz_attributes,
       attributes_seeds,
       {"{", "}", "[", "]", "[.]", "=", ", ", "\"", "\\", "nan", "inf", "-inf", "f32", "1e400",
        "1e-400", "0.5", "[]"}},
      {"strategy",
       fuzz_strategy,
       strategy_seeds,
       {"f", "l", "@", " ", "-", "f0@0", "l255@3", "f256@4"}},
      {"spec",
       fuzz_spec,
       spec_seeds,
       {"S", "P", "R", "@", " ", "+", "max", "lse", "S0@1", "P+@0", "Pmax@3", "S255@0"}},
      {"stablehlo", fuzz_stablehlo, stablehlo_seeds, kStablehloTokens},
      {"stablehlo_run", fuzz_stablehlo_run, stablehlo_run_seeds, kStablehloTokens, 2},
      {"plan", fuzz_plan, plan_seeds, kJsonTokens},
      {"cluster", fuzz_cluster, cluster_seeds, kJsonTokens},
      {"contest", fuzz_contest, contest_seeds, kJsonTokens},
      {"contest_gz", fuzz_contest_gz, contest_gz_seeds, {"\x1f\x8b", std::string(8, '\0')}},
      {"csv",
       fuzz_csv,
       csv_seeds,
       {",", "\n", "\r\n", "\xef\xbb\xbf", "nan", "inf", "-", "+", "1e39", "1e-400", "0x1p3", "\t",
        " ", "\"", "a,b\n"}},
      {"idx",
       fuzz_idx,
       idx_seeds,
       {std::string("\0\0\x08\x03", 4), std::string(4, '\0'), "\xff\xff\xff\xff", "\x1f\x8b"}},
      {"safetensors",
       fuzz_safetensors,
       safetensors_seeds,
       {std::string(8, '\0'), std::string(7, '\xff'), "F32", "F8_E4M3", "I64", "BOOL", "[0,0]",
        "data_offsets", "__metadata__", "-1", "1e9", "{", "}", "[", "]", ",", ":", "\""}},
      {"gguf",
       fuzz_gguf,
       gguf_seeds,
       {std::string(8, '\0'), std::string(4, '\0'), std::string(7, '\xff'), "llama", "gpt2",
        "qwen3moe", "gemma2", "head_count", "rope.scaling.type", "_exps", "blk.1.",
        std::string("\6\0\0\0", 4), std::string("\11\0\0\0", 4), std::string("\0\0\xc0\x7f", 4)}},
      {"manifest", fuzz_manifest, manifest_seeds, kJsonTokens},
      {"vocabulary", fuzz_vocabulary, vocabulary_seeds, kJsonTokens},
      {"merges",
       fuzz_merges,
       merges_seeds,
       {" ", "\n", "\r\n", "a", "b", "ab", "abc", "#version", "\xc4\xa0", "\xff"}},
      {"tokenizer", fuzz_tokenizer, tokenizer_seeds, kJsonTokens},
      {"folder", fuzz_folder, folder_seeds, kJsonTokens},
      {"sentence_pieces",
       fuzz_sentence_pieces,
       sentence_pieces_seeds,
       {"\n\7", "\x12\2", "\x1a\2", "\x15", "\x18\3", "<0x41>", "\xe2\x96\x81", "a", "<s>",
        std::string("\0\0\xc0\x7f", 4)}},
      {"chat_template", fuzz_chat_template, chat_template_seeds, kJinjaTokens},
      {"json_lines", fuzz_json_lines, json_lines_seeds, kJsonTokens},
      {"text",
       fuzz_text,
       text_seeds,
       {" ", "  ", "\n", "'s", "'ll", "\xc2\xa0", "\xe2\x80\xa8", "\xf0\x9f\x98\x80", "\xff",
        "\xed\xa0\x80", std::string(1, '\0'), "ab", "1", "!?"}},
      {"plan_run", fuzz_plan_run, plan_run_seeds, kPlanTokens, 10},
      {"stages_run", fuzz_stages_run, stages_run_seeds, kPlanTokens, 10},
      {"kept_plan", fuzz_kept_plan, kept_plan_seeds, kPlanTokens, 30},
      {"planned_cluster", fuzz_planned_cluster, planned_cluster_seeds, kJsonTokens, 5},
      {"image",
       fuzz_image,
       image_seeds,
       {"\xff\xd8", "\xff\xda", "\xff\xc0", "\xff\xee", "Adobe", "IDAT", "PLTE"}},
      {"image_folder",
       fuzz_image_folder,
       image_folder_seeds,
       {"\n", " ", "image", "text", "folder", "link", "pipe", ".png", ".JPG", ".", "a", "\xff"},
       3},
  };
  return all;
}

}  // namespace alpa::fuzz
