// src/data/jpeg.cc — decodes JPEG by libjpeg-turbo
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include "src/data/image_codecs.h"

namespace alpa {
namespace {

constexpr int kInks = 4;

/// Parts of a progressive JPEG, each of which visits all pixels: files have some ten. A small file
/// can have many thousands, and take hours.
constexpr int kMaxScans = 500;

/// libjpeg's state, and what its error handler leaves behind. Plain data: errors jump over it.
struct JpegReader {
  jpeg_decompress_struct decoder;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf on_error;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void handle_error(j_common_ptr decoder) {
  auto* reader = static_cast<JpegReader*>(decoder->client_data);
  (*decoder->err->format_message)(decoder, reader->message);
  std::longjmp(reader->on_error, 1);
}

/// A warning means damaged content, e.g. a file that ends early.
void handle_warning(j_common_ptr decoder, int level) {
  if (level < 0) handle_error(decoder);
}

void check_scans(j_common_ptr decoder) {
  auto* reader = static_cast<JpegReader*>(decoder->client_data);
  if (reader->decoder.input_scan_number <= kMaxScans) return;
  std::snprintf(reader->message, sizeof reader->message, "it has more than %d scans", kMaxScans);
  std::longjmp(reader->on_error, 1);
}

void begin(JpegReader& reader) {
  reader.decoder.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = handle_error;
  reader.errors.emit_message = handle_warning;
  reader.decoder.client_data = &reader;
}

/// Whether the pixels are in cyan, magenta, yellow and black (CMYK, or YCCK, which is to CMYK what
/// YCbCr is to RGB). libjpeg makes CMYK of both, but no RGB.
bool in_inks(const jpeg_decompress_struct& decoder) {
  return decoder.jpeg_color_space == JCS_CMYK || decoder.jpeg_color_space == JCS_YCCK;
}

/// Room for a row, freed with the decoder.
JSAMPARRAY row_of_inks(jpeg_decompress_struct& decoder) {
  return decoder.mem->alloc_sarray(reinterpret_cast<j_common_ptr>(&decoder), JPOOL_IMAGE,
                                   decoder.output_width * kInks, 1);
}

/// Reads the header. False, with a message, if it is damaged.
bool read_header(JpegReader& reader, const unsigned char* content, unsigned long size) {
  if (setjmp(reader.on_error) != 0) return false;
  jpeg_create_decompress(&reader.decoder);
  reader.progress.progress_monitor = check_scans;
  reader.decoder.progress = &reader.progress;
  jpeg_mem_src(&reader.decoder, content, size);
  jpeg_read_header(&reader.decoder, TRUE);
  reader.decoder.out_color_space = in_inks(reader.decoder) ? JCS_CMYK : JCS_RGB;
  return true;
}

/// Light of a row of pixels in inks: what cyan, magenta and yellow leave of what black leaves.
/// Files with Adobe's marker, as nearly all are, store what an ink leaves; others how much of it
/// there is.
void write_colours(const jpeg_decompress_struct& decoder, const unsigned char* inks,
                   unsigned char* pixels) {
  const int inverted = decoder.saw_Adobe_marker ? 0 : 255;
  for (JDIMENSION i = 0; i < decoder.output_width; ++i, inks += kInks, pixels += kColours)
    for (int c = 0; c < kColours; ++c)
      pixels[c] = static_cast<unsigned char>(
          ((inks[c] ^ inverted) * (inks[kColours] ^ inverted) + 127) / 255);
}

/// Reads all rows. False, with a message, if they are damaged.
bool read_rows(JpegReader& reader, unsigned char* pixels) {
  if (setjmp(reader.on_error) != 0) return false;
  jpeg_start_decompress(&reader.decoder);
  const JSAMPARRAY inks = in_inks(reader.decoder) ? row_of_inks(reader.decoder) : nullptr;
  while (reader.decoder.output_scanline < reader.decoder.output_height) {
    unsigned char* row = pixels + std::size_t{reader.decoder.output_scanline} *
                                      reader.decoder.output_width * kColours;
    jpeg_read_scanlines(&reader.decoder, inks ? inks : &row, 1);
    if (inks) write_colours(reader.decoder, inks[0], row);
  }
  jpeg_finish_decompress(&reader.decoder);
  return true;
}

/// Frees what libjpeg holds, also when an Error is thrown.
struct JpegEnd {
  JpegReader& reader;
  ~JpegEnd() { jpeg_destroy_decompress(&reader.decoder); }
};

}  // namespace

Array decode_jpeg(std::string_view content, const std::string& path) {
  JpegReader reader{};
  begin(reader);
  const JpegEnd end{reader};
  const auto* bytes = reinterpret_cast<const unsigned char*>(content.data());
  if (!read_header(reader, bytes, content.size())) fail_damaged(path, "JPEG", reader.message);
  Array result = new_image(path, reader.decoder.image_height, reader.decoder.image_width);
  if (!read_rows(reader, reinterpret_cast<unsigned char*>(result.mutable_data())))
    fail_damaged(path, "JPEG", reader.message);
  return result;
}

}  // namespace alpa
