# cmake -DBUILD=<build folder> -DWORK=<scratch folder> -DVERSION=<x.y.z> -P check.cmake
# Installs alpa, moves the installation elsewhere, and builds and runs an outside project against it, once through
# find_package and once through pkg-config.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(check_program program)
  run(${program})
  if(NOT output STREQUAL "alpa ${VERSION} bf16[8, 768]\n")
    message(FATAL_ERROR "${program} printed '${output}'")
  endif()
endfunction()

set(outside ${CMAKE_CURRENT_LIST_DIR}/outside)
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)

run(${CMAKE_COMMAND} -S ${outside} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/moved -DCMAKE_BUILD_TYPE=Debug)
run(${CMAKE_COMMAND} --build ${WORK}/build)
check_program(${WORK}/build/outside)

file(GLOB_RECURSE installed ${WORK}/moved/*.cmake ${WORK}/moved/*.pc)
foreach(file ${installed})
  file(READ ${file} text)
  if(text MATCHES "${BUILD}|${WORK}/first")
    message(FATAL_ERROR "${file} names a folder of the machine it was built on")
  endif()
endforeach()

find_program(pkg_config pkg-config REQUIRED)
file(GLOB_RECURSE pc ${WORK}/moved/alpa.pc)
get_filename_component(pc_folder ${pc} DIRECTORY)
run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_folder} ${pkg_config} --cflags --libs alpa)
separate_arguments(flags UNIX_COMMAND "${output}")
find_program(compiler NAMES c++ g++ REQUIRED)
run(${compiler} -std=c++20 ${outside}/main.cc -o ${WORK}/by_pkg_config ${flags})
check_program(${WORK}/by_pkg_config)
