# Tests that are more than a program of doctest cases: structure, pages with programs, and package.

# What only the compiler and the linker can say of the structure; the other claims are tests/structure/*_test.cc.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT ALPA_SANITIZE)
  add_test(NAME structure/headers_alone COMMAND ${PROJECT_SOURCE_DIR}/tests/structure/headers_alone.sh
    ${CMAKE_CXX_COMPILER} ${PROJECT_SOURCE_DIR}
    "-I$<JOIN:$<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>,;-I>"
    "-isystem$<JOIN:$<TARGET_PROPERTY:Eigen3::Eigen,INTERFACE_INCLUDE_DIRECTORIES>,;-isystem>" COMMAND_EXPAND_LISTS)
  set_tests_properties(structure/headers_alone PROPERTIES LABELS structure TIMEOUT ${ALPA_TEST_TIMEOUT} PROCESSORS 2)
  # Pages whose blocks are applied to a copy of the sources.
  foreach(added precompiled operator schedule backend collective)
    set(page adding-a-${added})
    if(added STREQUAL "operator")
      set(page adding-an-operator)
    elseif(added STREQUAL "precompiled")
      set(page precompiled)
    endif()
    add_test(NAME structure/new_${added} COMMAND ${PROJECT_SOURCE_DIR}/tests/structure/added_code.sh
      ${CMAKE_CXX_COMPILER} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${page} $<TARGET_OBJECTS:alpa_test_main>
      "-I$<JOIN:$<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>,;-I>" COMMAND_EXPAND_LISTS)
    # Half a minute of compilation, which takes long on a machine that does something else, too.
    set_tests_properties(structure/new_${added} PROPERTIES LABELS structure TIMEOUT 900 FIXTURES_REQUIRED precompiled)
    if(added STREQUAL "precompiled")
      set_tests_properties(structure/new_${added} PROPERTIES FIXTURES_REQUIRED "" FIXTURES_SETUP precompiled)
    endif()
  endforeach()
endif()

if(ALPA_ISA_KERNELS AND NOT ALPA_SANITIZE)
  set(objects "")
  foreach(isa ${ALPA_ISAS})
    list(APPEND objects $<TARGET_OBJECTS:alpa_${isa}>)
  endforeach()
  add_test(NAME structure/isa_symbols COMMAND ${PROJECT_SOURCE_DIR}/tests/structure/isa_symbols.sh ${objects}
    COMMAND_EXPAND_LISTS)
  set_tests_properties(structure/isa_symbols PROPERTIES LABELS structure TIMEOUT ${ALPA_TEST_TIMEOUT})
endif()

add_test(NAME structure/exported COMMAND ${PROJECT_SOURCE_DIR}/tests/structure/exported.sh
  $<TARGET_FILE:alpa_core_shared> $<TARGET_FILE:alpa_data_shared>)
set_tests_properties(structure/exported PROPERTIES LABELS structure TIMEOUT ${ALPA_TEST_TIMEOUT})

# Libraries that the tests of a folder load in the place of libalpa_cuda.so or libalpa_mpi.so.
function(alpa_add_fake_library folder name source)
  add_library(${name} MODULE ${PROJECT_SOURCE_DIR}/tests/${folder}/fake/${source})
  target_link_libraries(${name} PRIVATE alpa_settings)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fake)
  add_dependencies(test_${folder} ${name})
endfunction()
set(no_driver "CUDA 13.0 runtime,\\nbut no driver (cudaErrorInsufficientDriver)")
alpa_add_fake_library(cuda_loader fake_cuda_newer cuda_library.cc FAKE_INTERFACE=alpa::kCudaInterface+1 FAKE_DEVICES=2 FAKE_REASON="")
alpa_add_fake_library(cuda_loader fake_cuda_driverless cuda_library.cc FAKE_INTERFACE=alpa::kCudaInterface FAKE_DEVICES=0 "FAKE_REASON=\"${no_driver}\"")
alpa_add_fake_library(cuda_loader fake_cuda_two_devices cuda_library.cc FAKE_INTERFACE=alpa::kCudaInterface FAKE_DEVICES=2 FAKE_REASON="")
alpa_add_fake_library(cuda_loader fake_cuda_incomplete incomplete.cc)
target_compile_definitions(test_cuda_loader PRIVATE ALPA_FAKE_CUDA_FOLDER="${PROJECT_BINARY_DIR}/fake"
  ALPA_HAS_CUDA=$<BOOL:$<TARGET_EXISTS:alpa_cuda>>)
