// kernels/cpu/dnnl_matmul.cc — calls of oneDNN. The library would run on its own OpenMP threads,
// which keep spinning on cores that the device's team needs next, and which ThreadSanitizer cannot
// analyse. So every call is single-threaded and the team shares the work.
#include <dnnl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <string_view>

#include "alpa/base/error.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul.h"
#include "src/base/thread_team.h"

// From the OpenMP runtime that oneDNN uses; absent if oneDNN was built for another runtime.
extern "C" {
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) void omp_set_num_threads(int);
}

namespace alpa::cpu {
namespace {

/// Makes oneDNN use the calling thread only, for the lifetime of this object.
class SingleThread {
 public:
  SingleThread() : saved_(omp_get_max_threads != nullptr ? omp_get_max_threads() : 1) { set(1); }
  ~SingleThread() { set(saved_); }
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  static void set(int threads) {
    if (omp_set_num_threads != nullptr) omp_set_num_threads(threads);
  }
  int saved_;
};

void check(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  invariant(status == dnnl_success, "oneDNN: {} failed with status {}", what,
            static_cast<int>(status));
}

/// Addresses that oneDNN maps while it generates code, at most. It does not check whether it got
/// them: where the process may not map as many (`ulimit -v`), it would end by a signal.
constexpr std::size_t kCodeRoom = 32 << 20;

/// Throws std::bad_alloc unless oneDNN has room for generating code.
void require_code_room() {
  void* room = ::mmap(nullptr, kCodeRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, kCodeRoom);
}

/// The first product of a process generates the code of all. Returns true.
bool generate_sgemm() {
  require_code_room();
  constexpr std::int64_t kSide = 64;
  static std::array<float, kSide * kSide> operand{}, result{};
  check(dnnl_sgemm('N', 'T', kSide, kSide, kSide, 1.0f, operand.data(), kSide, operand.data(),
                   kSide, 0.0f, result.data(), kSide),
        "sgemm");
  return true;
}

/// A two-dimensional operand as sgemm wants it: transposed or not, and the distance of its lines.
struct Layout {
  char transposed = 'N';
  std::int64_t lead = 1;
};
Layout layout_of(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                 std::int64_t column_stride) {
  if (column_stride == 1 || columns == 1)
    return {'N', std::max(rows == 1 ? 1 : row_stride, columns)};
  return {'T', std::max(columns == 1 ? 1 : column_stride, rows)};
}

/// A matrix in memory.
struct Operand {
  const float* data;
  Layout layout;
};

void call_sgemm(const Operand& a, const Operand& b, std::int64_t m, std::int64_t n, std::int64_t k,
                float beta, float* c, std::int64_t c_lead) {
  [[maybe_unused]] static const bool generated = generate_sgemm();
  check(dnnl_sgemm(a.layout.transposed, b.layout.transposed, m, n, k, 1.0f, a.data, a.layout.lead,
                   b.data, b.layout.lead, beta, c, c_lead),
        "sgemm");
}

/// Whether lines along k evict each other from the first cache: they begin a multiple of 1 KiB
/// apart.
bool evicts(const Layout& layout, std::int64_t least) {
  return layout.lead % 256 == 0 && layout.lead >= least;
}
bool right_evicts(const Layout& right) { return evicts(right, 512); }
bool left_evicts(const Layout& left) { return left.transposed == 'T' && evicts(left, 256); }

/// Whether `copied_sgemm` multiplies such a block faster. With AVX2, oneDNN's sgemm reads operands
/// of few rows or columns where they are, at 30 to 80 % of the speed where their lines evict each
/// other (2.6.3 on an AMD EPYC; with AVX-512 it looks at the distance itself).
bool prefers_copies(const Layout& left, const Layout& right, std::int64_t m, std::int64_t n,
                    std::int64_t k) {
  constexpr std::int64_t kFewest = 16;
  constexpr double kLeastPoints = 1 << 20;
  constexpr double kNoCopy = 0.0038;  // oneDNN's threshold
  const auto points = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const double inverse = 1.0 / static_cast<double>(m) + 1.0 / static_cast<double>(n);
  return std::string_view(isa().name) == "avx2" && std::min(m, n) >= kFewest &&
         points >= kLeastPoints && inverse >= kNoCopy && right.transposed == 'N' &&
         (right_evicts(right) || left_evicts(left));
}

/// A product in blocks of kBlock lines and columns, and the distance of a copied block's lines.
constexpr std::int64_t kBlock = 512, kCopyLead = kBlock + 16;

/// `height` lines of `width` floats: in place, or copied to `copy`.
Operand lines_of(const Operand& x, std::int64_t height, std::int64_t width, float* copy,
                 bool copies) {
  if (!copies) return x;
  for (std::int64_t line = 0; line < height; ++line)
    std::copy_n(x.data + line * x.layout.lead, width, copy + line * kCopyLead);
  return {copy, {x.layout.transposed, kCopyLead}};
}

/// Element (row, column) of a matrix, and what follows.
Operand from(const Operand& x, std::int64_t row, std::int64_t column) {
  const bool transposed = x.layout.transposed == 'T';
  return {x.data + (transposed ? column * x.layout.lead + row : row * x.layout.lead + column),
          x.layout};
}

std::int64_t copy_floats(std::int64_t k) { return 2 * std::min(k, kBlock) * kCopyLead; }

/// c = a b, operands whose lines evict each other being copied, block by block, to `scratch` of
/// `copy_floats`.
void copied_sgemm(const Operand& a, const Operand& b, std::int64_t m, std::int64_t n,
                  std::int64_t k, float* c, std::int64_t c_lead, float* scratch) {
  float* const columns = scratch + copy_floats(k) / 2;
  for (std::int64_t j = 0; j < n; j += kBlock)
    for (std::int64_t p = 0; p < k; p += kBlock) {
      const std::int64_t width = std::min(kBlock, n - j), depth = std::min(kBlock, k - p);
      const Operand right = lines_of(from(b, p, j), depth, width, columns, right_evicts(b.layout));
      for (std::int64_t i = 0; i < m; i += kBlock) {
        const std::int64_t height = std::min(kBlock, m - i);
        const Operand left = lines_of(from(a, i, p), depth, height, scratch, left_evicts(a.layout));
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

/// A block of m rows and n columns. `copies`: scratch of `copied_sgemm`, or null.
void sgemm(const kernels::MatmulShape& s, std::int64_t m, std::int64_t n, float* c, const float* a,
           const float* b, std::byte* copies) {
  const Layouts of(s);
  const std::int64_t c_lead = std::max(s.c_m, s.n);
  if (copies != nullptr && prefers_copies(of.left, of.right, m, n, s.k))
    copied_sgemm({a, of.left}, {b, of.right}, m, n, s.k, c, c_lead,
                 reinterpret_cast<float*>(copies));
  else
    call_sgemm({a, of.left}, {b, of.right}, m, n, s.k, 0.0f, c, c_lead);
}

/// A product as rows × columns of blocks.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};

/// The longer side is shared between the threads; large blocks are halved, so that a
/// thread that comes late leaves work to the others. Every block packs its operands anew,
/// which small ones do not repay.
Grid grid_of(const kernels::MatmulShape& s, int threads) {
  constexpr double kMinFlopsPerThread = 1 << 20;
  constexpr std::int64_t kLeastSide = 512;
  const double flops =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const auto parts =
      static_cast<std::int64_t>(std::clamp(flops / kMinFlopsPerThread, 1.0, 1.0 * threads));
  Grid grid = s.n >= s.m ? Grid{1, parts} : Grid{parts, 1};
  while (parts > 1 && 2 * grid.rows * grid.columns <= threads * ThreadTeam::kSlicesPerThread) {
    const std::int64_t height = s.m / grid.rows, width = s.n / grid.columns;
    if (std::max(height, width) < 2 * kLeastSide) break;
    (height >= width ? grid.rows : grid.columns) *= 2;
  }
  return grid;
}

struct Part {
  std::int64_t begin, end;
};
/// Part `i` of `parts` of `length` elements; parts begin at whole vectors and may be empty.
constexpr std::int64_t kUnit = 16;
Part part_of(std::int64_t length, std::int64_t i, std::int64_t parts) {
  const std::int64_t units = (length + kUnit - 1) / kUnit;
  return {units * i / parts * kUnit, std::min(units * (i + 1) / parts * kUnit, length)};
}

/// Bytes of copies that each of `threads` needs for a product of this shape.
std::int64_t copy_bytes(const kernels::MatmulShape& s, int threads) {
  const Layouts of(s);
  const Grid grid = s.batches() < threads ? grid_of(s, threads) : Grid{};
  const auto largest = [](std::int64_t length, std::int64_t parts) {
    const std::int64_t units = (length + kUnit - 1) / kUnit;
    return std::min(length, (units + parts - 1) / parts * kUnit);
  };
  const std::int64_t m = largest(s.m, grid.rows), n = largest(s.n, grid.columns);
  return prefers_copies(of.left, of.right, m, n, s.k)
             ? copy_floats(s.k) * static_cast<std::int64_t>(sizeof(float))
             : 0;
}

/// Calls body(task, thread) for all tasks. A slice owns the scratch of a thread, not tasks: any
/// running thread takes them.
template <class Body>
void run_tasks(std::int64_t tasks, int threads, ThreadTeam& team, const Body& body) {
  std::atomic<std::int64_t> next{0};
  team.parallel_for(
      std::min<std::int64_t>(threads, tasks), 1, [&](std::int64_t begin, std::int64_t end) {
        const SingleThread single;
        for (std::int64_t thread = begin; thread < end; ++thread)
          for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
            body(i, static_cast<int>(thread));
      });
}

/// One product, shared between the threads. `space`: `copy_bytes` of every thread.
void sgemm_shared(const kernels::MatmulShape& s, float* c, const float* a, const float* b,
                  std::byte* space, ThreadTeam& team) {
  const Grid grid = grid_of(s, team.size());
  const std::int64_t bytes = copy_bytes(s, team.size());
  const bool by_columns =
      grid.columns >= grid.rows;  // neighbours in a thread's share have columns in common
  run_tasks(grid.rows * grid.columns, team.size(), team, [&](std::int64_t i, int thread) {
    const Part rows = part_of(s.m, by_columns ? i % grid.rows : i / grid.columns, grid.rows);
    const Part columns = part_of(s.n, by_columns ? i / grid.rows : i % grid.columns, grid.columns);
    if (rows.begin < rows.end && columns.begin < columns.end)
      sgemm(s, rows.end - rows.begin, columns.end - columns.begin,
            c + rows.begin * s.c_m + columns.begin, a + rows.begin * s.a_m,
            b + columns.begin * s.b_n, bytes > 0 ? space + thread * bytes : nullptr);
  });
}

dnnl_engine_t engine() {
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t created;
    check(dnnl_engine_create(&created, dnnl_cpu, 0), "engine_create");
    return created;
  }();
  return engine;
}

dnnl_memory_desc_t matrices(std::int64_t count, std::int64_t rows, std::int64_t columns,
                            std::int64_t batch_stride, std::int64_t row_stride,
                            std::int64_t column_stride) {
  // strides of dimensions of extent 1 are made up
  const bool by_rows = column_stride == 1 || columns == 1;
  if (columns == 1) column_stride = 1;
  if (rows == 1) row_stride = by_rows ? columns : 1;
  const dnnl_dims_t dims = {count, rows, columns},
                    strides = {batch_stride, row_stride, column_stride};
  dnnl_memory_desc_t descriptor;
  check(dnnl_memory_desc_init_by_strides(&descriptor, 3, dims, dnnl_f32, strides),
        "memory_desc_init");
  return descriptor;
}

/// oneDNN's matmul primitive for `count` products one `kernels::BatchDim` stride apart.
class BatchedPrimitive {
 public:
  BatchedPrimitive(const kernels::MatmulShape& s, const kernels::BatchDim& batch,
                   std::int64_t count)
      : descriptors_{matrices(count, s.m, s.k, batch.a, s.a_m, s.a_k),
                     matrices(count, s.k, s.n, batch.b, s.b_k, s.b_n),
                     matrices(count, s.m, s.n, batch.c, s.c_m, 1)} {
    const SingleThread single;
    require_code_room();
    // oneDNN keeps descriptors and primitives in a cache of the process. Its own synchronisation is
    // invisible to ThreadSanitizer, so threads that plan side by side take turns here.
    static std::mutex creation;
    const std::lock_guard turn(creation);
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attributes;
    check(dnnl_matmul_desc_init(&matmul, &descriptors_[0], &descriptors_[1], nullptr,
                                &descriptors_[2]),
          "matmul_desc_init");
    check(dnnl_primitive_attr_create(&attributes), "primitive_attr_create");
    check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user),
          "set_scratchpad_mode");
    dnnl_primitive_desc_t chosen = nullptr;
    const dnnl_status_t found =
        dnnl_primitive_desc_create(&chosen, &matmul, attributes, engine(), nullptr);
    dnnl_primitive_attr_destroy(attributes);
    if (found == dnnl_out_of_memory) check(found, "primitive_desc_create");
    if (found != dnnl_success) return;
    create(chosen);
    dnnl_primitive_desc_destroy(chosen);
  }
  ~BatchedPrimitive() {
    if (primitive_ != nullptr) dnnl_primitive_destroy(primitive_);
  }
  BatchedPrimitive(const BatchedPrimitive&) = delete;
  BatchedPrimitive& operator=(const BatchedPrimitive&) = delete;

  /// False where oneDNN has only its slow reference implementation for these strides.
  bool usable() const { return primitive_ != nullptr; }
  std::int64_t scratch_bytes() const {
    return static_cast<std::int64_t>(dnnl_memory_desc_get_size(&scratch_));
  }
  dnnl_primitive_t primitive() const { return primitive_; }
  const dnnl_memory_desc_t& descriptor(int i) const { return i < 3 ? descriptors_[i] : scratch_; }

 private:
  void create(dnnl_primitive_desc_t chosen) {
    const char* name = "";
    check(dnnl_primitive_desc_query(chosen, dnnl_query_impl_info_str, 0, &name),
          "query of the implementation");
    scratch_ = *dnnl_primitive_desc_query_md(chosen, dnnl_query_scratchpad_md, 0);
    if (std::string_view(name).substr(0, 3) == "ref") return;
    check(dnnl_primitive_create(&primitive_, chosen), "primitive_create");
  }

  std::array<dnnl_memory_desc_t, 3> descriptors_;
  dnnl_memory_desc_t scratch_ = {};
  dnnl_primitive_t primitive_ = nullptr;
};

/// One thread's memory objects and stream for executing a primitive.
class Execution {
 public:
  explicit Execution(const BatchedPrimitive& primitive) : primitive_(primitive.primitive()) {
    for (int i = 0; i < 4; ++i)
      check(dnnl_memory_create(&memory_[i], &primitive.descriptor(i), engine(), DNNL_MEMORY_NONE),
            "memory_create");
    check(dnnl_stream_create(&stream_, engine(), dnnl_stream_default_flags), "stream_create");
  }
  ~Execution() {
    for (dnnl_memory_t memory : memory_) dnnl_memory_destroy(memory);
    dnnl_stream_destroy(stream_);
  }
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  void run(float* c, const float* a, const float* b, std::byte* scratch) const {
    void* const data[] = {const_cast<float*>(a), const_cast<float*>(b), c, scratch};
    for (int i = 0; i < 4; ++i)
      check(dnnl_memory_set_data_handle(memory_[i], data[i]), "memory_set_data_handle");
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memory_[0]},
                                         {DNNL_ARG_WEIGHTS, memory_[1]},
                                         {DNNL_ARG_DST, memory_[2]},
                                         {DNNL_ARG_SCRATCHPAD, memory_[3]}};
    check(dnnl_primitive_execute(primitive_, stream_, 4, arguments), "primitive_execute");
    check(dnnl_stream_wait(stream_), "stream_wait");
  }

