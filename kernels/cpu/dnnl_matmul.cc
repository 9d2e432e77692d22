// kernels/cpu/dnnl_matmul.cc — products through oneDNN: divided into blocks that a team's threads
// take, each by the call that is fastest for it
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

Layout layout_of(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                 std::int64_t column_stride) {
  if (column_stride == 1 || columns == 1)
    return {'N', std::max(rows == 1 ? 1 : row_stride, columns)};
  return {'T', std::max(columns == 1 ? 1 : column_stride, rows)};
}

bool is_isa(std::string_view name) { return isa().name == name; }

/// Whether lines along k evict each other from the first cache, so that `copied_sgemm` multiplies
/// faster: they begin a multiple of 1 KiB apart, and oneDNN's sgemm reads them where they are.
bool evicts(const Layout& layout, std::int64_t least) {
  return layout.lead % 256 == 0 && layout.lead >= least;
}
bool right_evicts(const Layout& right) { return is_isa("avx2") && evicts(right, 512); }
bool left_evicts(const Layout& left) {
  return left.transposed == 'T' && evicts(left, is_isa("avx2") ? 256 : 2048);
}

/// Whether `copied_sgemm` multiplies such a block faster. With AVX2, oneDNN's sgemm reads operands
/// of few rows or columns where they are, at 30 to 80 % of the speed where their lines evict each
/// other (2.6.3 on an AMD EPYC). With AVX-512 it does so with distant lines of the left operand,
/// at 70 to 80 % (2.6.3 on an Intel Xeon with AMX).
bool prefers_copies(const Layout& left, const Layout& right, std::int64_t m, std::int64_t n,
                    std::int64_t k) {
  constexpr std::int64_t kFewest = 16, kManyLines = 1024;
  constexpr double kLeastPoints = 1 << 20;
  constexpr double kNoCopy = 0.0038;  // oneDNN's threshold with AVX2
  const auto points = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const double inverse = 1.0 / static_cast<double>(m) + 1.0 / static_cast<double>(n);
  const bool in_place = is_isa("avx512") ? k >= kManyLines : is_isa("avx2") && inverse >= kNoCopy;
  return in_place && std::min(m, n) >= kFewest && points >= kLeastPoints &&
         right.transposed == 'N' && (right_evicts(right) || left_evicts(left));
}

/// How `copied_sgemm` divides a product: rows of the left operand, columns of the right one, terms.
struct CopyBlocks {
  bool copies_left, copies_right;
  std::int64_t rows, columns, depth;

  static constexpr std::int64_t kPadding =
      16;  ///< behind a copied line, so that none evicts another
  std::int64_t left_lead() const { return rows + kPadding; }
  std::int64_t left_floats() const { return copies_left ? depth * left_lead() : 0; }
  std::int64_t right_lead() const { return columns + kPadding; }
  std::int64_t floats() const { return left_floats() + (copies_right ? depth * right_lead() : 0); }
};

CopyBlocks copy_blocks(const Layout& left, const Layout& right, std::int64_t n, std::int64_t k) {
  const bool copies_right = right_evicts(right);
  const std::int64_t side = copies_right ? 512 : 256;
  return {left_evicts(left), copies_right, side, copies_right ? side : n, std::min(k, side)};
}

/// `height` lines of `width` floats: in place, or copied to `copy`.
Operand lines_of(const Operand& x, std::int64_t height, std::int64_t width, float* copy,
                 std::int64_t copy_lead, bool copies) {
  if (!copies) return x;
  for (std::int64_t line = 0; line < height; ++line)
    std::copy_n(x.data + line * x.layout.lead, width, copy + line * copy_lead);
  return {copy, {x.layout.transposed, copy_lead}};
}

/// Element (row, column) of a matrix, and what follows.
Operand from(const Operand& x, std::int64_t row, std::int64_t column) {
  const bool transposed = x.layout.transposed == 'T';
  return {x.data + (transposed ? column * x.layout.lead + row : row * x.layout.lead + column),
          x.layout};
}

