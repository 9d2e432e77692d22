// Manifests of checkpoints, whose checksum is made right so that what is behind it is reached.
#include <fmt/core.h>

#include "fuzz/harness.h"
#include "src/api/checkpoint/manifest.h"
#include "src/base/checksum.h"

namespace alpa::fuzz {
namespace {

/// A manifest's text without its first line.
std::string body_of(const checkpoint::Manifest& manifest) {
  const std::string text = to_json(manifest);
  return text.substr(text.find('\n') + 1);
}

std::string with_sum(const std::string& body) {
  return fmt::format("{{\"crc32\": \"{:08x}\",\n{}", alpa::crc32(body), body);
}

}  // namespace

int fuzz_manifest(const std::uint8_t* data, std::size_t size) {
  const std::string input = input_text(data, size);
  accepts([&] { checkpoint::parse_manifest(input, "manifest.json"); });
  std::string printed;
  if (accepts(
          [&] { printed = to_json(checkpoint::parse_manifest(with_sum(input), "manifest.json")); }))
    expect_same(printed, to_json(checkpoint::parse_manifest(printed, "manifest.json")));
  return 0;
}

std::vector<std::string> manifest_seeds() {
  checkpoint::Manifest small{.step = 3,
                             .seed = 18446744073709551615u,
                             .steps = {3, 1},
                             .data = {},
                             .metrics = {{"loss", 0.25}},
                             .plan_hash = "0123456789abcdef",
                             .user = {{"note", "a \"text\""}},
                             .operators = {{"shop.scale", 2}},
                             .tensors = {},
                             .shards = {{"shard-0-of-1.safetensors", 512, 1024, 1, 2}}};
  checkpoint::Manifest split = small;
  split.data = checkpoint::StoredData{{2, 48}, 100, 7, {{2, {2, 32}, 16, true, 9}}};
  split.tensors["w"] = {{f32, {4, 6}},
                        "parameter",
                        {{{0, 0}, {4, 3}, 0, 0}, {{0, 3}, {2, 3}, 0, 48}, {{2, 3}, {2, 3}, 0, 72}}};
  split.tensors["scale"] = {{f64, {}}, "optimizer state", {{{}, {}, 0, 96}}};
  return {body_of(small), body_of(split)};
}

}  // namespace alpa::fuzz