 private:
  dnnl_primitive_t primitive_;
  std::array<dnnl_memory_t, 4> memory_ = {};
  dnnl_stream_t stream_ = nullptr;
};

}  // namespace

/// The innermost batch dimension in chunks, each one execution; the last one may be shorter.
struct DnnlMatmul::Impl {
  struct Chunk {
    std::unique_ptr<BatchedPrimitive> primitive;
    std::vector<std::unique_ptr<Execution>> of_thread;
  };

  kernels::MatmulShape shape;
  std::vector<kernels::BatchDim> outer;
  kernels::BatchDim inner;
  std::int64_t chunk = 0,
               /// matrices in a chunk, chunks of the innermost dimension; 0: no primitive
      chunks = 0;
  Chunk whole, rest;
  int threads = 1;
  std::int64_t scratch = 0;  ///< bytes of each thread

  /// The primitive wins for many small matrices; it reads a wide B badly and is poor at large ones.
  /// It also wins 1.2 to 1.35 times for few rows times a transposed B (input gradients of a split
  /// batch), but only as a whole, so not where threads could share it.
  bool prefers_primitive() const {
    const kernels::MatmulShape& s = shape;
    if (s.batches() > 1) return s.n <= 512 && static_cast<double>(s.m) * s.n * s.k <= 1 << 27;
    return threads == 1 && s.b_k == 1 && s.b_n > 1 && s.m >= kFewestRows && s.m <= kMostRows;
  }
  static constexpr std::int64_t kFewestRows = 32, kMostRows = 256;

