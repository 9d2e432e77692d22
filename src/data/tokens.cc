// src/data/tokens.cc — sequences of tokens in memory and in mapped files, and windows of them
#include <algorithm>
#include <cstring>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/data/text.h"
#include "src/base/checksum.h"
#include "src/base/file.h"
#include "src/base/fnv.h"
#include "src/base/mapped_file.h"

namespace alpa {
namespace {

constexpr FileKind kTextFile{"", std::int64_t{4} << 30};

std::int64_t bytes_of(TokenWidth width) { return static_cast<std::int64_t>(width); }

}  // namespace

struct Tokens::Source {
  std::vector<std::int32_t> memory;
  std::optional<MappedFile> file;
  TokenWidth width = TokenWidth::bytes_4;

  const std::byte* data() const {
    return file ? file->bytes().data() : reinterpret_cast<const std::byte*>(memory.data());
  }

  std::int32_t at(std::int64_t i) const {
    std::uint32_t token = 0;
    std::memcpy(&token, data() + i * bytes_of(width), static_cast<std::size_t>(bytes_of(width)));
    if (!std::in_range<std::int32_t>(token))
      fail("{}: token {} is {}; tokens have at most 31 bits", file ? file->path() : "tokens", i,
           token);
    return static_cast<std::int32_t>(token);
  }
};

Tokens::Tokens(std::vector<std::int32_t> tokens) : end_(static_cast<std::int64_t>(tokens.size())) {
  for (std::int32_t token : tokens)
    require(token >= 0, "tokens: {} is negative; tokens are numbered from 0", token);
  source_ = std::make_shared<const Source>(Source{.memory = std::move(tokens), .file = {}});
}

Tokens Tokens::of_file(const std::string& path, TokenWidth width) {
  MappedFile file(path);
  const auto size = static_cast<std::int64_t>(file.bytes().size());
  require(size % bytes_of(width) == 0, "{}: has {} bytes, which are no whole tokens of {} bytes",
          path, size, bytes_of(width));
  Tokens tokens;
  tokens.source_ =
      std::make_shared<const Source>(Source{.memory = {}, .file = std::move(file), .width = width});
  tokens.end_ = size / bytes_of(width);
  return tokens;
}

Tokens Tokens::of_text(const std::string& path, const Tokenizer& tokenizer) {
  return Tokens(tokenizer.encode_whole(read_file(path, kTextFile)));
}

std::int32_t Tokens::operator[](std::int64_t i) const {
  require(i >= 0 && i < size(), "tokens: there is no token {} of {}", i, size());
  return source_->at(begin_ + i);
}

Tokens Tokens::part(std::int64_t begin, std::int64_t end) const {
  require(begin >= 0 && begin <= end && end <= size(), "tokens: there is no part {} to {} of {}",
          begin, end, size());
  Tokens part = *this;
  part.begin_ = begin_ + begin;
  part.end_ = begin_ + end;
  return part;
}

std::uint64_t Tokens::hash() const {
  const std::int64_t width = bytes_of(source_->width);
  return hash_of({source_->data() + begin_ * width, static_cast<std::size_t>(size() * width)});
}

void Tokens::write(const std::string& path, TokenWidth width) const {
  const std::uint64_t limit = std::uint64_t{1} << (8 * bytes_of(width));
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(size() * bytes_of(width)));
  for (std::int64_t i = 0; i < size(); ++i) {
    const auto token = static_cast<std::uint32_t>((*this)[i]);
    require(token < limit, "{}: token {} is {}, which does not fit into {} bytes", path, i, token,
            bytes_of(width));
    for (int byte = 0; byte < bytes_of(width); ++byte)
      bytes += static_cast<char>(token >> (8 * byte) & 0xFF);
  }
  write_file(path, bytes);
}

Batches token_batches(const Tokens& tokens, std::int64_t batch, std::int64_t length,
                      std::optional<std::uint64_t> seed, BatchOptions options,
                      std::int64_t stride) {
  require(length >= 1, "token_batches: windows of {} tokens; give at least 1", length);
  require(stride >= 0, "token_batches: the stride is {}; give at least 1, or 0 for the length",
          stride);
  if (stride == 0) stride = length;
  require(tokens.size() > length,
          "token_batches: {} tokens hold no window of {} and the token behind it; give shorter "
          "windows or more text",
          tokens.size(), length);
  const auto load = [=](std::span<const std::int64_t> rows) {
    const TensorType type{i32, {static_cast<std::int64_t>(rows.size()), length}};
    Array inputs(type), labels(type);
    auto input = inputs.mutable_elements_as<std::int32_t>().begin(),
         label = labels.mutable_elements_as<std::int32_t>().begin();
    for (std::int64_t row : rows)
      for (std::int64_t i = row * stride; i < row * stride + length; ++i)
        *input++ = tokens[i], *label++ = tokens[i + 1];
    return BatchData{{"tokens", inputs}, {"labels", labels}};
  };
  if (!options.hash)
    options.hash = [=] {
      return fnv1a(fmt::format("windows of {} every {}", length, stride), tokens.hash());
    };
  return batches((tokens.size() - length - 1) / stride + 1, load, batch, seed, options);
}

}  // namespace alpa