if(TARGET alpa_cuda)
  add_dependencies(test_cuda_loader alpa_cuda)
  # cuDNN finds it by its name where there is no driver.
  alpa_add_fake_library(cuda fake_driver driver.cc)
  target_link_options(fake_driver PRIVATE LINKER:-soname,libcuda.so.1)
  target_compile_definitions(test_cuda PRIVATE ALPA_FAKE_DRIVER="$<TARGET_FILE:fake_driver>")
endif()

# What the machine code of kernels says is read once, for cuda/sass and emulation/waves: the code of kernels that cuda/sass
# names in a row of a table, and of those that may spill.
if(TARGET alpa_cuda)
  file(STRINGS ${PROJECT_SOURCE_DIR}/tests/cuda/sass_test.cc names REGEX "^ +{\"")
  list(TRANSFORM names REPLACE "^ +{\"([^\"]+)\".*" "\\1")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cuda/sass_test.cc)
  add_test(NAME cuda/sass_report COMMAND sh -c "report=$1; shift; \"$0\" --brief \"$@\" >\"$report\""
    ${PROJECT_SOURCE_DIR}/scripts/sass_report ${ALPA_SASS_REPORT} $<TARGET_FILE:alpa_cuda> ${names})
  set_tests_properties(cuda/sass_report PROPERTIES
    LABELS cuda TIMEOUT ${ALPA_TEST_TIMEOUT} FIXTURES_SETUP sass_report SKIP_RETURN_CODE 77)
  set_property(TEST cuda/sass PROPERTY FIXTURES_REQUIRED sass_report)
  set_property(TEST cuda/sass APPEND PROPERTY ENVIRONMENT ALPA_SASS_REPORT=${ALPA_SASS_REPORT})
endif()