  Chunk make_chunk(std::int64_t count) const {
    Chunk made{std::make_unique<BatchedPrimitive>(shape, inner, count), {}};
    if (!made.primitive->usable()) return {};
    for (int t = 0; t < threads; ++t)
      made.of_thread.push_back(std::make_unique<Execution>(*made.primitive));
    return made;
  }

  void make_primitives() {
    outer = shape.batch;
    if (outer.empty())
      outer.push_back({1, shape.m * shape.k, shape.k * shape.n, shape.m * shape.n});
    inner = outer.back();
    outer.pop_back();
    const std::int64_t outer_count = shape.batches() / inner.extent;
    chunk = outer_count >= threads ? inner.extent : (inner.extent + threads - 1) / threads;
    whole = make_chunk(chunk);
    const std::int64_t left = inner.extent % chunk;
    if (left > 0 && whole.primitive) rest = make_chunk(left);
    if (!whole.primitive || (left > 0 && !rest.primitive)) return;
    chunks = (inner.extent + chunk - 1) / chunk;
    scratch = whole.primitive->scratch_bytes();
    if (rest.primitive) scratch = std::max(scratch, rest.primitive->scratch_bytes());
    scratch = (scratch + 63) / 64 * 64;
  }

  void run_chunk(std::int64_t index, int thread, float* c, const float* a, const float* b,
                 std::byte* space) const {
    const kernels::BatchOffsets at = kernels::batch_offsets(outer, index / chunks);
    const std::int64_t first = index % chunks * chunk;
    const Chunk& kind = first + chunk <= inner.extent ? whole : rest;
    kind.of_thread[thread]->run(c + at.c + first * inner.c, a + at.a + first * inner.a,
                                b + at.b + first * inner.b, space + thread * scratch);
  }

