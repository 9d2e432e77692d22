# Compiler settings of everything in this repository; nothing here is exported to users of the library.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
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

# What every target of the project compiles with, privately.
add_library(alpa_settings INTERFACE)
# nvcc hands warnings on to the host's compiler.
target_compile_options(alpa_settings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
target_include_directories(alpa_settings INTERFACE ${PROJECT_SOURCE_DIR})
if(ALPA_WERROR)
  target_compile_options(alpa_settings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
endif()
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

# alpa_compile_together(TARGET): compiles its sources by twelve, all of one folder, which takes half as long as one by one.
# ALPA_UNITY=OFF compiles them one by one: a change then compiles one file again.
function(alpa_compile_together target)
  if(NOT ALPA_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^/.*\\.cc$")
  set(folder "")
  foreach(source ${sources})
    get_filename_component(of_source ${source} DIRECTORY)
    if(NOT of_source STREQUAL folder)
      set(folder ${of_source})
      file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${folder})
      string(MAKE_C_IDENTIFIER ${name} name)
      set(count 0)
    endif()
    math(EXPR part "${count} / 12")
    math(EXPR count "${count} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${part})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # it takes the files for headers, whose anonymous types should not be members
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
