// src/cuda/choice_file.cc — reads and writes measured choices in the cache folder
#include "choice_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "cache_folder.h"
#include "status.h"

namespace alpa::cuda {
namespace {

constexpr std::string_view kTitle = "alpa choices 1\n", kEnd = "end\n";

using Lines = std::map<std::string, std::string>;

/// Lines "key: choice" between title and end; nothing if the text is anything else.
std::optional<Lines> parse(std::string_view text) {
  if (!text.starts_with(kTitle) || !text.ends_with(kEnd)) return std::nullopt;
  text.remove_prefix(kTitle.size());
  text.remove_suffix(kEnd.size());
  Lines choices;
  while (!text.empty()) {
    const std::size_t colon = text.find(": "), end = text.find('\n');
    if (end == std::string_view::npos || colon == std::string_view::npos || colon > end)
      return std::nullopt;
    choices[std::string(text.substr(0, colon))] = text.substr(colon + 2, end - colon - 2);
    text.remove_prefix(end + 1);
  }
  return choices;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string choice_file_name(std::string_view what, std::string_view card, std::size_t version) {
  std::string name(card);
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !is_plain(c); }, '_');
  return fmt::format("{}_{}_{}.txt", what, name, version);
}

std::string choice_file_name(std::string_view what, std::size_t version) {
  int device = 0;
  cudaDeviceProp properties;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return choice_file_name(what, properties.name, version);
}

std::map<std::string, std::string> read_choices(const std::string& name) {
  const std::optional<std::string> text = read_cached(name);
  if (!text) return {};
  if (std::optional<Lines> choices = parse(*text)) return *choices;
  fmt::print(stderr, "alpa: {} is damaged and ignored; what it held is measured anew\n",
             (cache_folder() / name).string());
  return {};
}

void add_choice(const std::string& name, const std::string& key, const std::string& choice) {
  const std::optional<std::string> before = read_cached(name);
  Lines choices = parse(before.value_or("")).value_or(Lines{});
  choices[key] = choice;
  std::string text(kTitle);
  for (const auto& [k, c] : choices) text += k + ": " + c + "\n";
  write_cached(name, text + std::string(kEnd));
}

Choices::Choices(std::string file, std::string_view known) : file_(std::move(file)) {
  std::string own(kTitle);
  for (std::size_t end; (end = known.find('\n')) != known.npos; known.remove_prefix(end + 1))
    if (const std::string_view line = known.substr(0, end + 1); line.starts_with(file_ + " "))
      own += line.substr(file_.size() + 1);
  known_ = parse(own + std::string(kEnd)).value_or(Lines{});
}

std::string Choices::text() const {
  std::string text;
  for (const auto& [key, choice] : known_) text += file_ + " " + key + ": " + choice + "\n";
  return text;
}

const std::string* Choices::find(const std::string& key) {
  const auto known = known_.find(key);
  if (known != known_.end()) return &known->second;
  if (file_.empty()) return nullptr;
  known_.merge(read_choices(file_));
  const auto read = known_.find(key);
  return read == known_.end() ? nullptr : &read->second;
}

void Choices::remember(const std::string& key, const std::string& choice) {
  known_[key] = choice;
  if (!file_.empty()) add_choice(file_, key, choice);
}

std::string to_text(const void* data, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i)
    text += fmt::format("{:02x}", static_cast<const unsigned char*>(data)[i]);
  return text;
}

bool from_text(std::string_view text, void* data, std::size_t bytes) {
  if (text.size() != 2 * bytes) return false;
  for (std::size_t i = 0; i < bytes; ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

}  // namespace alpa::cuda
