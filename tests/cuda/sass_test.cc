// What the machine code says of the kernels' speed without a card: scripts/sass_report
// and the least it must say.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>

#include "support/sass.h"
#include "support/temporary_file.h"

namespace alpa::sass_test {
namespace {

using testing::KernelReport;
using testing::sass_report;

/// At least so many loads and bytes of them under way per thread, at most so many registers, at
/// least so many stores of 16 bytes, no spills.
struct Expected {
  const char* kernel;
  int loads, bytes, registers, wide_stores = 0;
};
constexpr Expected kExpected[] = {
    {"add_chunks<24>", 8, 64, 32},  // doubles of a workspace that fits in the cache
    {"columns<alpa::Bf16, (alpa::ReduceOp)0, 8>", 4, 64, 80},
    {"columns<alpa::F16, (alpa::ReduceOp)0, 8>", 4, 64, 80},
    {"columns<float, (alpa::ReduceOp)0, 4>", 4, 64, 64},
    {"columns<double, (alpa::ReduceOp)0, 2>", 4, 64,
     64},  // also what adds up the pieces of all columns
    {"columns<float, (alpa::ReduceOp)1, 4>", 4, 64, 64},
    {"columns<alpa::Bf16, (alpa::ReduceOp)0, 1>", 8, 16, 64},  // where rows begin at odd addresses
    {"columns<float, (alpa::ReduceOp)0, 1>", 8, 32, 64},
    {"long_lines<alpa::Bf16, (alpa::ReduceOp)0, 8>", 4, 64, 64},
    {"long_lines<alpa::F16, (alpa::ReduceOp)0, 8>", 4, 64, 64},
    {"long_lines<float, (alpa::ReduceOp)0, 4>", 4, 64, 64},
    {"long_lines<float, (alpa::ReduceOp)1, 4>", 4, 64, 64},
    {"long_lines<alpa::Bf16, (alpa::ReduceOp)0, 1>", 8, 16, 64},
    {"short_lines<alpa::Bf16, (alpa::ReduceOp)0, 8>", 4, 64, 64},
    {"short_lines<float, (alpa::ReduceOp)0, 4>", 4, 64, 64},
    {"transpose_tiles<unsigned char, 4>", 16, 64, 64},
    {"transpose_tiles<unsigned short, 4>", 4, 32, 48},
    {"transpose_tiles<unsigned short, 2>", 8, 32, 48},
    {"transpose_tiles<unsigned short, 1>", 14, 28, 64},
    {"transpose_tiles<unsigned int, 4>", 4, 64, 64},
    {"transpose_tiles<unsigned int, 2>", 8, 64, 64},
    {"transpose_tiles<unsigned int, 1>", 14, 56, 64},
    {"transpose_tiles<uint2, 2>", 2, 32, 48},
    {"copy_elements<uint4>", 4, 64, 48},
    {"copy_elements<unsigned short>", 4, 8, 48},
    {"combine_packs<alpa::Bf16, (alpa::Combiner)0, 8, 2>", 4, 64, 64},
    {"combine_packs<float, (alpa::Combiner)0, 4, 2>", 4, 64, 64},
    // Two packs of each state and of the gradient; 24 warps with 128 bytes a thread
    // are 98 KB under way per SM.
    {"update_packs<float, float, Adam, 24>", 8, 128, 80, 6},
    {"update_packs<float, float, Adam, 368>", 8, 128, 80, 6},
    {"update_packs<alpa::Bf16, alpa::Bf16, Adam, 24>", 8, 128, 80, 6},
    {"update_packs<alpa::Bf16, alpa::Bf16, Adam, 368>", 8, 128, 80, 6},
    {"update_packs<alpa::F16, alpa::F16, Adam, 368>", 8, 128, 80, 6},
    {"update_packs<float, alpa::Bf16, Adam, 368>", 8, 112, 80, 6},
    {"update_packs<alpa::Bf16, float, Adam, 368>", 8, 80,
     80},  // a pack is one access of the gradient
    {"update_packs<float, float, Sgd, 368>", 6, 96, 64, 4},
    {"update_packs<alpa::Bf16, alpa::Bf16, Sgd, 368>", 6, 96, 64, 4},
    {"square_chunks<24>", 4, 64, 40},
    {"square_chunks<368>", 4, 64, 40},
    {"normalize_rows<alpa::Bf16, 8, 32>", 4, 64, 56},
    {"normalize_rows<alpa::Bf16, 8, 64>", 4, 64, 56},
    {"normalize_rows<float, 4, 256>", 4, 64, 56},
    {"differentiate_rows<alpa::Bf16, 8, 32>", 12, 192, 128},  // four packs of dy, x and addend
    {"differentiate_rows<alpa::Bf16, 8, 64>", 12, 192, 128},
    {"differentiate_rows<float, 4, 256>", 12, 192, 128},
    {"sum_rows<alpa::Bf16, 8>", 8, 128, 128},
    {"sum_rows<float, 4>", 8, 128, 80},
    {"sum_classes<alpa::Bf16, true>", 4, 64, 64},
    {"sum_classes<float, false>", 4, 64, 64},
    {"differentiate_classes<alpa::Bf16, true>", 4, 64, 64, 4},
    {"differentiate_classes<float, false>", 4, 64, 64, 4},
    {"pick_rows<alpa::Bf16, 8>", 4, 64, 48, 4},
    {"pick_rows<float, 4>", 4, 64, 48, 4},
    {"relu_mask<alpa::Bf16, true>", 4, 64, 64},
    {"relu_mask<float, true>", 4, 64, 64},
    {"apply_relu_mask<alpa::Bf16, true>", 8, 68,
     40},  // four of 16 bytes, and a byte of bits for each
    {"apply_relu_mask<float, true>", 8, 68, 40},
};

/// The kernels of the library; nothing, and a line says so, where they cannot be read.
std::optional<std::vector<KernelReport>> library_report() {
#if defined(ALPA_CUDA_FILE)
  static const auto reports = testing::library_sass_report(ALPA_CUDA_FILE);
  return reports;
#else
  std::puts("skipped: the emulated library holds no machine code of cards");
  return std::nullopt;
#endif
}

TEST_CASE("the kernels of the library have their loads under way before the first is needed") {
  const std::optional<std::vector<KernelReport>> reports = library_report();
  if (!reports) return;
  for (const Expected& expected : kExpected) {
    CAPTURE(std::string(expected.kernel));
    const auto found = std::find_if(reports->begin(), reports->end(), [&](const KernelReport& r) {
      return r.kernel == expected.kernel;
    });
    REQUIRE(found != reports->end());
    CHECK(found->loads >= expected.loads);
    CHECK(found->bytes >= expected.bytes);
    CHECK(testing::accesses(found->stores, 128) >= expected.wide_stores);
    CHECK(found->registers <= expected.registers);
    CHECK(found->spills == 0);
  }
}

/// Products on tensor cores: of 16 queries or keys of each warp, with a tile of the others.
struct ExpectedProducts {
  const char* kernel;
  int tensor, registers, wide_loads;
};
constexpr ExpectedProducts kExpectedProducts[] = {
    // q kᵀ and p v of 32 keys
    {"attend_tiles<(Form)1, alpa::Bf16, 64>", 32, 128, 8},
    {"attend_tiles<(Form)1, alpa::F16, 128>", 64, 192, 16},
    {"attend_tiles<(Form)2, alpa::Bf16, 64>", 32, 128, 8},
    {"attend_tiles<(Form)0, alpa::Bf16, 128>", 64, 255, 0},
    // q kᵀ, dy vᵀ and ds k of 32 keys
    {"differentiate_query_tiles<(Form)1, alpa::Bf16, 64>", 48, 168, 8},
    {"differentiate_query_tiles<(Form)1, alpa::F16, 128>", 96, 255, 16},
    {"differentiate_query_tiles<(Form)2, alpa::Bf16, 64>", 48, 168, 8},
    // k qᵀ, v dyᵀ, pᵀ dy and dsᵀ q of 32 queries, or of 16
    {"differentiate_key_tiles<(Form)1, alpa::Bf16, 64>", 64, 168, 8},
    {"differentiate_key_tiles<(Form)1, alpa::F16, 128>", 64, 255, 12},
    {"differentiate_key_tiles<(Form)2, alpa::Bf16, 64>", 64, 168, 8},
};

TEST_CASE("attention's products are on tensor cores, of keys copied 16 bytes at a time") {
  const std::optional<std::vector<KernelReport>> reports = library_report();
  if (!reports) return;
  for (const ExpectedProducts& expected : kExpectedProducts) {
    CAPTURE(std::string(expected.kernel));
    const auto found = std::find_if(reports->begin(), reports->end(), [&](const KernelReport& r) {
      return r.kernel == expected.kernel;
    });
    REQUIRE(found != reports->end());
    CHECK(found->tensor == expected.tensor);
    CHECK(found->registers <= expected.registers);
    CHECK(testing::accesses(found->widths, 128) >= expected.wide_loads);
    CHECK(found->spills == 0);
  }
}

/// Kernels that touch local memory, and how often in their code: arrays that are indexed at run
/// time, sums of 32 members' logarithms, sin and cos of large numbers. Of a step of one device
/// rotary embedding alone does.
constexpr std::pair<const char*, int> kLocal[] = {
    {"combine_packs<double, (alpa::Combiner)2, 2, 5>", 116},
    {"combine_packs<unsigned char, (alpa::Combiner)1, 16, 5>", 22},
    {"correlate_slopes<double>", 2},
    {"differentiate_key_tiles<(Form)3, alpa::Bf16, 64>", 16},  // soft caps and segments
    {"differentiate_key_tiles<(Form)3, alpa::F16, 64>", 16},
    {"differentiate_query_tiles<(Form)3, alpa::Bf16, 128>", 78},
    {"differentiate_query_tiles<(Form)3, alpa::F16, 128>", 78},
    {"interpret<double>", 5},
    {"interpret<float>", 73},  // codes of dynamic maps
    {"turn_pairs<alpa::Bf16>", 5},
    {"turn_pairs<alpa::F16>", 5},
    {"turn_pairs<double>", 5},
    {"turn_pairs<float>", 5},
};

TEST_CASE("no kernel of the library spills but those that are known, and 8 warps fit on an SM") {
  const std::optional<std::vector<KernelReport>> reports = library_report();
  if (!reports) return;
  CHECK(reports->size() > 400);
  for (const KernelReport& report : *reports) {
    CAPTURE(report.kernel);
    const auto known = std::find_if(std::begin(kLocal), std::end(kLocal),
                                    [&](const auto& row) { return report.kernel == row.first; });
    CHECK(report.spills <= (known == std::end(kLocal) ? 0 : known->second));
    if (report.threads == 0) continue;  // of a few blocks, for results of nothing
    CHECK(report.blocks * std::max(report.threads / 32, 1) >= 8);
    CHECK(report.threads * report.registers <= 65536 / report.blocks);
  }
}

/// A kernel of 256 threads and 32 registers as cuobjdump prints it: `body` is its
/// instructions, `;` after each.
std::string disassembly(const std::string& body) {
  std::string text =
      "Resource usage:\n Function _Z1kPf:\n"
      "  REG:32 STACK:0 SHARED:1088 LOCAL:0 CONSTANT[0]:536 TEXTURE:0 SURFACE:0 SAMPLER:0\n"
      ".nv.info._Z1kPf\n\tAttribute:\tEIATTR_MAX_THREADS\n\tFormat:\tEIFMT_SVAL\n\tValue:\t0x100 "
      "0x1 0x1 \n"
      "\t\tFunction : _Z1kPf\n";
  std::istringstream lines(body);
  int at = 0;
  char address[32];
  for (std::string line; std::getline(lines, line); at += 16) {
    std::snprintf(address, sizeof address, "        /*%04x*/  ", at);
    text += address + line + " ;  /* 0x0 */\n";
  }
  return text;
}

KernelReport report_of(const std::string& body) {
  const testing::TemporaryFile file("sass_test_" + std::to_string(getpid()) + ".sass",
                                    disassembly(body));
  const auto reports = sass_report(file.path());
  REQUIRE(reports);
  REQUIRE(reports->size() == 1);
  return reports->front();
}

TEST_CASE("loads count up to the first instruction that needs one, be it a conversion") {
  const KernelReport serial = report_of(
      "LDG.E.64 R4, desc[UR6][R2.64]\nPRMT R8, R4, 0x7610, R8\nLDG.E.64 R6, desc[UR6][R2.64+0x8]\n"
      "STG.E.64 desc[UR6][R2.64], R8\nEXIT");
  CHECK(serial.kernel == "k");
  CHECK(serial.loads == 1);
  CHECK(serial.bytes == 8);
  CHECK(serial.registers == 32);
  CHECK(serial.threads == 256);
  CHECK(serial.blocks == 8);
  CHECK(serial.shared == 64);
  CHECK(serial.tensor == 0);

  const KernelReport parallel = report_of(
      "LDG.E.128 R4, desc[UR6][R2.64]\n@P0 LDG.E.128.CONSTANT R8, desc[UR6][R2.64+0x10]\n@P1 BRA "
      "0x90\n"
      "LDG.E.U16 R12, desc[UR6][R2.64+0x20]\nFADD R4, R11, R20\nLDG.E R16, desc[UR6][R2.64+0x30]\n"
      "STG.E.128 desc[UR6][R2.64], R4\nHMMA.16816.F32.BF16 R4, R8, R12, R4\nEXIT\nLDL R1, [R1]");
  CHECK(parallel.loads == 3);
  CHECK(parallel.bytes == 34);
  CHECK(parallel.widths == "2x128+1x16");
  CHECK(parallel.instructions == 7);
  CHECK(parallel.stores == "1x128");
  CHECK(parallel.spills == 1);
  CHECK(parallel.tensor == 1);

  const KernelReport copies = report_of(
      "LDGSTS.E.BYPASS.LTC128B.128 [R4], desc[UR6][R2.64]\nIADD3 R4, R4, 0x10, RZ\n"
      "LDGSTS.E.BYPASS.LTC128B.128 [R4], desc[UR6][R2.64+0x10]\nIADD3 R4, R4, R2, RZ\nEXIT");
  CHECK(copies.widths == "2x128");
}

TEST_CASE(
    "an address, a store and a new value need what was loaded; "
    "a jump or the end of the code ends the path") {
  for (const std::string second :
       {"LDG.E R8, desc[UR6][R4.64]", "LDG.E R8, desc[UR6][R2.64+R5]",
        "STG.E.128 desc[UR6][R2.64], R4", "STG.E.128 desc[UR6][R2.64], R2", "MOV R5, RZ",
        "DADD R8, R4, R10", "BRA 0x30", "EXIT"}) {
    CAPTURE(second);
    CHECK(report_of("LDG.E.64 R4, desc[UR6][R2.64]\n" + second +
                    "\nLDG.E R9, desc[UR6][R2.64+0x8]\nEXIT")
              .loads == 1);
  }
  for (const std::string second :
       {"STG.E desc[UR6][R2.64], R6", "MOV R6, R3", "@P0 EXIT", "LDS R6, [R3]", "BAR.SYNC 0x0",
        "IMAD.WIDE R6, R3, 0x4, R2", "MOV R40, R50"}) {
    CAPTURE(second);
    CHECK(report_of("LDG.E.64 R4, desc[UR6][R2.64]\n" + second +
                    "\nLDG.E R9, desc[UR6][R2.64+0x8]\nEXIT")
              .loads == 2);
  }
}

}  // namespace
}  // namespace alpa::sass_test
