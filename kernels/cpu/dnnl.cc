// kernels/cpu/dnnl.cc — calls of oneDNN, each in the calling thread
#include "kernels/cpu/dnnl.h"

#include <sys/mman.h>

#include <array>
#include <mutex>
#include <new>
#include <utility>

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

dnnl_memory_desc_t layout_of(const_dnnl_primitive_desc_t chosen, dnnl_query_t which) {
  return *dnnl_primitive_desc_query_md(chosen, which, 0);
}

/// A turn of the calling thread at making primitives, with room for their code. oneDNN keeps
/// descriptors and primitives in a cache of the process. Its own synchronisation is invisible to
/// ThreadSanitizer, so threads that plan side by side take turns.
class Creation {
 public:
  Creation() : turn_(mutex()) {
    require_code_room();
    check_dnnl(dnnl_primitive_attr_create(&attributes_), "primitive_attr_create");
    check_dnnl(dnnl_primitive_attr_set_scratchpad_mode(attributes_, dnnl_scratchpad_mode_user),
               "set_scratchpad_mode");
  }
  ~Creation() { dnnl_primitive_attr_destroy(attributes_); }
  Creation(const Creation&) = delete;
  Creation& operator=(const Creation&) = delete;

  const_dnnl_primitive_attr_t attributes() const { return attributes_; }
  /// Null where oneDNN has no implementation. `forward`: where a gradient needs it.
  dnnl_primitive_desc_t choose(const_dnnl_op_desc_t operation,
                               const_dnnl_primitive_desc_t forward = nullptr) const {
    dnnl_primitive_desc_t chosen = nullptr;
    const dnnl_status_t found =
        dnnl_primitive_desc_create(&chosen, operation, attributes_, engine(), forward);
    if (found == dnnl_out_of_memory) check_dnnl(found, "primitive_desc_create");
    return found == dnnl_success ? chosen : nullptr;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex creation;
    return creation;
  }

  SingleThread single_;
  std::lock_guard<std::mutex> turn_;
  dnnl_primitive_attr_t attributes_ = nullptr;
};

using Dims = std::vector<dnnl_dim_t>;

dnnl_memory_desc_t tensor(DType dtype, const Dims& dims, const Dims& strides) {
  dnnl_memory_desc_t layout;
  check_dnnl(dnnl_memory_desc_init_by_strides(&layout, static_cast<int>(dims.size()), dims.data(),
                                              data_type(dtype), strides.data()),
             "memory_desc_init");
  return layout;
}

dnnl_memory_desc_t nhwc(DType dtype, std::int64_t images, std::int64_t rows, std::int64_t columns,
                        std::int64_t channels) {
  const std::int64_t row = columns * channels;
  return tensor(dtype, {images, channels, rows, columns}, {rows * row, 1, row, channels});
}

/// In oneDNN's order: features, channels, rows, columns of each group.
Dims kernel_dims(const kernels::ConvolutionShape& s) {
  Dims dims{s.features / s.groups, s.channels / s.groups, s.h.size, s.w.size};
  if (s.groups > 1) dims.insert(dims.begin(), s.groups);
  return dims;
}

/// A convolution's layouts and windows, in oneDNN's words.
struct Convolution {
  dnnl_memory_desc_t x, kernel, y;
  dnnl_dims_t strides, dilates, before, after;

  Convolution(const kernels::ConvolutionShape& s, DType images, const dnnl_memory_desc_t& layout)
      : x(nhwc(images, s.batch, s.h.in, s.w.in, s.channels)),
        kernel(layout),
        y(nhwc(images, s.batch, s.h.out, s.w.out, s.features)),
        strides{s.h.stride, s.w.stride},
        dilates{s.h.dilation - 1, s.w.dilation - 1},
        before{s.h.pad, s.w.pad},
        after{pad_after(s.h), pad_after(s.w)} {}

