// kernels/cpu/dnnl.cc — calls of oneDNN, each in the calling thread
#include "kernels/cpu/dnnl.h"

#include <sys/mman.h>

#include <mutex>
#include <new>
#include <string_view>

#include "alpa/base/error.h"

// From the OpenMP runtime that oneDNN uses; absent if oneDNN was built for another runtime.
extern "C" {
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) void omp_set_num_threads(int);
}

namespace alpa::cpu {
namespace {

void set_threads(int threads) {
  if (omp_set_num_threads != nullptr) omp_set_num_threads(threads);
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
  check_dnnl(dnnl_sgemm('N', 'T', kSide, kSide, kSide, 1.0f, operand.data(), kSide, operand.data(),
                        kSide, 0.0f, result.data(), kSide),
             "sgemm");
  return true;
}

dnnl_engine_t engine() {
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t created;
    check_dnnl(dnnl_engine_create(&created, dnnl_cpu, 0), "engine_create");
    return created;
  }();
  return engine;
}

dnnl_data_type_t data_type(DType dtype) {
  invariant(dtype == f32 || dtype == bf16, "oneDNN: products of {}", name_of(dtype));
  return dtype == f32 ? dnnl_f32 : dnnl_bf16;
}

dnnl_memory_desc_t matrices(DType dtype, std::int64_t count, std::int64_t rows,
                            std::int64_t columns, std::int64_t batch_stride,
                            std::int64_t row_stride, std::int64_t column_stride) {
  // strides of dimensions of extent 1 are made up
  const bool by_rows = column_stride == 1 || columns == 1;
  if (columns == 1) column_stride = 1;
  if (rows == 1) row_stride = by_rows ? columns : 1;
  if (count == 1) batch_stride = by_rows ? rows * row_stride : columns * column_stride;
  const dnnl_dims_t dims = {count, rows, columns},
                    strides = {batch_stride, row_stride, column_stride};
  dnnl_memory_desc_t descriptor;
  check_dnnl(dnnl_memory_desc_init_by_strides(&descriptor, 3, dims, data_type(dtype), strides),
             "memory_desc_init");
  return descriptor;
}

}  // namespace

SingleThread::SingleThread() : saved_(omp_get_max_threads != nullptr ? omp_get_max_threads() : 1) {
  set_threads(1);
}

SingleThread::~SingleThread() { set_threads(saved_); }

void check_dnnl(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  invariant(status == dnnl_success, "oneDNN: {} failed with status {}", what,
            static_cast<int>(status));
}

void call_sgemm(const Operand& a, const Operand& b, std::int64_t m, std::int64_t n, std::int64_t k,
                float beta, float* c, std::int64_t c_lead) {
  [[maybe_unused]] static const bool generated = generate_sgemm();
  check_dnnl(dnnl_sgemm(a.layout.transposed, b.layout.transposed, m, n, k, 1.0f, a.data,
                        a.layout.lead, b.data, b.layout.lead, beta, c, c_lead),
             "sgemm");
}

MatmulPrimitive::MatmulPrimitive(const kernels::MatmulShape& s, const kernels::BatchDim& batch,
                                 std::int64_t count, ProductTypes types)
    : descriptors_{matrices(types.operands, count, s.m, s.k, batch.a, s.a_m, s.a_k),
                   matrices(types.operands, count, s.k, s.n, batch.b, s.b_k, s.b_n),
                   matrices(types.result, count, s.m, s.n, batch.c, s.c_m, 1)} {
  const SingleThread single;
  require_code_room();
  // oneDNN keeps descriptors and primitives in a cache of the process. Its own synchronisation is
  // invisible to ThreadSanitizer, so threads that plan side by side take turns here.
  static std::mutex creation;
  const std::lock_guard turn(creation);
  dnnl_matmul_desc_t matmul;
  dnnl_primitive_attr_t attributes;
  check_dnnl(
      dnnl_matmul_desc_init(&matmul, &descriptors_[0], &descriptors_[1], nullptr, &descriptors_[2]),
      "matmul_desc_init");
  check_dnnl(dnnl_primitive_attr_create(&attributes), "primitive_attr_create");
  check_dnnl(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user),
             "set_scratchpad_mode");
  dnnl_primitive_desc_t chosen = nullptr;
  const dnnl_status_t found =
      dnnl_primitive_desc_create(&chosen, &matmul, attributes, engine(), nullptr);
  dnnl_primitive_attr_destroy(attributes);
  if (found == dnnl_out_of_memory) check_dnnl(found, "primitive_desc_create");
  if (found != dnnl_success) return;
  create(chosen);
  dnnl_primitive_desc_destroy(chosen);
}

MatmulPrimitive::~MatmulPrimitive() {
  if (primitive_ != nullptr) dnnl_primitive_destroy(primitive_);
}

std::int64_t MatmulPrimitive::scratch_bytes() const {
  return static_cast<std::int64_t>(dnnl_memory_desc_get_size(&scratch_));
}

void MatmulPrimitive::create(dnnl_primitive_desc_t chosen) {
  const char* text = "";
  check_dnnl(dnnl_primitive_desc_query(chosen, dnnl_query_impl_info_str, 0, &text),
             "query of the implementation");
  scratch_ = *dnnl_primitive_desc_query_md(chosen, dnnl_query_scratchpad_md, 0);
  const std::string_view name = text;
  if (name.substr(0, 3) == "ref") return;
  matrix_unit_ = name.find("amx") != std::string_view::npos;
  check_dnnl(dnnl_primitive_create(&primitive_, chosen), "primitive_create");
}

MatmulExecution::MatmulExecution(const MatmulPrimitive& primitive)
    : primitive_(primitive.primitive_) {
  for (int i = 0; i < 4; ++i)
    check_dnnl(
        dnnl_memory_create(&memory_[i], i < 3 ? &primitive.descriptors_[i] : &primitive.scratch_,
                           engine(), DNNL_MEMORY_NONE),
        "memory_create");
  check_dnnl(dnnl_stream_create(&stream_, engine(), dnnl_stream_default_flags), "stream_create");
}

MatmulExecution::~MatmulExecution() {
  for (dnnl_memory_t memory : memory_) dnnl_memory_destroy(memory);
  dnnl_stream_destroy(stream_);
}

void MatmulExecution::run(std::byte* c, const std::byte* a, const std::byte* b,
                          std::byte* scratch) const {
  void* const data[] = {const_cast<std::byte*>(a), const_cast<std::byte*>(b), c, scratch};
  for (int i = 0; i < 4; ++i)
    check_dnnl(dnnl_memory_set_data_handle(memory_[i], data[i]), "memory_set_data_handle");
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memory_[0]},
                                       {DNNL_ARG_WEIGHTS, memory_[1]},
                                       {DNNL_ARG_DST, memory_[2]},
                                       {DNNL_ARG_SCRATCHPAD, memory_[3]}};
  check_dnnl(dnnl_primitive_execute(primitive_, stream_, 4, arguments), "primitive_execute");
  check_dnnl(dnnl_stream_wait(stream_), "stream_wait");
}

}  // namespace alpa::cpu
