// Matrix products as a program's einsums load them, against cuBLASLt called directly: with the
// first algorithm that it proposes, and with the fastest of 64, any workspace and reduction
// allowed. Products with an epilogue run jointly, apart, and as a program chooses; their
// yardstick is the product alone.
//   bench_cuda_matmul --help
// One JSON object per line: operations per second, and the ratios of the yardsticks' times to ours
// (above 1: ours is faster).
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "arguments.h"
#include "cuda_call.h"
#include "report.h"
#include "src/base/infinity.h"

using namespace alpa;

namespace {

using bench::Queue;
using bench::random_tensor;
using cuda::check;

constexpr std::int64_t kWorkspaceBytes = std::int64_t{64} << 20;
constexpr int kCandidates = 64;
/// A product on its own is cuBLASLt's; choosing between two forms costs no more than
/// they differ from run to run.
constexpr double kAimOfProducts = 0.95, kAimOfChoice = 0.97;

/// Products of n × n matrices are timed several in a row, so that the gap
/// before the first one is little.
struct Sizes {
  std::int64_t n = 2048;
  int rounds = 15, runs = 10;

  double timed(const Queue& run) const { return bench::timed(run, 32 * n * n, runs); }
};

/// cuBLASLt's product of n × n matrices, column-major.
class Direct {
 public:
  Direct(const Sizes& sizes, DType dtype, bool tf32, cublasOperation_t a, cublasOperation_t b)
      : sizes_(sizes), workspace_(cuda::allocate_device(kWorkspaceBytes)) {
    const std::int64_t n = sizes.n;
    for (std::byte*& matrix : matrices_) matrix = random_tensor({dtype, {n, n}});
    cublasLtHandle_t lt = nullptr;
    check(cublasLtCreate(&lt), "cublasLtCreate");
    lt_.reset(lt);
    cublasLtMatmulDesc_t matmul = nullptr;
    check(cublasLtMatmulDescCreate(
              &matmul, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    matmul_.reset(matmul);
    check(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a),
          "TRANSA");
    check(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b),
          "TRANSB");
    cublasLtMatrixLayout_t layout = nullptr;
    const auto size = static_cast<std::uint64_t>(n);
    check(cublasLtMatrixLayoutCreate(&layout, dtype == bf16 ? CUDA_R_16BF : CUDA_R_32F, size, size,
                                     n),
          "cublasLtMatrixLayoutCreate");
    layout_.reset(layout);
    propose();
    std::vector<double> seconds;
    for (int i = 0; i < found_; ++i) seconds.push_back(median_of_five(i));
    best_ = static_cast<int>(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
  }

  void run_first(cuda::Stream stream) const { run(0, stream); }
  void run_best(cuda::Stream stream) const { run(best_, stream); }

 private:
  void propose() {
    cublasLtMatmulPreference_t created = nullptr;
    check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
    const cuda::LtPreference preference(created);
    check(cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &kWorkspaceBytes, sizeof kWorkspaceBytes),
          "MAX_WORKSPACE_BYTES");
    check(cublasLtMatmulAlgoGetHeuristic(lt_.get(), matmul_.get(), layout_.get(), layout_.get(),
                                         layout_.get(), layout_.get(), created, kCandidates,
                                         results_, &found_),
          "cublasLtMatmulAlgoGetHeuristic");
    require(found_ > 0, "cublasLtMatmulAlgoGetHeuristic: no algorithm");
  }

  void run(int i, cuda::Stream stream) const {
    const float one = 1, zero = 0;
    check(
        cublasLtMatmul(lt_.get(), matmul_.get(), &one, matrices_[0], layout_.get(), matrices_[1],
                       layout_.get(), &zero, matrices_[2], layout_.get(), matrices_[2],
                       layout_.get(), &results_[i].algo, workspace_.get(), kWorkspaceBytes, stream),
        "cublasLtMatmul");
  }