  void run_chunks(float* c, const float* a, const float* b, std::byte* space,
                  ThreadTeam& team) const {
    run_tasks(shape.batches() / inner.extent * chunks, threads, team,
              [&](std::int64_t i, int thread) { run_chunk(i, thread, c, a, b, space); });
  }

  void run_sgemms(float* c, const float* a, const float* b, std::byte* space,
                  ThreadTeam& team) const {
    const std::int64_t batches = shape.batches();
    if (batches < team.size()) {
      for (std::int64_t i = 0; i < batches; ++i) {
        const kernels::BatchOffsets at = kernels::batch_offsets(shape.batch, i);
        sgemm_shared(shape, c + at.c, a + at.a, b + at.b, space, team);
      }
      return;
    }
    run_tasks(batches, threads, team, [&](std::int64_t i, int thread) {
      const kernels::BatchOffsets at = kernels::batch_offsets(shape.batch, i);
      sgemm(shape, shape.m, shape.n, c + at.c, a + at.a, b + at.b,
            scratch > 0 ? space + thread * scratch : nullptr);
    });
  }
};

DnnlMatmul::DnnlMatmul(const kernels::MatmulShape& shape, int threads)
    : impl_(std::make_unique<Impl>()) {
  impl_->shape = shape;
  impl_->threads = threads;
  if (impl_->prefers_primitive()) impl_->make_primitives();
  if (impl_->chunks == 0) impl_->scratch = copy_bytes(shape, threads);
}

DnnlMatmul::~DnnlMatmul() = default;

std::int64_t DnnlMatmul::workspace_bytes() const { return impl_->threads * impl_->scratch; }

void DnnlMatmul::run(float* c, const float* a, const float* b, std::byte* workspace,
                     ThreadTeam& team) const {
  if (impl_->chunks > 0)
    impl_->run_chunks(c, a, b, workspace, team);
  else
    impl_->run_sgemms(c, a, b, workspace, team);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Panel<float> a, Panel<float> b, bool add,
          float* c, std::int64_t c_lead, bool fixed) {
  const auto matrix = [](const Panel<float>& p) {
    return p.transposed ? Matrix{p.data, 1, p.lead} : Matrix{p.data, p.lead, 1};
  };
  if (fixed) return ordered_product(m, n, k, 1, matrix(a), matrix(b), add, c, c_lead);
  const SingleThread single;
  check(dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data,
                   a.lead, b.data, b.lead, add ? 1.0F : 0.0F, c, c_lead),
        "sgemm");
}

}  // namespace alpa::cpu
