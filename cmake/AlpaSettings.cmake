# Compiler settings of everything in this repository; nothing here is exported to users of the library.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
include(GNUInstallDirs)

# Within another project its build type holds; without any, alpa is optimised nevertheless (alpa_settings).
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(ALPA_CCACHE ccache)
  mark_as_advanced(ALPA_CCACHE)
  if(ALPA_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER sh ${PROJECT_SOURCE_DIR}/cmake/ccache.sh ${ALPA_CCACHE})
  endif()
endif()

# What most files include, precompiled for the library and for the tests: without, compiling takes half as long again.
# CMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without, which shows headers that a file forgot, and lets ccache share
# objects between folders.
set(ALPA_STANDARD_HEADERS <algorithm> <array> <cmath> <cstdint> <functional> <limits> <map> <memory> <numeric> <optional> <set>
    <span> <string> <string_view> <utility> <vector>)

set(ALPA_PRECOMPILED <alpa/ops/ops.h> CACHE STRING "alpa's own, for the library: with more, a build takes less time, a change more")

# What tests and programs compile with, as their time is the library's. It takes two thirds of the time of -O2.
set(ALPA_PROGRAM_OPTIONS $<$<CONFIG:Release>:-Og>)

# What every target of the project compiles with, privately.
add_library(alpa_settings INTERFACE)
# nvcc hands warnings on to the host's compiler.
target_compile_options(alpa_settings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
target_include_directories(alpa_settings INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(alpa_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:ALPA_CHECK_MESSAGES>)  # alpa/base/error.h
if(ALPA_WERROR)
  target_compile_options(alpa_settings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
endif()
target_compile_options(alpa_settings INTERFACE $<$<CONFIG:>:-O2>)
if(ALPA_NATIVE)
  target_compile_options(alpa_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(ALPA_FUZZ)
  target_compile_options(alpa_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(ALPA_SANITIZE)
  target_compile_options(alpa_settings INTERFACE
    -fsanitize=${ALPA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(ALPA_SANITIZE MATCHES "undefined")
    # These checks of every pointer are half of the code and a third of the compile time. AddressSanitizer sees what they
    # see, except misaligned pointers, which kernels are compiled to find (ALPA_KERNEL_OPTIONS), and wrong downcasts.
    target_compile_options(alpa_settings INTERFACE -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  target_link_options(alpa_settings INTERFACE -fsanitize=${ALPA_SANITIZE})
endif()

# alpa_compile_together(TARGET): compiles its sources by up to ALPA_UNITY_FILES, all of one module, which takes half as long as
# one by one. ALPA_UNITY=OFF compiles them one by one: a change then compiles one file again.
function(alpa_compile_together target)
  if(NOT ALPA_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^/.*\\.cc$")
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH module ${PROJECT_SOURCE_DIR} ${folder})
    string(REGEX REPLACE "^([^/]*/[^/]*)/.*" "\\1" module ${module})
    list(APPEND modules ${module})
    list(APPEND files_${module} ${source})
  endforeach()
  list(REMOVE_DUPLICATES modules)
  foreach(module ${modules})
    string(MAKE_C_IDENTIFIER ${module} name)
    list(LENGTH files_${module} count)
    math(EXPR parts "(${count} + ${ALPA_UNITY_FILES} - 1) / ${ALPA_UNITY_FILES}")
    set(i 0)
    foreach(source ${files_${module}})
      math(EXPR part "${i} * ${parts} / ${count}")
      math(EXPR i "${i} + 1")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${part})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # it takes the files for headers, whose anonymous types should not be members
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
