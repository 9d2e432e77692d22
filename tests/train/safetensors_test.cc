// safetensors files: what is written, what is read, and what is refused.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cstdio>

#include "support/error_text.h"
#include "support/temporary_file.h"

namespace safetensors_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// A file of this header and data.
std::string file_text(const std::string& header, const std::string& data) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return text + header + data;
}

/// The message for a file that can't be opened; {} stands for its path.
std::string refusal(const std::string& content) {
  const TemporaryFile file("refused.safetensors", content);
  return error_of([&] { TensorFile opened(file.path()); });
}

std::string refused_header(const std::string& header, const std::string& data) {
  return refusal(file_text(header, data));
}

const std::string kHalf("\x00\x3c\x00\xc0", 4);  // 1 and -2 in f16

}  // namespace

TEST_CASE("a file by hand reads as the format says") {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"half":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
      R"("long":{"dtype":"I64","shape":[1,2],"data_offsets":[4,20]},)"
      R"("tiny":{"dtype":"I8","shape":[0],"data_offsets":[20,20]},)"
      R"("yes":{"dtype":"BOOL","shape":[],"data_offsets":[20,21]}})";
  const std::string data =
      kHalf + std::string("\x07\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x01", 17);
  const TemporaryFile written("by_hand.safetensors", file_text(header, data));
  const TensorFile file(written.path());
  CHECK(file.names() == std::vector<std::string>{"half", "long", "tiny", "yes"});
  CHECK(file.metadata().at("format") == "pt");
  CHECK(to_string(file["half"]) == "f16[2] [1, -2]");
  CHECK(to_string(file["long"]) == "i32[1, 2] [[7, -1]]");
  CHECK(to_string(file["yes"]) == "u8[] 1");
  CHECK(file.contains("yes"));
  CHECK(!file.contains("no"));
  CHECK(error_of([&] { file["no"]; }) ==
        "by_hand.safetensors: has no tensor \"no\"; it has \"half\", \"long\", \"tiny\", \"yes\"");
  CHECK(error_of([&] { file["tiny"]; }) ==
        "by_hand.safetensors: \"tiny\" has element type I8, which alpa does not have; convert the "
        "file");
}

TEST_CASE("integers beyond 32 bits are refused") {
  const TemporaryFile written(
      "wide.safetensors", file_text(R"({"id":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
                                    std::string("\0\0\0\0\x01\0\0\0", 8)));
  CHECK(error_of([&] { TensorFile(written.path())["id"]; }) ==
        "wide.safetensors: element 0 of \"id\" is 4294967296; integers of alpa have 32 bits");
}

TEST_CASE("arrays of every element type are written and read back") {
  const TemporaryFile file("written.safetensors", "");
  const Array base(std::vector<float>{0, 1, 2.5F, 3, 4, 200}, {2, 3});
  std::map<std::string, Array> tensors = {{"number", Array(0.5)}};
  for (DType dtype : kDTypes) tensors.emplace(std::string(name_of(dtype)), base.cast(dtype));
  write_safetensors(file.path(), tensors, {{"by", "alpa"}});
  const TensorFile read(file.path());
  CHECK(read.metadata() == std::map<std::string, std::string>{{"by", "alpa"}});
  CHECK(read.names().size() == tensors.size());
  for (const auto& [name, array] : tensors) {
    CAPTURE(name);
    CHECK(read.type(name) == array.type());
    CHECK(to_string(read[name]) == to_string(array));
  }
  CHECK(file.content().find('{') == 8);
}

TEST_CASE("an index opens all the files that it lists") {
  const TemporaryFile a("part-1.safetensors", ""), b("part-2.safetensors", "");
  write_safetensors(a.path(), {{"x", Array(1.0F)}, {"y", Array(2.0F)}});
  write_safetensors(b.path(), {{"z", Array(3.0F)}});
  const auto index = [](const std::string& map) {
    return TemporaryFile("model.safetensors.index.json", "{\"weight_map\": " + map + "}");
  };
  {
    const TemporaryFile written = index(
        R"({"x": "part-1.safetensors", "y": "part-1.safetensors", "z": "part-2.safetensors"})");
    const TensorFile file(written.path());
    CHECK(file.names() == std::vector<std::string>{"x", "y", "z"});
    CHECK(to_string(file["z"]) == "f32[] 3");
  }
  const TemporaryFile written = index(R"({"w": "part-1.safetensors"})");
  CHECK(error_of([&] { TensorFile file(written.path()); }) ==
        "model.safetensors.index.json: \"w\" is in none of the files");
}

