# tests/<folder>/*.cc -> one program test_<folder>; every file <x>_test.cc in it is one ctest entry
# "<folder>/<x>" with the label <folder>. Where ALPA_NIGHTLY is set, as scripts/test --all sets it, tests do more
# (tests/support/nightly.h) and may take longer.
# Files named cuda… of tests/{api,equivalence,runtime} ask whether there is CUDA; they run again with the emulation of one
# card and of eight, as <folder>_emulated/<x>_<cards>.
# Folders named cuda… are linked with libalpa_cuda.so and exist where that does; a second time, as <folder>_emulated,
# they are linked with libalpa_cuda_emulated.so (tests/emulation), everywhere.
set(ALPA_TEST_TIMEOUT 300 CACHE STRING "Seconds after which a test entry fails")
if(DEFINED ENV{ALPA_NIGHTLY})
  set(ALPA_TEST_TIMEOUT 7200)
endif()

add_library(alpa_test_main OBJECT ${PROJECT_SOURCE_DIR}/tests/main.cc)
target_link_libraries(alpa_test_main PUBLIC doctest::doctest PRIVATE alpa_settings)
# The runner is 7 s of compiling at -O2 and nothing waits for its speed.
target_compile_options(alpa_test_main PRIVATE -O0)

# The case table of all operators: tests/ops and the CUDA tests are driven by it.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/ops/*cases.cc)
add_library(alpa_test_cases OBJECT ${sources} ${PROJECT_SOURCE_DIR}/tests/ops/reference.cc)
target_link_libraries(alpa_test_cases PRIVATE alpa alpa_settings)