  static std::int64_t pad_after(const kernels::WindowDim& d) {
    return (d.out - 1) * d.stride + (d.size - 1) * d.dilation + 1 - d.in - d.pad;
  }

  Primitive forward(const Creation& creation) const {
    return made(described_forward(creation), DNNL_ARG_SRC,
                {DNNL_ARG_WEIGHTS, dnnl_query_weights_md}, DNNL_ARG_DST);
  }

  Primitive grad_x(const Creation& creation) const {
    dnnl_convolution_desc_t operation;
    const dnnl_status_t described = dnnl_dilated_convolution_backward_data_desc_init(
        &operation, dnnl_convolution_direct, &x, &kernel, &y, strides, dilates, before, after);
    return made(gradient(creation, described, operation), DNNL_ARG_DIFF_SRC,
                {DNNL_ARG_WEIGHTS, dnnl_query_weights_md}, DNNL_ARG_DIFF_DST);
  }

  Primitive grad_kernel(const Creation& creation) const {
    dnnl_convolution_desc_t operation;
    const dnnl_status_t described = dnnl_dilated_convolution_backward_weights_desc_init(
        &operation, dnnl_convolution_direct, &x, &kernel, nullptr, &y, strides, dilates, before,
        after);
    return made(gradient(creation, described, operation), DNNL_ARG_SRC,
                {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md}, DNNL_ARG_DIFF_DST);
  }

 private:
  /// The kernel's name among the arguments, and the query for the layout that was chosen for it.
  struct KernelArgument {
    int name;
    dnnl_query_t layout;
  };

  Primitive made(dnnl_primitive_desc_t chosen, int x_name, KernelArgument kernel_argument,
                 int y_name) const {
    if (chosen == nullptr) return {};
    return {chosen,
            {{x_name, x},
             {kernel_argument.name, layout_of(chosen, kernel_argument.layout)},
             {y_name, y}}};
  }

  dnnl_primitive_desc_t described_forward(const Creation& creation) const {
    dnnl_convolution_desc_t operation;
    if (dnnl_dilated_convolution_forward_desc_init(
            &operation, dnnl_forward_training, dnnl_convolution_direct, &x, &kernel, nullptr, &y,
            strides, dilates, before, after) != dnnl_success)
      return nullptr;
    return creation.choose(&operation);
  }

  /// oneDNN describes a gradient by its convolution.
  dnnl_primitive_desc_t gradient(const Creation& creation, dnnl_status_t described,
                                 const dnnl_convolution_desc_t& operation) const {
    dnnl_primitive_desc_t forward =
        described == dnnl_success ? described_forward(creation) : nullptr;
    if (forward == nullptr) return nullptr;
    dnnl_primitive_desc_t chosen = creation.choose(&operation, forward);
    dnnl_primitive_desc_destroy(forward);
    return chosen;
  }
};

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

Primitive::Primitive(dnnl_primitive_desc_t chosen, std::vector<PrimitiveArgument> arguments)
    : arguments_(std::move(arguments)) {
  if (chosen == nullptr) return;
  const char* text = "";
  check_dnnl(dnnl_primitive_desc_query(chosen, dnnl_query_impl_info_str, 0, &text),
             "query of the implementation");
  implementation_ = text;
  arguments_.push_back({DNNL_ARG_SCRATCHPAD, layout_of(chosen, dnnl_query_scratchpad_md)});
  if (!implementation_.starts_with("ref"))
    check_dnnl(dnnl_primitive_create(&primitive_, chosen), "primitive_create");
  dnnl_primitive_desc_destroy(chosen);
}

Primitive::~Primitive() {
  if (primitive_ != nullptr) dnnl_primitive_destroy(primitive_);
}

Primitive::Primitive(Primitive&& other) noexcept { *this = std::move(other); }

Primitive& Primitive::operator=(Primitive&& other) noexcept {
  arguments_.swap(other.arguments_);
  implementation_.swap(other.implementation_);
  std::swap(primitive_, other.primitive_);
  return *this;
}