  /// Infinite if the algorithm fails when it is tried.
  double median_of_five(int i) const {
    try {
      run(i, nullptr);  // loads the kernel
    } catch (const Error& error) {
      fmt::print(stderr, "algorithm {}: {}\n", i, error.what());
      return kInfinity;
    }
    std::vector<double> rounds;
    for (int round = 0; round < 5; ++round)
      rounds.push_back(sizes_.timed([&](cuda::Stream stream) { run(i, stream); }));
    return median(rounds);
  }

  Sizes sizes_;
  cuda::DeviceBlock workspace_;
  std::byte* matrices_[3] = {};
  cuda::LtHandle lt_;
  cuda::LtMatmul matmul_;
  cuda::LtLayout layout_;
  cublasLtMatmulHeuristicResult_t results_[kCandidates] = {};
  int found_ = 0, best_ = 0;
};

/// A product of ours and its yardsticks, all timed in every round.
struct Measured {
  std::string name;
  std::map<std::string, Queue>
      runs;  ///< "ours" (without epilogue), or "chosen", "joint" and "apart"; "first", "best"
  std::map<std::string, std::vector<double>> seconds = {};
};

struct Kind {
  const char* name;
  DType dtype;
  bool tf32;
};

/// A product of a dense layer, n × n × n, maybe with what follows it.
struct Row {
  const char *what, *equation, *epilogue;
  cublasOperation_t a, b;
  std::vector<TensorType> more = {};
};

std::vector<Row> rows_of(std::int64_t n, DType dtype) {
  const TensorType matrix{dtype, {n, n}}, vector{dtype, {n}}, bits{u8, {n, n / 8}};
  return {{"forward", "mk,kn->mn", "", CUBLAS_OP_N, CUBLAS_OP_N},
          {"dx", "mn,kn->mk", "", CUBLAS_OP_T, CUBLAS_OP_N},
          {"dw", "mk,mn->kn", "", CUBLAS_OP_N, CUBLAS_OP_T},
          {"forward", "mk,kn->mn", "bias", CUBLAS_OP_N, CUBLAS_OP_N, {vector}},
          {"forward", "mk,kn->mn", "bias relu keep", CUBLAS_OP_N, CUBLAS_OP_N, {vector}},
          {"forward", "mk,kn->mn", "bias gelu keep", CUBLAS_OP_N, CUBLAS_OP_N, {vector}},
          {"dx", "mn,kn->mk", "relu gradient", CUBLAS_OP_T, CUBLAS_OP_N, {bits}},
          {"dx", "mn,kn->mk", "gelu gradient", CUBLAS_OP_T, CUBLAS_OP_N, {matrix}},
          {"dw", "mk,mn->kn", "sums1", CUBLAS_OP_N, CUBLAS_OP_T}};
}

/// The same node in every form that the card has. Two that run are at least there: apart and
/// chosen.
std::map<std::string, Queue> forms_of(const Row& row, const TensorType& matrix, cuda::Gpu card) {
  std::vector<TensorType> operands{matrix, matrix};
  operands.insert(operands.end(), row.more.begin(), row.more.end());
  const Attributes attributes{{"equation", row.equation}, {"epilogue", row.epilogue}};
  std::map<std::string, Queue> runs;
  using Form = cuda::EpilogueForm;
  for (const auto& [name, form] :
       {std::pair{"chosen", Form::automatic}, {"joint", Form::joint}, {"apart", Form::apart}}) {
    card.epilogues = form;
    try {
      runs[name] = bench::loaded(ops::einsum_epilogue, attributes, operands, card);
    } catch (const Error& error) {
      if (form != Form::joint) throw;
      fmt::print(stderr, "{}\n", error.what());  // the card has no such product
    }
  }
  return runs;
}

void add_layer(std::vector<Measured>& all, const Sizes& sizes, const Kind& kind,
               const cuda::Gpu& card) {
  const std::int64_t n = sizes.n;
  const TensorType matrix{kind.dtype, {n, n}};
  std::map<std::string, std::shared_ptr<Direct>> directs;  // by `what`
  for (const Row& row : rows_of(n, kind.dtype)) {
    const bool plain = *row.epilogue == '\0';
    std::shared_ptr<Direct>& direct = directs[row.what];
    if (!direct) direct = std::make_shared<Direct>(sizes, kind.dtype, kind.tf32, row.a, row.b);
    Measured measured{
        fmt::format("{} {} {}{}{}", n, kind.name, row.what, plain ? "" : " + ", row.epilogue), {}};
    if (plain)
      measured.runs["ours"] =
          bench::loaded(ops::einsum, {{"equation", row.equation}}, {matrix, matrix}, card);
    else
      measured.runs = forms_of(row, matrix, card);
    measured.runs["first"] = [direct](cuda::Stream stream) { direct->run_first(stream); };
    measured.runs["best"] = [direct](cuda::Stream stream) { direct->run_best(stream); };
    all.push_back(std::move(measured));
  }
}

/// Median over rounds of `yardstick`'s seconds over `run`'s.
double ratio(const Measured& m, const std::string& yardstick, const std::string& run) {
  const auto found = m.seconds.find(run);
  if (found == m.seconds.end()) return std::nan("");
  std::vector<double> ratios;
  for (std::size_t i = 0; i < found->second.size(); ++i)
    ratios.push_back(m.seconds.at(yardstick)[i] / found->second[i]);
  return median(ratios);
}

void print(const Measured& m, std::int64_t size) {
  const double n = static_cast<double>(size);
  const std::string own = m.runs.contains("ours") ? "ours" : "chosen";
  std::vector<bench::Figure> figures{
      {"teraflops", 2 * n * n * n / median(m.seconds.at(own)) * 1e-12},
      {"ratio_to_first", ratio(m, "first", own)},
      {"ratio_to_best", ratio(m, "best", own)}};
  if (own == "ours") return bench::print_row(m.name, figures, {"ratio_to_best", kAimOfProducts});
  figures.push_back({"joint_ratio_to_best", ratio(m, "best", "joint")});
  figures.push_back({"apart_ratio_to_best", ratio(m, "best", "apart")});
  const double joint = ratio(m, "chosen", "joint"), apart = ratio(m, "chosen", "apart");
  figures.push_back({"chosen_ratio_to_faster_form", 1 / (joint > apart ? joint : apart)});
  bench::print_row(m.name, figures, {"chosen_ratio_to_faster_form", kAimOfChoice});
}

void measure(const Sizes& sizes) {
  if (!bench::have_card()) return;
  cuda::Matmuls exact({.tf32 = false, .measured = true, .cached = false}),
      rounded({.tf32 = true, .measured = true, .cached = false});
  for (const Kind& kind :
       {Kind{"bf16", bf16, false}, Kind{"tf32", f32, true}, Kind{"f32", f32, false}}) {
    std::vector<Measured> all;
    add_layer(all, sizes, kind, bench::first_card(kind.tf32 ? rounded : exact));
    for (int round = -1; round < sizes.rounds; ++round)
      for (Measured& m : all)
        for (const auto& [name, run] : m.runs) {
          const double seconds = sizes.timed(run);
          if (round >= 0) m.seconds[name].push_back(seconds);
        }
    for (const Measured& m : all) print(m, sizes.n);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return bench::run(argc, argv, "Matrix products against cuBLASLt called directly.",
                    {cli::whole("--size", &sizes.n,
                                "Rows and columns of every matrix, a multiple of 128", 128, 32768),
                     cli::whole("--rounds", &sizes.rounds, "Counted rounds", 1, 1000),
                     cli::whole("--runs", &sizes.runs, "Products in a row", 1, 1000)},
                    [&] { measure(sizes); });
}