# A launch in memory, which tests of many folders use.
add_library(alpa_test_support STATIC ${PROJECT_SOURCE_DIR}/tests/support/memory_wire.cc)
target_include_directories(alpa_test_support PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_compile_options(alpa_test_support PRIVATE ${ALPA_PROGRAM_OPTIONS})
target_link_libraries(alpa_test_support PUBLIC alpa PRIVATE alpa_settings Threads::Threads)

# alpa_add_test(ENTRY PROGRAM FILE LABELS [EMULATED cards]): the cases of one file. EMULATED: the program loads the emulated
# CUDA library, with so many cards.
function(alpa_add_test entry program file labels)
  cmake_parse_arguments(PARSE_ARGV 4 arg "" "EMULATED" "")
  # What CUDA compiles and measures at run time is kept beside the build, not in the user's home.
  set(environment XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache)
  set(excluded "")
  if(arg_EMULATED)
    list(APPEND environment
      ALPA_CUDA_LIBRARY=$<TARGET_FILE:alpa_cuda_emulated> ALPA_EMULATED_DEVICES=${arg_EMULATED})
    set(excluded "--test-case-exclude=*ceilings*")  # which are a GPU's
  endif()
  add_test(NAME ${entry} COMMAND ${program} --no-intro "--source-file=*/${file}" ${excluded})
  # A file whose cases all vanished must not pass: doctest itself is content with zero of them. One whose cases all
  # returned before they asserted anything, for want of a device or a tool, is reported as skipped; not one that threw.
  set_tests_properties(${entry} PROPERTIES LABELS "${labels}" TIMEOUT ${ALPA_TEST_TIMEOUT}
    ENVIRONMENT "${environment}" FAIL_REGULAR_EXPRESSION "test cases: +0 "
    SKIP_REGULAR_EXPRESSION "[|] +0 failed [|][^\n]*\n[^\n]*assertions: +0 ")
endfunction()

# An empty file, whose precompiled headers serve all tests: it is compiled as they are, as a part of a program (-fPIE).
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/precompiled_for_tests.cc CONTENT "")
add_library(precompiled_for_tests OBJECT ${PROJECT_BINARY_DIR}/precompiled_for_tests.cc)
set_target_properties(precompiled_for_tests PROPERTIES POSITION_INDEPENDENT_CODE OFF)
target_link_libraries(precompiled_for_tests PRIVATE alpa alpa_settings doctest::doctest)
target_compile_definitions(precompiled_for_tests PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
target_compile_options(precompiled_for_tests PRIVATE -fPIE ${ALPA_PROGRAM_OPTIONS})
target_precompile_headers(precompiled_for_tests PRIVATE ${ALPA_STANDARD_HEADERS} <fmt/core.h> <doctest/doctest.h>)

# alpa_add_test_folder(FOLDER [NAME]): NAME instead of the folder's in targets, entries and labels.
function(alpa_add_test_folder folder)
  set(name ${folder})
  if(ARGC GREATER 1)
    set(name ${ARGV1})
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/tests/ops/([a-z_]*cases|reference)\\.cc$")
  if(NOT (ALPA_HAS_PNG AND ALPA_HAS_JPEG))
    list(FILTER sources EXCLUDE REGEX "/tests/data/images_test\\.cc$")
  endif()
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources} $<TARGET_OBJECTS:alpa_test_main>)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(test_${name} PRIVATE
    DOCTEST_CONFIG_SUPER_FAST_ASSERTS ALPA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(test_${name} PRIVATE
    alpa_contest alpa_test_support alpa alpa_settings doctest::doctest Eigen3::Eigen nlohmann_json::nlohmann_json ZLIB::ZLIB Threads::Threads)
  target_compile_options(test_${name} PRIVATE ${ALPA_PROGRAM_OPTIONS})
  target_precompile_headers(test_${name} REUSE_FROM precompiled_for_tests)
  alpa_compile_together(test_${name})
  if(folder MATCHES "^(ops|cuda)$")
    target_sources(test_${name} PRIVATE $<TARGET_OBJECTS:alpa_test_cases>)
  endif()
  if(name MATCHES "_emulated$")
    target_link_libraries(test_${name} PRIVATE alpa_cuda_emulated)
  elseif(name STREQUAL "cuda")
    target_link_libraries(test_${name} PRIVATE alpa_cuda ${ALPA_CUDA_LIBRARIES})
    target_compile_definitions(test_${name} PRIVATE ALPA_CUDA_FILE="$<TARGET_FILE:alpa_cuda>")
    add_dependencies(cuda_programs test_${name})
  endif()
  list(FILTER sources INCLUDE REGEX "_test\\.cc$")
  foreach(source ${sources})
    get_filename_component(file ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" entry ${file})
    if(name MATCHES "_emulated$")
      alpa_add_test(${name}/${entry} test_${name} ${folder}/${file}.cc ${name} EMULATED 1)
    elseif(entry MATCHES "^cuda" AND folder MATCHES "^(api|equivalence|runtime)$")
      alpa_add_test(${name}/${entry} test_${name} ${folder}/${file}.cc "${name};cuda")
      if(ALPA_EMULATION)
        foreach(cards 1 8)  # logical devices, and a card per device
          alpa_add_test(${name}_emulated/${entry}_${cards} test_${name} ${folder}/${file}.cc ${name}_emulated
            EMULATED ${cards})
        endforeach()
        add_dependencies(test_${name} alpa_cuda_emulated)
      endif()
      if(TARGET cuda_programs)
        add_dependencies(cuda_programs test_${name})
      endif()
    else()
      alpa_add_test(${name}/${entry} test_${name} ${folder}/${file}.cc ${name})
    endif()
  endforeach()
endfunction()

set(ALPA_SASS_REPORT ${PROJECT_BINARY_DIR}/sass_report.txt)
if(ALPA_EMULATION)
  add_subdirectory(${PROJECT_SOURCE_DIR}/tests/emulation)
endif()
file(GLOB entries CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/tests/*)
foreach(entry ${entries})
  if(NOT IS_DIRECTORY ${PROJECT_SOURCE_DIR}/tests/${entry} OR entry MATCHES "^(bindings|emulation|models|package|pages|tools)$")
    continue()
  endif()
  if(NOT (entry STREQUAL "cuda" AND ALPA_CUDA_ABSENT))
    alpa_add_test_folder(${entry})
  endif()
  if(entry STREQUAL "cuda" AND ALPA_EMULATION)
    alpa_add_test_folder(${entry} ${entry}_emulated)
  endif()
endforeach()
include(AlpaRepositoryTests)
