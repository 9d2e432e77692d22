# The library: src/<room>/*.cc, src/<room>/<folder>/*.cc (src/cuda: see AlpaCuda; src/mpi: see AlpaMpi),
# kernels/plan/*.cc, kernels/cpu/*.cc, and kernels/cuda/*.cc, which plan what the CUDA kernels (*.cu, see AlpaCuda) do and
# need nothing of CUDA.
file(GLOB ALPA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/*.cc ${PROJECT_SOURCE_DIR}/src/*/*/*.cc
     ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cc ${PROJECT_SOURCE_DIR}/kernels/plan/*.cc)
list(FILTER ALPA_SOURCES EXCLUDE REGEX "/src/(cuda|mpi)/")
file(GLOB ALPA_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cpu/*.cc)
set(ALPA_ISA_KERNELS ${ALPA_KERNELS})
list(FILTER ALPA_ISA_KERNELS INCLUDE REGEX "\\.isa\\.cc$")
list(FILTER ALPA_KERNELS EXCLUDE REGEX "\\.isa\\.cc$")

# Kernels may reorder what traps and errno forbid, never what changes a sum.
set(ALPA_KERNEL_OPTIONS -fno-trapping-math -fno-math-errno)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  list(APPEND ALPA_KERNEL_OPTIONS -O3)
elseif(ALPA_SANITIZE)
  list(APPEND ALPA_KERNEL_OPTIONS -O1)
endif()
if(ALPA_SANITIZE MATCHES "undefined")
  list(APPEND ALPA_KERNEL_OPTIONS -fsanitize=alignment)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/comm/combine.cc
  PROPERTIES COMPILE_OPTIONS "${ALPA_KERNEL_OPTIONS}" SKIP_PRECOMPILE_HEADERS ON)

# Clusters that programs know by name: one host of each kind, as a text in the library (src/mesh/known_clusters.h).
set(ALPA_KNOWN_CLUSTERS "")
foreach(name p3.16xlarge dgx-v100 dgx-a100 hgx-h100 hgx-h200)
  set(file ${PROJECT_SOURCE_DIR}/clusters/${name}.json)
  file(READ ${file} text)
  string(APPEND ALPA_KNOWN_CLUSTERS "      {\"${name}\", R\"json(${text})json\"},\n")
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/known_clusters.cc.in ${PROJECT_BINARY_DIR}/known_clusters.cc @ONLY)

# Not together: each names its own parts alike.
add_library(alpa_kernels OBJECT ${ALPA_KERNELS})
target_precompile_headers(alpa_kernels PRIVATE ${ALPA_STANDARD_HEADERS} <fmt/core.h>)
target_compile_options(alpa_kernels PRIVATE ${ALPA_KERNEL_OPTIONS})
target_include_directories(alpa_kernels PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(alpa_kernels PRIVATE alpa_settings fmt::fmt Eigen3::Eigen DNNL::dnnl)

add_library(alpa ${ALPA_SOURCES} $<TARGET_OBJECTS:alpa_kernels> ${PROJECT_BINARY_DIR}/known_clusters.cc)
alpa_compile_together(alpa)
add_library(alpa::alpa ALIAS alpa)
target_compile_features(alpa PUBLIC cxx_std_20)
target_precompile_headers(alpa PRIVATE ${ALPA_STANDARD_HEADERS} <fmt/core.h> <alpa/ops/ops.h>)
target_include_directories(alpa PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(alpa
  PUBLIC fmt::fmt
  PRIVATE $<BUILD_INTERFACE:alpa_settings> $<BUILD_INTERFACE:Eigen3::Eigen>
          $<BUILD_INTERFACE:nlohmann_json::nlohmann_json> DNNL::dnnl Cbc::Cbc PNG::PNG JPEG::JPEG ZLIB::ZLIB Deflate::deflate
          PCRE2::pcre2 Utf8proc::utf8proc Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(alpa PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/version.cc PROPERTIES
  COMPILE_DEFINITIONS ALPA_VERSION="${PROJECT_VERSION}")
# Debug and sanitizer builds watch the ends of all buffers (src/runtime/arena_guard.h).
set(ALPA_GUARD_BYTES 0)
if(ALPA_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(ALPA_GUARD_BYTES 64)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/lower/memory_rules.cc PROPERTIES
  COMPILE_DEFINITIONS ALPA_GUARD_BYTES=${ALPA_GUARD_BYTES})
# Where an installed program finds libalpa_cuda.so and libalpa_mpi.so: seen from its own folder, or from its run path.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/own_library.cc PROPERTIES
  COMPILE_DEFINITIONS ALPA_LIBRARY_FOLDER="${CMAKE_INSTALL_LIBDIR}")
if(NOT ALPA_CUDA_ABSENT OR NOT ALPA_MPI_ABSENT)
  target_link_options(alpa INTERFACE $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_link_options(alpa INTERFACE $<BUILD_INTERFACE:LINKER:-rpath,${CMAKE_RUNTIME_OUTPUT_DIRECTORY}>)
  endif()
endif()

# kernels/cpu/<op>.isa.cc is compiled once per instruction set, each time into namespace ALPA_ISA; the caller
# picks one at run time. Such a file must not instantiate inline functions of other headers: the linker keeps
# one copy of those, possibly the one the processor cannot run (tests/structure checks the objects).
set(ALPA_ISAS baseline)
set(ALPA_ISA_OPTIONS_baseline "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND ALPA_ISAS avx2)
  # Sanitized code runs where it is compiled.
  file(STRINGS /proc/cpuinfo of_processor REGEX "^flags.* avx512bw " LIMIT_COUNT 1)
  if(of_processor OR NOT ALPA_SANITIZE)
    list(APPEND ALPA_ISAS avx512)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/kernels/cpu/isa.cc PROPERTIES COMPILE_DEFINITIONS ALPA_HAS_AVX512)
  endif()
  set(ALPA_ISA_OPTIONS_avx2 -mavx2 -mfma -mf16c)
  set(ALPA_ISA_OPTIONS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl ${ALPA_ISA_OPTIONS_avx2}
      -mprefer-vector-width=512)
endif()
if(ALPA_ISA_KERNELS)
  foreach(isa ${ALPA_ISAS})
    add_library(alpa_${isa} OBJECT ${ALPA_ISA_KERNELS})
    alpa_compile_together(alpa_${isa})
    target_compile_definitions(alpa_${isa} PRIVATE ALPA_ISA=${isa})
    target_compile_options(alpa_${isa} PRIVATE ${ALPA_KERNEL_OPTIONS} ${ALPA_ISA_OPTIONS_${isa}})
    target_include_directories(alpa_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(alpa_${isa} PRIVATE alpa_settings fmt::fmt)
    target_sources(alpa PRIVATE $<TARGET_OBJECTS:alpa_${isa}>)
  endforeach()
endif()
