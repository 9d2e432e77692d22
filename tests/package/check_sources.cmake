# cmake -DSOURCES=<alpa's folder> -DWORK=<scratch folder> [-DVERSION=<x.y.z>] -P check_sources.cmake
# Configures the outside project with alpa as a part of it, by FetchContent, without a build type and with one: both stay
# as they are. Given VERSION, the first is built and run.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
foreach(type "" Debug)
  set(build ${WORK}/build${type})
  run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/outside -B ${build} -DALPA_SOURCES=${SOURCES} -DCMAKE_BUILD_TYPE=${type})
  file(STRINGS ${build}/CMakeCache.txt kept REGEX "^CMAKE_BUILD_TYPE:")
  if(NOT kept MATCHES "=${type}$")
    message(FATAL_ERROR "alpa changed the build type '${type}' of the project around it: ${kept}")
  endif()
endforeach()
if(VERSION)
  run(${CMAKE_COMMAND} --build ${WORK}/build --parallel 2 --target outside)
  run(${WORK}/build/outside)
  if(NOT output MATCHES "^alpa ${VERSION} bf16.8, 768.\n.*\ntrained\n$")
    message(FATAL_ERROR "the program of the project around alpa printed '${output}'")
  endif()
endif()