/// c = a b, operands whose lines evict each other being copied, block by block, to `scratch`.
void copied_sgemm(const Operand& a, const Operand& b, std::int64_t m, std::int64_t n,
                  std::int64_t k, float* c, std::int64_t c_lead, float* scratch) {
  const CopyBlocks by = copy_blocks(a.layout, b.layout, n, k);
  float* const columns = scratch + by.left_floats();
  for (std::int64_t j = 0; j < n; j += by.columns)
    for (std::int64_t p = 0; p < k; p += by.depth) {
      const std::int64_t width = std::min(by.columns, n - j), depth = std::min(by.depth, k - p);
      const Operand right =
          lines_of(from(b, p, j), depth, width, columns, by.right_lead(), by.copies_right);
      for (std::int64_t i = 0; i < m; i += by.rows) {
        const std::int64_t height = std::min(by.rows, m - i);
        const Operand left =
            lines_of(from(a, i, p), depth, height, scratch, by.left_lead(), by.copies_left);
        call_sgemm(left, right, height, width, depth, p > 0 ? 1.0f : 0.0f, c + i * c_lead + j,
                   c_lead);
      }
    }
}

/// Layouts of both operands.
struct Layouts {
  Layout left, right;
  explicit Layouts(const kernels::MatmulShape& s)
      : left(layout_of(s.m, s.k, s.a_m, s.a_k)), right(layout_of(s.k, s.n, s.b_k, s.b_n)) {}
};

/// A product as rows × columns of blocks.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};

/// The longer side is shared between the threads; large blocks are halved, so that a
/// thread that comes late leaves work to the others. Every block packs its operands anew,
/// which small ones do not repay. `dense`: rows are shared where they suffice, as oneDNN has faster
/// products for matrices without gaps between rows.
Grid grid_of(const kernels::MatmulShape& s, int threads, bool dense) {
  constexpr double kMinFlopsPerThread = 1 << 20;
  constexpr std::int64_t kLeastSide = 512, kLeastRows = 64;
  const double flops =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const auto parts =
      static_cast<std::int64_t>(std::clamp(flops / kMinFlopsPerThread, 1.0, 1.0 * threads));
  dense = dense && s.m >= parts * kLeastRows;
  Grid grid = s.n >= s.m && !dense ? Grid{1, parts} : Grid{parts, 1};
  while (parts > 1 && 2 * grid.rows * grid.columns <= threads * ThreadTeam::kSlicesPerThread) {
    const std::int64_t height = s.m / grid.rows, width = dense ? 0 : s.n / grid.columns;
    if (std::max(height, width) < 2 * kLeastSide) break;
    (height >= width ? grid.rows : grid.columns) *= 2;
  }
  return grid;
}

struct Interval {
  std::int64_t begin, end;
  std::int64_t length() const { return end - begin; }
};
/// Part `i` of `parts` of `length` elements; parts begin at whole vectors and may be empty.
constexpr std::int64_t kUnit = 16;
Interval part_of(std::int64_t length, std::int64_t i, std::int64_t parts) {
  const std::int64_t units = (length + kUnit - 1) / kUnit;
  return {units * i / parts * kUnit, std::min(units * (i + 1) / parts * kUnit, length)};
}

/// Matrices of the batch, or rows and columns of one: what a thread multiplies at a time.
struct Block {
  std::int64_t matrices = 1, rows, columns;
  kernels::BatchOffsets at = {};  ///< of the first elements
};

/// Fewer products than threads: each is divided.
void divide(std::vector<Block>& blocks, const kernels::MatmulShape& s,
            const kernels::BatchOffsets& at, int threads, bool dense) {
  const Grid grid = grid_of(s, threads, dense);
  const bool by_columns =
      grid.columns >= grid.rows;  // neighbours in a thread's share have columns in common
  for (std::int64_t i = 0; i < grid.rows * grid.columns; ++i) {
    const Interval rows = part_of(s.m, by_columns ? i % grid.rows : i / grid.columns, grid.rows);
    const Interval columns =
        part_of(s.n, by_columns ? i / grid.rows : i % grid.columns, grid.columns);
    if (rows.length() > 0 && columns.length() > 0)
      blocks.push_back({1,
                        rows.length(),
                        columns.length(),
                        {at.a + rows.begin * s.a_m, at.b + columns.begin * s.b_n,
                         at.c + rows.begin * s.c_m + columns.begin}});
  }
}

