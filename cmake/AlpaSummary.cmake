# A short table of what was configured, printed last.
if(PROJECT_IS_TOP_LEVEL)
  get_target_property(type ${ALPA_PRODUCT} TYPE)
  string(REPLACE ";" " " isas "${ALPA_ISAS}")
  set(bench "${ALPA_BUILD_BENCH}")
  if(ALPA_BUILD_BENCH AND NOT benchmark_FOUND)
    set(bench "OFF (apt-get install -y libbenchmark-dev)")
  endif()
  set(sanitizers "none")
  if(ALPA_SANITIZE)
    set(sanitizers "${ALPA_SANITIZE}")
  endif()
  if(ALPA_CUDA_ABSENT)
    set(cuda "OFF (${ALPA_CUDA_ABSENT})")
  else()
    string(REPLACE ";" " " architectures "${ALPA_CUDA_ARCHITECTURES}")
    set(cuda "${CUDAToolkit_VERSION} for ${architectures}")
  endif()
  if(ALPA_MPI_ABSENT)
    set(mpi "OFF (${ALPA_MPI_ABSENT})")
  else()
    list(GET MPI_C_LIBRARIES 0 mpi)
    set(mpi "standard ${MPI_C_VERSION}, ${mpi}")
  endif()
  message(STATUS "alpa ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${type}, sanitizers ${sanitizers}\n"
    "     compiler     ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} through ${CMAKE_GENERATOR} ${CMAKE_CXX_COMPILER_LAUNCHER}\n"
    "     libraries    fmt ${fmt_VERSION}, Eigen ${Eigen3_VERSION}, oneDNN ${OneDNN_VERSION}, nlohmann-json ${nlohmann_json_VERSION}, CBC, libpng ${PNG_VERSION_STRING}, libjpeg, zlib, libdeflate, PCRE2, utf8proc\n"
    "     kernels      ${isas}, chosen at run time\n"
    "     tools ${ALPA_BUILD_TOOLS}, examples ${ALPA_BUILD_EXAMPLES}, tests ${ALPA_BUILD_TESTS}, bench ${bench}\n"
    "     CUDA         ${cuda}\n"
    "     MPI          ${mpi}")
endif()