# tests/processes/programs/<x>.cc -> processes_<x>, which tests of that folder start as several processes.
file(GLOB programs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/processes/programs/*.cc)
foreach(source ${programs})
  get_filename_component(name ${source} NAME_WE)
  add_executable(processes_${name} ${source} ${PROJECT_SOURCE_DIR}/tests/processes/wire_contract.cc)
  target_include_directories(processes_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(processes_${name} PRIVATE ${ALPA_PROGRAM_OPTIONS})
  target_link_libraries(processes_${name} PRIVATE alpa alpa_settings Threads::Threads)
  add_dependencies(test_processes processes_${name})
  if(TARGET alpa_mpi)
    add_dependencies(processes_${name} alpa_mpi)
  endif()
endforeach()
if(TARGET alpa-mlp)
  add_dependencies(test_processes alpa-mlp)
endif()
alpa_add_fake_library(processes fake_mpi_newer mpi_library.cc FAKE_INTERFACE=alpa::processes::kMpiInterface+1 FAKE_VERSION="1")
alpa_add_fake_library(processes fake_mpi_nameless mpi_library.cc FAKE_INTERFACE=alpa::processes::kMpiInterface FAKE_VERSION="")
alpa_add_fake_library(processes fake_mpi_stuck mpi_library.cc FAKE_INTERFACE=alpa::processes::kMpiInterface
  "FAKE_VERSION=\"Pigeon MPI 1.0\"")
alpa_add_fake_library(processes fake_mpi_broken mpi_library.cc FAKE_INTERFACE=alpa::processes::kMpiInterface
  FAKE_VERSION="1" FAKE_BREAKS)
target_compile_definitions(test_processes PRIVATE ALPA_FAKE_MPI_FOLDER="${PROJECT_BINARY_DIR}/fake" ALPA_PROCESS_PROGRAMS="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
  ALPA_HAS_MPI=$<BOOL:$<TARGET_EXISTS:alpa_mpi>> ALPA_HAS_EXAMPLES=$<BOOL:$<TARGET_EXISTS:alpa-mlp>>)

# alpa_add_page(PAGE): what a page shows is tried. Its ```cpp blocks, one after another, are the program page_<stem>, which
# prints the ```text blocks that follow them at once. A ```cpp block with a second main begins the program page_<stem>_2.
# Its ```sh blocks are commands that succeed, its ```json blocks cluster files. Any other ```text block is only text.
function(alpa_add_page page)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${page})
  get_filename_component(name ${page} NAME_WE)
  string(TOLOWER ${name} name)
  file(READ ${PROJECT_SOURCE_DIR}/${page} text)
  alpa_add_page_text(${name} "${text}")
endfunction()

function(alpa_add_page_text name rest)
  foreach(kind last cpp text sh json)
    set(${kind} "")
  endforeach()
  while(rest MATCHES "\n```(cpp|text|sh|json)\n(.*)")
    set(kind ${CMAKE_MATCH_1})
    set(body "${CMAKE_MATCH_2}")
    string(FIND "${rest}" "\n```\n```text\n" behind)
    string(FIND "${body}" "\n```" end)
    string(SUBSTRING "${body}" 0 ${end} block)
    if(cpp MATCHES "int main" AND kind STREQUAL "cpp" AND block MATCHES "int main")
      alpa_add_page_text(${name}_2 "${rest}")
      break()
    endif()
    if(NOT kind STREQUAL "text" OR (behind EQUAL 0 AND last STREQUAL "cpp"))
      string(APPEND ${kind} "${block}\n")
    endif()
    set(last ${kind})
    string(SUBSTRING "${body}" ${end} -1 rest)
  endwhile()
  set(folder ${PROJECT_BINARY_DIR}/pages/${name})
  file(MAKE_DIRECTORY ${folder})
  foreach(read clusters LICENSE tests/golden/pretrained/llama tests/import/data/mlp.mlir.gz
          tests/import/data/mlp_data.safetensors)
    get_filename_component(link ${read} NAME)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${read} ${folder}/${link} SYMBOLIC)
  endforeach()
  foreach(file expected.txt:text commands.sh:sh cluster.json:json)
    string(REPLACE ":" ";" file ${file})
    list(GET file 1 kind)
    list(GET file 0 file)
    if(${kind} STREQUAL "")
      file(REMOVE ${folder}/${file})
    else()
      file(GENERATE OUTPUT ${folder}/${file} CONTENT "${${kind}}")
    endif()
  endforeach()
  if(cpp)
    if(NOT text)
      message(FATAL_ERROR "page ${name} does not say what its program prints: a ```text block right behind a ```cpp block")
    endif()
    file(GENERATE OUTPUT ${folder}/program.cc CONTENT "${cpp}")
    add_executable(page_${name} ${folder}/program.cc)
    # Headers that a page includes are public, and so is what they declare.
    target_compile_options(page_${name} PRIVATE ${ALPA_PROGRAM_OPTIONS})
    target_link_libraries(page_${name} PRIVATE alpa_shared alpa_settings)
    add_dependencies(test_pages page_${name})
  endif()
endfunction()
alpa_add_test_folder(pages)
target_compile_definitions(test_pages PRIVATE ALPA_PAGES="${PROJECT_BINARY_DIR}/pages"
  ALPA_PAGE_PROGRAMS="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
  ALPA_PAGE_COMMANDS=$<AND:$<BOOL:${ALPA_BUILD_EXAMPLES}>,$<BOOL:${ALPA_BUILD_TOOLS}>>)
if(ALPA_BUILD_EXAMPLES AND ALPA_BUILD_TOOLS)
  add_dependencies(test_pages alpa_tool ${ALPA_EXAMPLES})
endif()
file(GLOB pages CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/docs/*.md)
# Tests of their own compare the blocks of these with the sources.
list(FILTER pages EXCLUDE REGEX "docs/(adding-an?-[a-z]+|design)\\.md")
foreach(page README.md CONTRIBUTING.md ${pages})
  alpa_add_page(${page})
endforeach()

if(ALPA_BUILD_TOOLS)
  alpa_add_test_folder(tools)
  target_link_libraries(test_tools PRIVATE alpa_commands)
  add_dependencies(test_tools alpa_tool)
  add_library(own_operators MODULE tests/tools/operators/own_operators.cc)
  target_include_directories(own_operators PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(own_operators PRIVATE alpa_settings fmt::fmt)
  add_dependencies(test_tools own_operators)
  target_compile_definitions(test_tools PRIVATE ALPA_TOOL="$<TARGET_FILE:alpa_tool>"
    ALPA_OWN_OPERATORS="$<TARGET_FILE:own_operators>"
    ALPA_FAKE_MPI_FOLDER="${PROJECT_BINARY_DIR}/fake")
  add_dependencies(test_tools fake_mpi_newer)
  if(TARGET alpa_mpi)
    add_dependencies(test_tools alpa_mpi)
  endif()
endif()

if(ALPA_BUILD_BINDINGS)
  alpa_add_test_folder(bindings)
  target_link_libraries(test_bindings PRIVATE alpa_c)
  add_test(NAME bindings/header_in_c COMMAND ${CMAKE_CXX_COMPILER} -x c -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only
    ${PROJECT_SOURCE_DIR}/bindings/c/alpa_c.h)
  set_tests_properties(bindings/header_in_c PROPERTIES LABELS bindings TIMEOUT ${ALPA_TEST_TIMEOUT})
endif()

if(ALPA_BUILD_EXAMPLES)
  alpa_add_test_folder(models)
  target_link_libraries(test_models PRIVATE alpa_models)
  add_dependencies(test_models ${ALPA_EXAMPLES})
  if(TARGET alpa_tool)
    add_dependencies(test_models alpa_tool)
  endif()
  target_compile_definitions(test_models PRIVATE ALPA_MLP="$<TARGET_FILE:alpa-mlp>"
    ALPA_GPT="$<TARGET_FILE:alpa-gpt>"
    ALPA_PROGRAMS="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  set(emulated "")
  if(ALPA_EMULATION)
    add_dependencies(test_models alpa_cuda_emulated)
    set(emulated $<TARGET_FILE:alpa_cuda_emulated>)
  endif()
  target_compile_definitions(test_models PRIVATE ALPA_EMULATED_LIBRARY="${emulated}")
endif()

# Programs built outside do not know of the sanitizers.
if(ALPA_INSTALL AND NOT ALPA_SANITIZE)
  add_test(NAME package/outside_project COMMAND ${CMAKE_COMMAND}
    -DBUILD=${PROJECT_BINARY_DIR} -DWORK=${PROJECT_BINARY_DIR}/package_test -DVERSION=${PROJECT_VERSION}
    -DCUDA=$<TARGET_EXISTS:alpa_cuda> -DMPI=$<TARGET_EXISTS:alpa_mpi> -DBINDINGS=$<BOOL:${ALPA_BUILD_BINDINGS}>
    -DEXAMPLES=$<BOOL:${ALPA_BUILD_EXAMPLES}>
    -P ${PROJECT_SOURCE_DIR}/tests/package/check.cmake)
  set_tests_properties(package/outside_project PROPERTIES LABELS package TIMEOUT ${ALPA_TEST_TIMEOUT})
  # The same project with alpa as a part of it. Its program is linked with the libraries of this build; at night
  # all of alpa is built, too.
  foreach(entry fetch_content:OFF add_subdirectory:ON)
    string(REGEX MATCH "^(.*):(.*)$" entry ${entry})
    add_test(NAME package/${CMAKE_MATCH_1} COMMAND ${CMAKE_COMMAND} -DSOURCES=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
      -DWORK=${PROJECT_BINARY_DIR}/${CMAKE_MATCH_1} -DADD=${CMAKE_MATCH_2} -DCORE=$<TARGET_FILE:alpa_core>
      -DDATA=$<TARGET_FILE:alpa_data> -P ${PROJECT_SOURCE_DIR}/tests/package/check_sources.cmake)
    set_tests_properties(package/${CMAKE_MATCH_1} PROPERTIES LABELS package TIMEOUT ${ALPA_TEST_TIMEOUT})
  endforeach()
  if(DEFINED ENV{ALPA_NIGHTLY})
    add_test(NAME package/fetch_content_built COMMAND ${CMAKE_COMMAND} -DSOURCES=${PROJECT_SOURCE_DIR}
      -DWORK=${PROJECT_BINARY_DIR}/fetch_content_built -DVERSION=${PROJECT_VERSION}
      -P ${PROJECT_SOURCE_DIR}/tests/package/check_sources.cmake)
    set_tests_properties(package/fetch_content_built PROPERTIES LABELS package TIMEOUT ${ALPA_TEST_TIMEOUT} PROCESSORS 2)
  endif()
endif()

if(ALPA_FUZZ)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*harness.cc)
  add_executable(fuzz_parsers ${PROJECT_SOURCE_DIR}/tests/fuzz/libfuzzer/main.cc ${sources})
  target_include_directories(fuzz_parsers PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(fuzz_parsers PRIVATE ALPA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(fuzz_parsers PRIVATE alpa_contest alpa alpa_settings ZLIB::ZLIB)
  target_link_options(fuzz_parsers PRIVATE -fsanitize=fuzzer)
endif()

# The CUDA benchmarks at their smallest sizes, on the emulation: that they run and what they print.
if(ALPA_BUILD_BENCH AND benchmark_FOUND AND ALPA_EMULATION)
  set(arguments_of_kernels --rows 64 --columns 256 --rounds 1)
  set(arguments_of_matmul --size 128 --rounds 1 --runs 1)
  set(arguments_of_mlp_step --dim 128 --batch 128 --layers 2 --rounds 1 --steps 2)
  set(arguments_of_convolution --tiny --batch 2 --rounds 1 --runs 1)
  set(arguments_of_step --batch 2 --sequence 16 --vocabulary 64 --rounds 1 --steps 1 --held 0)
  set(names kernels matmul mlp_step convolution)
  if(TARGET alpa_models)
    list(APPEND names step)
  endif()
  foreach(name ${names})
    set(sources ${PROJECT_SOURCE_DIR}/bench/cuda_${name}.cc)
    if(TARGET bench_cuda_${name})
      set(sources $<TARGET_OBJECTS:bench_cuda_${name}>)  # compiled once: they differ in what they are linked with
    endif()
    add_executable(bench_emulated_${name} ${sources})
    target_link_libraries(bench_emulated_${name} PRIVATE alpa_cuda_emulated alpa alpa_common alpa_settings)
    add_test(NAME bench_emulated/${name} COMMAND bench_emulated_${name} ${arguments_of_${name}})
    set(passes "\"met\": (true|false)")
    if(name STREQUAL "step")
      target_link_libraries(bench_emulated_step PRIVATE alpa_models)
      set(passes "\"teraflops\": .*kernels of the step")
    endif()
    set_tests_properties(bench_emulated/${name} PROPERTIES LABELS bench_emulated TIMEOUT ${ALPA_TEST_TIMEOUT}
      ENVIRONMENT "ALPA_CUDA_LIBRARY=$<TARGET_FILE:alpa_cuda_emulated>;XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache"
      PASS_REGULAR_EXPRESSION "${passes}" FAIL_REGULAR_EXPRESSION "skipped|null|nan|inf")
  endforeach()
  if(TARGET alpa_models)  # queries, keys and values are timed as the one launch that they are
    add_test(NAME bench_emulated/products COMMAND bench_emulated_step ${arguments_of_step} --products --ceiling 128)
    set_tests_properties(bench_emulated/products PROPERTIES LABELS bench_emulated TIMEOUT ${ALPA_TEST_TIMEOUT}
      ENVIRONMENT "ALPA_CUDA_LIBRARY=$<TARGET_FILE:alpa_cuda_emulated>;XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache"
      PASS_REGULAR_EXPRESSION "einsum_group [^\n]*\"launches\": 1," FAIL_REGULAR_EXPRESSION "skipped|null|nan|inf|one by one")
  endif()
endif()

# scripts/gpu_check and scripts/skipped_check are Python, and so are tests of scripts.
find_package(Python3 3.8 COMPONENTS Interpreter QUIET)
if(Python3_Interpreter_FOUND)
  foreach(name peers setup skipped_check)
    add_test(NAME scripts/${name} COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/scripts/${name}_test.py)
    set_tests_properties(scripts/${name} PROPERTIES LABELS scripts TIMEOUT ${ALPA_TEST_TIMEOUT})
  endforeach()
  add_test(NAME scripts/gpu_check COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/scripts/gpu_check_test.py)
  set(environment XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache PYTHONDONTWRITEBYTECODE=1)
  if(TARGET bench_emulated_step AND ALPA_BUILD_TOOLS AND ALPA_BUILD_EXAMPLES AND NOT ALPA_SANITIZE)
    list(APPEND environment ALPA_CUDA_LIBRARY=$<TARGET_FILE:alpa_cuda_emulated> ALPA_PROGRAMS=${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  endif()
  # Some hundred processes one after another, which take long on a machine that does something else, too.
  set_tests_properties(scripts/gpu_check PROPERTIES LABELS scripts TIMEOUT 900 ENVIRONMENT "${environment}")
  if(ALPA_BUILD_TOOLS)  # in Chromium, where that is
    add_test(NAME scripts/report_browser COMMAND ${Python3_EXECUTABLE}
      ${PROJECT_SOURCE_DIR}/tests/scripts/report_browser_test.py $<TARGET_FILE:alpa_tool>)
    set_tests_properties(scripts/report_browser PROPERTIES LABELS scripts TIMEOUT ${ALPA_TEST_TIMEOUT} SKIP_RETURN_CODE 77)
  endif()
endif()

# Python's package, by the Python that ALPA_PYTHON names: skipped where that lacks NumPy, and of the examples jax.
if(ALPA_BUILD_BINDINGS AND Python3_Interpreter_FOUND AND NOT ALPA_SANITIZE)
  set(ALPA_PYTHON ${Python3_EXECUTABLE} CACHE FILEPATH "Python with NumPy, and jax, for tests of bindings/python")
  set(tests ${PROJECT_SOURCE_DIR}/tests/bindings)
  set(command_of_python ${tests}/python_test.py)
  set(command_of_jax ${tests}/jax_test.py)
  set(command_of_page ${tests}/example_test.py docs/python.md)
  foreach(example shard_in_jax text train)
    set(command_of_${example} ${tests}/example_test.py bindings/python/examples/${example}.py)
  endforeach()
  foreach(entry python jax page shard_in_jax text train)
    add_test(NAME bindings/${entry} COMMAND ${ALPA_PYTHON} -B ${command_of_${entry}})
    set_tests_properties(bindings/${entry} PROPERTIES LABELS bindings TIMEOUT 900 SKIP_RETURN_CODE 77
      ENVIRONMENT "ALPA_LIBRARY=$<TARGET_FILE:alpa_c>;PYTHONDONTWRITEBYTECODE=1")
  endforeach()
  add_test(NAME bindings/libraries COMMAND ${Python3_EXECUTABLE} -B ${tests}/libraries_test.py)
  set_tests_properties(bindings/libraries PROPERTIES LABELS bindings TIMEOUT ${ALPA_TEST_TIMEOUT})
endif()

# A Slurm of this machine, at night; skipped where there is none.
if(DEFINED ENV{ALPA_NIGHTLY} AND TARGET alpa_mpi AND ALPA_BUILD_TOOLS AND ALPA_BUILD_EXAMPLES AND NOT ALPA_SANITIZE)
  add_test(NAME scripts/slurm_check COMMAND ${PROJECT_SOURCE_DIR}/scripts/slurm_check ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set_tests_properties(scripts/slurm_check PROPERTIES LABELS scripts TIMEOUT ${ALPA_TEST_TIMEOUT} PROCESSORS 2
    SKIP_RETURN_CODE 77)
endif()

# Two tests run at a time. Those that compare seconds run alone, and those that start many processes at once, which would
# starve the signs of life of another test's.
foreach(entry base/spin_wait ilp/cutoff ilp/deadline processes/divergence processes/fault_injection processes/stall)
  set_tests_properties(${entry} PROPERTIES PROCESSORS 2)
endforeach()

# The longest begin first. Left for the end, each would run for a minute beside an idle core.
foreach(entry pages/programs scripts/gpu_check cuda/sass_report)
  if(TEST ${entry})
    set_property(TEST ${entry} PROPERTY COST 100)
  endif()
endforeach()