/// Of many products, a block has up to `most` that are neighbours in the innermost dimension.
std::vector<Block> blocks_of(const kernels::MatmulShape& s, int threads, std::int64_t most,
                             bool dense) {
  std::vector<Block> blocks;
  const std::int64_t batches = s.batches(), inner = s.batch.empty() ? 1 : s.batch.back().extent;
  for (std::int64_t i = 0, next; i < batches; i = next) {
    const kernels::BatchOffsets at = kernels::batch_offsets(s.batch, i);
    next = batches < threads ? i + 1 : std::min(i + most, (i / inner + 1) * inner);
    if (batches < threads)
      divide(blocks, s, at, threads, dense);
    else
      blocks.push_back({next - i, s.m, s.n, at});
  }
  return blocks;
}

/// Products by oneDNN's matmul primitive: one primitive for all blocks of an extent. Of a left
/// operand stored by columns, a part of the rows is copied first: oneDNN is twice as fast without
/// gaps between lines.
class ByPrimitive {
 public:
  /// Not usable where oneDNN has no fast primitive for one of the blocks.
  ByPrimitive(const kernels::MatmulShape& shape, ProductTypes types, int threads)
      : shape_(shape),
        types_(types),
        blocks_(blocks_of(shape, threads, matrices_at_once(shape, threads), true)) {
    for (const Block& block : blocks_) {
      kinds_of_blocks_.push_back(kind_of(block, threads));
      if (!usable()) return;
    }
  }

  bool usable() const { return kinds_.empty() || kinds_.back().primitive.usable(); }
  /// Of each thread.
  std::int64_t scratch_bytes() const {
    std::int64_t most = 0;
    for (const Kind& kind : kinds_)
      most = std::max(most, copy_bytes(kind) + kind.primitive.scratch_bytes());
    return aligned(most);
  }
  std::int64_t blocks() const { return static_cast<std::int64_t>(blocks_.size()); }

  void run(std::int64_t i, int thread, std::byte* c, const std::byte* a, const std::byte* b,
           std::byte* scratch) const {
    const auto result = static_cast<std::int64_t>(size_of(types_.result));
    const Block& block = blocks_[i];
    const Kind& kind = kinds_[kinds_of_blocks_[i]];
    const std::byte* left = a + block.at.a * operand_bytes();
    if (kind.copies_left) left = copied_left(left, block.rows, scratch);
    kind.of_thread[thread]->run({left, b + block.at.b * operand_bytes(), c + block.at.c * result,
                                 scratch + copy_bytes(kind)});
  }

 private:
  struct Kind {
    std::int64_t matrices, rows, columns;
    bool copies_left;
    Primitive primitive = {};
    std::vector<std::unique_ptr<Execution>> of_thread = {};
  };

  static std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
  std::int64_t operand_bytes() const { return static_cast<std::int64_t>(size_of(types_.operands)); }
  std::int64_t left_bytes(std::int64_t rows) const { return rows * shape_.k * operand_bytes(); }
  std::int64_t copy_bytes(const Kind& kind) const {
    return kind.copies_left ? aligned(left_bytes(kind.rows)) : 0;
  }

  bool copies_left(const Block& block) const {
    constexpr std::int64_t kMostBytes = 4 << 20;
    return block.matrices == 1 && shape_.a_m == 1 && shape_.a_k > block.rows &&
           left_bytes(block.rows) <= kMostBytes;
  }

  /// `rows` rows of the left operand, stored by columns, without gaps.
  std::byte* copied_left(const std::byte* from, std::int64_t rows, std::byte* to) const {
    const std::int64_t line = rows * operand_bytes(), lead = shape_.a_k * operand_bytes();
    for (std::int64_t k = 0; k < shape_.k; ++k) std::copy_n(from + k * lead, line, to + k * line);
    return to;
  }

  static std::int64_t matrices_at_once(const kernels::MatmulShape& s, int threads) {
    const std::int64_t inner = s.batch.empty() ? 1 : s.batch.back().extent;
    return s.batches() / inner >= threads ? inner : (inner + threads - 1) / threads;
  }

  std::size_t kind_of(const Block& block, int threads) {
    for (std::size_t i = 0; i < kinds_.size(); ++i)
      if (kinds_[i].matrices == block.matrices && kinds_[i].rows == block.rows &&
          kinds_[i].columns == block.columns)
        return i;
    Kind kind{block.matrices, block.rows, block.columns, copies_left(block)};
    kernels::MatmulShape part = shape_;
    part.m = block.rows, part.n = block.columns;
    if (kind.copies_left) part.a_k = block.rows;
    kind.primitive =
        matmul_primitive(part, shape_.batch.empty() ? kernels::BatchDim{} : shape_.batch.back(),
                         block.matrices, types_);
    for (int t = 0; t < threads && kind.primitive.usable(); ++t)
      kind.of_thread.push_back(std::make_unique<Execution>(kind.primitive));
    kinds_.push_back(std::move(kind));
    return kinds_.size() - 1;
  }

