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
if(NOT CMAKE_BUILD_TYPE OR CMAKE_BUILD_TYPE STREQUAL "Release")
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

# Style and script of reports' pages, as texts in the library (src/report/report_page.h).
foreach(kind css js)
  set(file ${PROJECT_SOURCE_DIR}/src/report/report_page.${kind})
  file(READ ${file} ALPA_REPORT_${kind})
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/report_assets.cc.in ${PROJECT_BINARY_DIR}/report_assets.cc @ONLY)

# Visible outside of a shared library: what headers of include/alpa declare, between `#pragma GCC visibility push(default)`
# and `pop`. All else is hidden.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# Not together: each names its own parts alike.
add_library(alpa_kernels OBJECT ${ALPA_KERNELS})
target_precompile_headers(alpa_kernels PRIVATE ${ALPA_STANDARD_HEADERS} <fmt/core.h>)
target_compile_options(alpa_kernels PRIVATE ${ALPA_KERNEL_OPTIONS})
target_include_directories(alpa_kernels PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(alpa_kernels PRIVATE alpa_settings fmt::fmt Eigen3::Eigen DNNL::dnnl)

# A static library, also where users get a shared one: programs and tests of this repository use hidden functions.
add_library(alpa STATIC ${ALPA_SOURCES} $<TARGET_OBJECTS:alpa_kernels> ${PROJECT_BINARY_DIR}/known_clusters.cc
            ${PROJECT_BINARY_DIR}/report_assets.cc)
alpa_compile_together(alpa)
target_compile_features(alpa PUBLIC cxx_std_20)
target_precompile_headers(alpa PRIVATE ${ALPA_STANDARD_HEADERS} <fmt/core.h> ${ALPA_PRECOMPILED})
target_include_directories(alpa PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(alpa
  PUBLIC fmt::fmt
  PRIVATE $<BUILD_INTERFACE:alpa_settings> $<BUILD_INTERFACE:Eigen3::Eigen>
          $<BUILD_INTERFACE:nlohmann_json::nlohmann_json> ${ALPA_LINKED} Threads::Threads ${CMAKE_DL_LIBS})
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/version.cc PROPERTIES
  COMPILE_DEFINITIONS ALPA_VERSION="${PROJECT_VERSION}")
# Debug and sanitizer builds watch the ends of all buffers (src/runtime/arena_guard.h).
set(ALPA_GUARD_BYTES 0)
if(ALPA_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(ALPA_GUARD_BYTES 64)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/lower/backend.cc PROPERTIES
  COMPILE_DEFINITIONS ALPA_GUARD_BYTES=${ALPA_GUARD_BYTES})
# Where an installed program finds libalpa_cuda.so and libalpa_mpi.so: seen from its own folder, or from its run path.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/own_library.cc PROPERTIES
  COMPILE_DEFINITIONS ALPA_LIBRARY_FOLDER="${CMAKE_INSTALL_LIBDIR}")

# kernels/cpu/<op>.isa.cc is compiled once per instruction set, each time into namespace ALPA_ISA; the caller
# picks one at run time. Such a file must not instantiate inline functions of other headers: the linker keeps
# one copy of those, possibly the one the processor cannot run (tests/structure checks the objects).
set(ALPA_ISAS baseline)
set(ALPA_ISA_OPTIONS_baseline "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND ALPA_ISAS avx2)
  # Sanitized code runs where it is compiled, and so does that of ALPA_NATIVE, of which one set is enough.
  file(STRINGS /proc/cpuinfo has_avx2 REGEX "^flags.* avx2 " LIMIT_COUNT 1)
  file(STRINGS /proc/cpuinfo has_avx512 REGEX "^flags.* avx512bw " LIMIT_COUNT 1)
  if(has_avx512 OR NOT (ALPA_SANITIZE OR ALPA_NATIVE))
    list(APPEND ALPA_ISAS avx512)
  elseif(ALPA_NATIVE AND NOT has_avx2)
    set(ALPA_ISAS baseline)
  endif()
  if(ALPA_NATIVE)
    list(GET ALPA_ISAS -1 ALPA_ISAS)
  endif()
  set(ALPA_ISA_OPTIONS_avx2 -mavx2 -mfma -mf16c)
  set(ALPA_ISA_OPTIONS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl ${ALPA_ISA_OPTIONS_avx2}
      -mprefer-vector-width=512)
endif()
list(TRANSFORM ALPA_ISAS PREPEND ALPA_HAS_ OUTPUT_VARIABLE has_isas)
set_source_files_properties(${PROJECT_SOURCE_DIR}/kernels/cpu/isa.cc PROPERTIES COMPILE_DEFINITIONS "${has_isas}")
set(ALPA_OBJECTS $<TARGET_OBJECTS:alpa> $<TARGET_OBJECTS:alpa_kernels>)
if(ALPA_ISA_KERNELS)
  foreach(isa ${ALPA_ISAS})
    add_library(alpa_${isa} OBJECT ${ALPA_ISA_KERNELS})
    alpa_compile_together(alpa_${isa})
    target_compile_definitions(alpa_${isa} PRIVATE ALPA_ISA=${isa})
    target_compile_options(alpa_${isa} PRIVATE ${ALPA_KERNEL_OPTIONS} ${ALPA_ISA_OPTIONS_${isa}})
    target_include_directories(alpa_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(alpa_${isa} PRIVATE alpa_settings fmt::fmt)
    target_sources(alpa PRIVATE $<TARGET_OBJECTS:alpa_${isa}>)
    list(APPEND ALPA_OBJECTS $<TARGET_OBJECTS:alpa_${isa}>)
  endforeach()
endif()
unset(CMAKE_CXX_VISIBILITY_PRESET)
unset(CMAKE_VISIBILITY_INLINES_HIDDEN)

# The same objects as a shared library: with BUILD_SHARED_LIBS that of users, else for tests of what it exports.
if(BUILD_SHARED_LIBS OR ALPA_BUILD_TESTS)
  add_library(alpa_shared SHARED ${ALPA_OBJECTS})
  target_compile_features(alpa_shared PUBLIC cxx_std_20)
  target_include_directories(alpa_shared PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(alpa_shared PUBLIC fmt::fmt PRIVATE ${ALPA_LINKED} Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(alpa_shared PROPERTIES OUTPUT_NAME alpa EXPORT_NAME alpa LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()
set(ALPA_PRODUCT alpa)  # which users link with
if(BUILD_SHARED_LIBS)
  set(ALPA_PRODUCT alpa_shared)
endif()
add_library(alpa::alpa ALIAS ${ALPA_PRODUCT})
if(NOT ALPA_CUDA_ABSENT OR NOT ALPA_MPI_ABSENT)
  target_link_options(${ALPA_PRODUCT} INTERFACE $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_link_options(${ALPA_PRODUCT} INTERFACE $<BUILD_INTERFACE:LINKER:-rpath,${CMAKE_RUNTIME_OUTPUT_DIRECTORY}>)
  endif()
endif()
