# Two libraries: alpa_data is src/data (data sets, images, tokenizers), alpa_core is all else:
# src/<room>/*.cc and src/<room>/<folder>/*.cc (src/cuda: see AlpaCuda; src/mpi: see AlpaMpi),
# kernels/plan/*.cc, kernels/cpu/*.cc, and kernels/cuda/*.cc, which plan what the CUDA kernels (*.cu, see AlpaCuda) do and
# need nothing of CUDA.
file(GLOB ALPA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/*.cc ${PROJECT_SOURCE_DIR}/src/*/*/*.cc
     ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cc ${PROJECT_SOURCE_DIR}/kernels/plan/*.cc)
list(FILTER ALPA_SOURCES EXCLUDE REGEX "/src/(cuda|data|mpi)/")
file(GLOB ALPA_DATA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/data/*.cc)
file(GLOB ALPA_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cpu/*.cc)
# What is left out with a library (ALPA_WITH_...): its one file. Another says so in its place.
foreach(file CBC:ilp/search/branch.cc PNG:data/png.cc JPEG:data/jpeg.cc)
  string(REGEX MATCH "^(.*):(.*)$" file ${file})
  if(NOT ALPA_HAS_${CMAKE_MATCH_1})
    list(REMOVE_ITEM ALPA_SOURCES ${PROJECT_SOURCE_DIR}/src/${CMAKE_MATCH_2})
    list(REMOVE_ITEM ALPA_DATA_SOURCES ${PROJECT_SOURCE_DIR}/src/${CMAKE_MATCH_2})
  endif()
endforeach()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/checksum.cc PROPERTIES COMPILE_DEFINITIONS ALPA_HAS_DEFLATE=${ALPA_HAS_DEFLATE})
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/ilp/search/has_cbc.cc PROPERTIES COMPILE_DEFINITIONS ALPA_HAS_CBC=${ALPA_HAS_CBC})
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/data/image_codecs.cc
  PROPERTIES COMPILE_DEFINITIONS "ALPA_HAS_PNG=${ALPA_HAS_PNG};ALPA_HAS_JPEG=${ALPA_HAS_JPEG}")
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

# Static libraries, also where users get shared ones: programs and tests of this repository use hidden functions.
add_library(alpa_core STATIC ${ALPA_SOURCES} $<TARGET_OBJECTS:alpa_kernels> ${PROJECT_BINARY_DIR}/known_clusters.cc
            ${PROJECT_BINARY_DIR}/report_assets.cc)
target_precompile_headers(alpa_core PRIVATE ${ALPA_STANDARD_HEADERS} <fmt/core.h> ${ALPA_PRECOMPILED})
add_library(alpa_data STATIC ${ALPA_DATA_SOURCES})
target_precompile_headers(alpa_data REUSE_FROM alpa_core)
foreach(library alpa_core alpa_data)
  alpa_compile_together(${library})
  target_compile_features(${library} PUBLIC cxx_std_20)
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${library} PUBLIC fmt::fmt PRIVATE $<BUILD_INTERFACE:alpa_settings> $<BUILD_INTERFACE:Eigen3::Eigen>
    $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
endforeach()
target_link_libraries(alpa_core PRIVATE ${ALPA_LINKED_core} Threads::Threads ${CMAKE_DL_LIBS})
target_link_libraries(alpa_data PUBLIC alpa_core PRIVATE ${ALPA_LINKED_data})
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
set(ALPA_OBJECTS $<TARGET_OBJECTS:alpa_core> $<TARGET_OBJECTS:alpa_kernels>)
if(ALPA_ISA_KERNELS)
  foreach(isa ${ALPA_ISAS})
    add_library(alpa_${isa} OBJECT ${ALPA_ISA_KERNELS})
    alpa_compile_together(alpa_${isa})
    target_compile_definitions(alpa_${isa} PRIVATE ALPA_ISA=${isa})
    target_compile_options(alpa_${isa} PRIVATE ${ALPA_KERNEL_OPTIONS} ${ALPA_ISA_OPTIONS_${isa}})
    target_include_directories(alpa_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(alpa_${isa} PRIVATE alpa_settings fmt::fmt)
    target_sources(alpa_core PRIVATE $<TARGET_OBJECTS:alpa_${isa}>)
    list(APPEND ALPA_OBJECTS $<TARGET_OBJECTS:alpa_${isa}>)
  endforeach()
endif()
unset(CMAKE_CXX_VISIBILITY_PRESET)
unset(CMAKE_VISIBILITY_INLINES_HIDDEN)

# What programs link with: both. alpa_shared: the same objects as shared libraries, with BUILD_SHARED_LIBS those of users, else
# for tests of what they export. Of the static alpa_core, alpa_data takes the few hidden functions that it needs, as
# libalpa_cuda.so does.
add_library(alpa INTERFACE)
target_link_libraries(alpa INTERFACE alpa_data)
set(shared "")
if(BUILD_SHARED_LIBS OR ALPA_BUILD_TESTS)
  add_library(alpa_core_shared SHARED ${ALPA_OBJECTS})
  target_link_libraries(alpa_core_shared PUBLIC fmt::fmt PRIVATE ${ALPA_LINKED_core} Threads::Threads ${CMAKE_DL_LIBS})
  add_library(alpa_data_shared SHARED $<TARGET_OBJECTS:alpa_data>)
  target_link_libraries(alpa_data_shared PUBLIC alpa_core_shared PRIVATE $<BUILD_INTERFACE:alpa_core> ${ALPA_LINKED_data})
  target_link_options(alpa_data_shared PRIVATE LINKER:--exclude-libs,ALL LINKER:--as-needed)
  set_target_properties(alpa_core_shared alpa_data_shared PROPERTIES LINKER_LANGUAGE CXX INSTALL_RPATH "$ORIGIN"
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  foreach(room core data)
    target_compile_features(alpa_${room}_shared PUBLIC cxx_std_20)
    target_include_directories(alpa_${room}_shared PUBLIC
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    if(NOT ALPA_SANITIZE AND NOT ALPA_FUZZ)  # which leave functions to the program
      target_link_options(alpa_${room}_shared PRIVATE LINKER:-z,defs)
    endif()
    set_target_properties(alpa_${room}_shared PROPERTIES OUTPUT_NAME alpa_${room} EXPORT_NAME ${room})
  endforeach()
  add_library(alpa_shared INTERFACE)
  target_link_libraries(alpa_shared INTERFACE alpa_data_shared)
  set_target_properties(alpa_shared PROPERTIES EXPORT_NAME alpa)
endif()
set_target_properties(alpa_core PROPERTIES EXPORT_NAME core)
set_target_properties(alpa_data PROPERTIES EXPORT_NAME data)
if(BUILD_SHARED_LIBS)
  set(shared _shared)
endif()
add_library(alpa::alpa ALIAS alpa${shared})
add_library(alpa::core ALIAS alpa_core${shared})
add_library(alpa::data ALIAS alpa_data${shared})
set(ALPA_PRODUCTS alpa${shared} alpa_core${shared} alpa_data${shared})
if(NOT ALPA_CUDA_ABSENT OR NOT ALPA_MPI_ABSENT)
  target_link_options(alpa_core${shared} INTERFACE $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_link_options(alpa_core${shared} INTERFACE $<BUILD_INTERFACE:LINKER:-rpath,${CMAKE_RUNTIME_OUTPUT_DIRECTORY}>)
  endif()
endif()