  kernels::MatmulShape shape_;
  ProductTypes types_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> kinds_of_blocks_;
  std::vector<Kind> kinds_;
};

/// Products in f32 by oneDNN's sgemm.
class BySgemm {
 public:
  BySgemm(const kernels::MatmulShape& shape, int threads)
      : shape_(shape), of_(shape), blocks_(blocks_of(shape, threads, 1, false)) {}

  /// Of each thread.
  std::int64_t scratch_bytes() const {
    std::int64_t most = 0;
    for (const Block& block : blocks_)
      if (is_copied(block))
        most = std::max(most, copy_blocks(of_.left, of_.right, block.columns, shape_.k).floats());
    return most * static_cast<std::int64_t>(sizeof(float));
  }
  std::int64_t blocks() const { return static_cast<std::int64_t>(blocks_.size()); }

  void run(std::int64_t i, float* c, const float* a, const float* b, std::byte* scratch) const {
    const Block& block = blocks_[i];
    const Operand left{a + block.at.a, of_.left}, right{b + block.at.b, of_.right};
    const std::int64_t c_lead = std::max(shape_.c_m, shape_.n);
    if (is_copied(block))
      copied_sgemm(left, right, block.rows, block.columns, shape_.k, c + block.at.c, c_lead,
                   reinterpret_cast<float*>(scratch));
    else
      call_sgemm(left, right, block.rows, block.columns, shape_.k, 0.0f, c + block.at.c, c_lead);
  }

 private:
  bool is_copied(const Block& block) const {
    return prefers_copies(of_.left, of_.right, block.rows, block.columns, shape_.k);
  }

  kernels::MatmulShape shape_;
  Layouts of_;
  std::vector<Block> blocks_;
};

/// Products in f32 of few results and many terms, as gradients of narrow layers: a task takes some
/// of the terms and makes sums of its own. So operands are read once, while blocks of the result
/// would each read one of them whole. Sums of tasks, which depend on the shape alone, are added in
/// their order.
class ByTerms {
 public:
  static bool suits(const kernels::MatmulShape& s) {
    const Layouts of(s);
    return s.batches() == 1 && std::min(s.m, s.n) >= kUnit && parts_of(s) >= kFewest &&
           !prefers_copies(of.left, of.right, s.m, s.n, s.k);
  }

  explicit ByTerms(const kernels::MatmulShape& shape) : shape_(shape), parts_(parts_of(shape)) {}

  std::int64_t workspace_bytes() const {
    return parts_ * results() * static_cast<std::int64_t>(sizeof(float));
  }

  void run(float* c, const float* a, const float* b, float* sums, int threads,
           ThreadTeam& team) const {
    const Layouts of(shape_);
    run_tasks(parts_, threads, team, [&](std::int64_t i, int) {
      const Interval terms = part_of(shape_.k, i, parts_);
      call_sgemm(from({a, of.left}, 0, terms.begin), from({b, of.right}, terms.begin, 0), shape_.m,
                 shape_.n, terms.length(), 0.0f, sums + i * results(), shape_.n);
    });
    team.for_each(shape_.m, std::max<std::int64_t>(1, kGrain / shape_.n),
                  [&](std::int64_t row) { add_row(c + row * shape_.c_m, sums + row * shape_.n); });
  }

 private:
  static constexpr std::int64_t kFewest = 4, kMost = 16, kGrain = 1024;

  /// A task reads at least eight times as much as it writes.
  static std::int64_t parts_of(const kernels::MatmulShape& s) {
    return std::min(kMost, s.k / (8 * std::max(s.m, s.n)));
  }
  std::int64_t results() const { return shape_.m * shape_.n; }

  void add_row(float* c, const float* sums) const {
    std::copy_n(sums, shape_.n, c);
    for (std::int64_t part = 1; part < parts_; ++part)
      for (std::int64_t j = 0; j < shape_.n; ++j) c[j] += sums[part * results() + j];
  }

  kernels::MatmulShape shape_;
  std::int64_t parts_;
};