bool Primitive::implementation_has(std::string_view word) const {
  return implementation_.find(word) != std::string::npos;
}

Primitive matmul_primitive(const kernels::MatmulShape& s, const kernels::BatchDim& batch,
                           std::int64_t count, ProductTypes types) {
  const dnnl_memory_desc_t a = matrices(types.operands, count, s.m, s.k, batch.a, s.a_m, s.a_k),
                           b = matrices(types.operands, count, s.k, s.n, batch.b, s.b_k, s.b_n),
                           c = matrices(types.result, count, s.m, s.n, batch.c, s.c_m, 1);
  const Creation creation;
  dnnl_matmul_desc_t matmul;
  check_dnnl(dnnl_matmul_desc_init(&matmul, &a, &b, nullptr, &c), "matmul_desc_init");
  return {creation.choose(&matmul), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}};
}

dnnl_memory_desc_t stored_kernel(const kernels::ConvolutionShape& s, DType dtype) {
  const std::int64_t group = s.features / s.groups, line = s.features,
                     column = s.channels / s.groups * line, row = s.w.size * column;
  if (s.groups == 1) return tensor(dtype, kernel_dims(s), {1, line, row, column});
  return tensor(dtype, kernel_dims(s), {group, 1, line, row, column});
}

dnnl_memory_desc_t any_kernel(const kernels::ConvolutionShape& s, DType dtype) {
  const Dims dims = kernel_dims(s);
  dnnl_memory_desc_t layout;
  check_dnnl(dnnl_memory_desc_init_by_tag(&layout, static_cast<int>(dims.size()), dims.data(),
                                          data_type(dtype), dnnl_format_tag_any),
             "memory_desc_init");
  return layout;
}

Primitive convolution_primitive(const kernels::ConvolutionShape& shape, ConvolutionPass pass,
                                DType images, const dnnl_memory_desc_t& kernel) {
  const Convolution convolution(shape, images, kernel);
  const Creation creation;
  switch (pass) {
    case ConvolutionPass::forward: return convolution.forward(creation);
    case ConvolutionPass::grad_x: return convolution.grad_x(creation);
    case ConvolutionPass::grad_kernel: return convolution.grad_kernel(creation);
  }
  return {};
}

Primitive reorder_primitive(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to) {
  const Creation creation;
  dnnl_primitive_desc_t chosen = nullptr;
  check_dnnl(dnnl_reorder_primitive_desc_create(&chosen, &from, engine(), &to, engine(),
                                                creation.attributes()),
             "reorder_primitive_desc_create");
  return {chosen, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

Execution::Execution(const Primitive& primitive) : primitive_(primitive.primitive_) {
  for (const PrimitiveArgument& argument : primitive.arguments()) {
    arguments_.push_back({argument.name, nullptr});
    check_dnnl(
        dnnl_memory_create(&arguments_.back().memory, &argument.layout, engine(), DNNL_MEMORY_NONE),
        "memory_create");
  }
  check_dnnl(dnnl_stream_create(&stream_, engine(), dnnl_stream_default_flags), "stream_create");
}

Execution::~Execution() {
  for (const dnnl_exec_arg_t& argument : arguments_) dnnl_memory_destroy(argument.memory);
  dnnl_stream_destroy(stream_);
}

void Execution::run(std::initializer_list<const std::byte*> data) const {
  auto argument = arguments_.begin();
  for (const std::byte* of : data)
    check_dnnl(dnnl_memory_set_data_handle((argument++)->memory, const_cast<std::byte*>(of)),
               "memory_set_data_handle");
  check_dnnl(dnnl_primitive_execute(primitive_, stream_, static_cast<int>(arguments_.size()),
                                    arguments_.data()),
             "primitive_execute");
  check_dnnl(dnnl_stream_wait(stream_), "stream_wait");
}

}  // namespace alpa::cpu