TEST_CASE("a file that is cut off is called truncated, with both sizes") {
  const std::string start = "refused.safetensors: ",
                    whole = file_text(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                                      "00001111");
  REQUIRE(whole.size() == 70);
  CHECK(refusal(whole) == "no error");
  CHECK(refusal(whole.substr(0, 69)) ==
        start + "is truncated: its header and tensors take 70 bytes, the file has 69");
  CHECK(refusal(whole.substr(0, 62)) ==
        start + "is truncated: its header and tensors take 70 bytes, the file has 62");
  CHECK(refusal(whole.substr(0, 61)) ==
        start + "is truncated: its header alone takes 62 bytes, the file has 61");
  CHECK(refusal(whole.substr(0, 7)) ==
        start +
            "is truncated, or no safetensors file: it has 7 bytes, the length of the header alone "
            "takes 8");
}

TEST_CASE("a header over the limit names the limit") {
  CHECK(
      refusal(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8)) ==
      "refused.safetensors: is no safetensors file, or its header is too large: its first 8 bytes "
      "announce a header of 100000001 bytes, and at most 100000000 are read");
  CHECK(
      refusal(std::string("\x00\xe1\xf5\x05\0\0\0\0", 8)) ==
      "refused.safetensors: is truncated: its header alone takes 100000008 bytes, the file has 8");
}

TEST_CASE("a header of very many tensors is read, and so is an index of them") {
  // Work for each tensor that grows with their number takes minutes at this size.
  constexpr int kTensors = 200'000;
  std::string header, index;
  for (int i = 0; i < kTensors; ++i) {
    header += fmt::format(R"({}"layer.{}.w":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})",
                          i == 0 ? "{" : ",", i, i, i + 1);
    index += fmt::format(R"({}"layer.{}.w": "many.safetensors")", i == 0 ? "{" : ", ", i);
  }
  const TemporaryFile file("many.safetensors", file_text(header + "}", std::string(kTensors, 'x')));
  const TemporaryFile list("many.index.json", "{\"weight_map\": " + index + "}}");
  for (const TemporaryFile* opened : {&file, &list}) {
    const TensorFile many(opened->path());
    CHECK(many.names().size() == kTensors);
    CHECK(to_string(many["layer.199999.w"]) == "u8[1] [120]");
  }
}

TEST_CASE("files that are damaged are refused before anything is read") {
  const std::string start = "refused.safetensors: ";
  CHECK(refused_header("[]", "") == start + "its header is a list, not an object");
  const std::string tensor = start + "\"w\": ";
  CHECK(refused_header(R"({"w":{"dtype":"F32","shape":[1]}})", "") ==
        tensor + "needs \"dtype\", \"shape\" and \"data_offsets\", but is an object");
  CHECK(refused_header(R"({"w":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "0000") ==
        tensor + "has the unknown element type \"F33\"");
  CHECK(refused_header(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "0000") ==
        tensor + "its shape is a list, not a list of extents");
  CHECK(refused_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[8,0]}})", "0000") ==
        tensor + "its data_offsets are a list; expected [begin, end]");
  CHECK(refused_header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "0000") ==
        tensor + "is F32 of shape [2], which does not take the 4 bytes of its data_offsets");
  CHECK(refused_header(
            R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
            "0000") == tensor +
                           "is F32 of shape [4294967296, 4294967296], which does not take the "
                           "4 bytes of its data_offsets");
  CHECK(refused_header(R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "0000") ==
        start + "the file is damaged: it holds 4 bytes of data, its tensors take 2");
  CHECK(refused_header(R"({"v":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                       R"("w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                       "0000") ==
        start + "the file is damaged: a tensor begins at byte 2, the one before ends at 3");
}

}  // namespace safetensors_test