/// The primitive wins for many small matrices; it reads a wide B badly and is poor at large ones.
/// It also wins 1.2 to 1.35 times for few rows times a transposed B (input gradients of a split
/// batch), but only as a whole, so not where threads could share it.
bool prefers_primitive(const kernels::MatmulShape& s, int threads) {
  constexpr std::int64_t kFewestRows = 32, kMostRows = 256;
  if (s.batches() > 1) return s.n <= 512 && static_cast<double>(s.m) * s.n * s.k <= 1 << 27;
  return threads == 1 && s.b_k == 1 && s.b_n > 1 && s.m >= kFewestRows && s.m <= kMostRows;
}

}  // namespace

bool has_matrix_unit(DType operands) {
  if (operands != bf16 || !is_isa("avx512")) return false;
  constexpr std::int64_t kSide = 64;
  static const bool has =
      matmul_primitive({.m = kSide,
                        .n = kSide,
                        .k = kSide,
                        .a_m = kSide,
                        .a_k = 1,
                        .b_k = kSide,
                        .b_n = 1,
                        .c_m = kSide,
                        .batch = {}},
                       {1, kSide * kSide, kSide * kSide, kSide * kSide}, 1, {bf16, f32})
          .uses_matrix_unit();
  return has;
}

struct DnnlMatmul::Impl {
  int threads;
  std::optional<ByPrimitive> primitive;
  std::optional<BySgemm> sgemm;
  std::optional<ByTerms> terms;
  std::int64_t scratch = 0;  ///< bytes of each thread
};

DnnlMatmul::DnnlMatmul(const kernels::MatmulShape& shape, ProductTypes types, int threads)
    : impl_(std::make_unique<Impl>(Impl{threads, {}, {}, {}, 0})) {
  const bool by_unit = types.operands != f32;
  if (!by_unit && ByTerms::suits(shape)) {
    impl_->terms.emplace(shape);
    return;
  }
  if (by_unit || prefers_primitive(shape, threads)) {
    ByPrimitive product(shape, types, threads);
    if (product.usable()) impl_->primitive.emplace(std::move(product));
  }
  if (impl_->primitive)
    impl_->scratch = impl_->primitive->scratch_bytes();
  else if (!by_unit)
    impl_->scratch = impl_->sgemm.emplace(shape, threads).scratch_bytes();
}

bool DnnlMatmul::usable() const { return impl_->primitive || impl_->sgemm || impl_->terms; }

DnnlMatmul::~DnnlMatmul() = default;

std::int64_t DnnlMatmul::workspace_bytes() const {
  return impl_->terms ? impl_->terms->workspace_bytes() : impl_->threads * impl_->scratch;
}

void DnnlMatmul::run(std::byte* c, const std::byte* a, const std::byte* b, std::byte* workspace,
                     ThreadTeam& team) const {
  const Impl& impl = *impl_;
  if (impl.terms)
    return impl.terms->run(reinterpret_cast<float*>(c), reinterpret_cast<const float*>(a),
                           reinterpret_cast<const float*>(b), reinterpret_cast<float*>(workspace),
                           impl.threads, team);
  const std::int64_t blocks = impl.primitive ? impl.primitive->blocks() : impl.sgemm->blocks();
  run_tasks(blocks, impl.threads, team, [&](std::int64_t i, int thread) {
    std::byte* const scratch = impl.scratch > 0 ? workspace + thread * impl.scratch : nullptr;
    if (impl.primitive)
      impl.primitive->run(i, thread, c, a, b, scratch);
    else
      impl.sgemm->run(i, reinterpret_cast<float*>(c), reinterpret_cast<const float*>(a),
                      reinterpret_cast<const float*>(b), scratch);
  });
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Panel<float> a, Panel<float> b, bool add,
          float* c, std::int64_t c_lead, bool fixed) {
  const auto matrix = [](const Panel<float>& p) {
    return p.transposed ? Matrix{p.data, 1, p.lead} : Matrix{p.data, p.lead, 1};
  };
  if (fixed) return ordered_product(m, n, k, 1, matrix(a), matrix(b), add, c, c_lead);
  const SingleThread single;
  check_dnnl(dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data,
                        a.lead, b.data, b.lead, add ? 1.0F : 0.0F, c, c_lead),
             "sgemm");
}

}  // namespace alpa::cpu
