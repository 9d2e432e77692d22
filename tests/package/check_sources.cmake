# cmake -DSOURCES=<alpa's folder> -DWORK=<scratch folder> -DVERSION=<x.y.z> [-DADD=ON] [-DCORE=<libalpa_core.a> -DDATA=<libalpa_data.a>] -P check_sources.cmake
# Configures the outside project with alpa as a part of it, by FetchContent or with ADD by add_subdirectory, without a build
# type and with one: both stay as they are. Then its program is built and run. CORE and DATA take the places of the
# libraries that alpa's part would build, in minutes: the project's own files are compiled and linked as alpa's targets say.
# Without them all is built, but what may be left out (ALPA_WITH_...): images are then refused.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

set(part _deps/alpa-build)
if(ADD)
  set(part alpa)
endif()
set(without "")
if(CORE)
  set(without -DALPA_CUDA=OFF -DALPA_MPI=OFF)  # which take a minute to find
else()
  set(without -DALPA_WITH_PNG=OFF -DALPA_WITH_JPEG=OFF -DALPA_WITH_DEFLATE=OFF -DALPA_WITH_CBC=OFF)
endif()
file(REMOVE_RECURSE ${WORK})
foreach(type Debug "")
  set(build ${WORK}/build${type})
  run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/outside -B ${build} -G "Unix Makefiles" -DALPA_SOURCES=${SOURCES} -DALPA_ADD=${ADD}
    -DCMAKE_BUILD_TYPE=${type} ${without})
  file(STRINGS ${build}/CMakeCache.txt kept REGEX "^CMAKE_BUILD_TYPE:")
  if(NOT kept MATCHES "=${type}$")
    message(FATAL_ERROR "alpa changed the build type '${type}' of the project around it: ${kept}")
  endif()
endforeach()

set(images ${SOURCES}/tests/golden/images/colour.png ${SOURCES}/tests/golden/images/colour.jpg)
if(CORE)
  file(COPY ${CORE} ${DATA} DESTINATION ${build}/${part})
  run(${CMAKE_COMMAND} --build ${build} --target outside/fast)  # without the libraries' own rules
  set(read "u8.9, 13, 3.\nu8.9, 13, 3.\n")
else()
  run(${CMAKE_COMMAND} --build ${build} --parallel 2 --target outside)
  foreach(format PNG JPEG)
    string(APPEND read "[^\n]*: is a ${format} image, but this build of alpa has no ${format}. configure it with -DALPA_WITH_${format}=ON\n")
  endforeach()
endif()
run(${build}/outside ${images})
if(NOT output MATCHES "^alpa ${VERSION} bf16.8, 768.\n[^\n]*\ntrained\n${read}$")
  message(FATAL_ERROR "the program of the project around alpa printed '${output}'")
endif()
