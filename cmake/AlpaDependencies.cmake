# Finds what the project needs, and says in one message how to install what is missing.
set(ALPA_MISSING_PACKAGES "")

# alpa_find(<package> <debian package> [arguments of find_package]): records the Debian package when it is absent.
macro(alpa_find package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND ALPA_MISSING_PACKAGES ${debian})
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
alpa_find(fmt libfmt-dev CONFIG)
alpa_find(Eigen3 libeigen3-dev CONFIG)
alpa_find(nlohmann_json nlohmann-json3-dev CONFIG)
alpa_find(OneDNN libdnnl-dev)
alpa_find(Cbc coinor-libcbc-dev)
alpa_find(ZLIB zlib1g-dev)
alpa_find(Deflate libdeflate-dev)
alpa_find(PNG libpng-dev)
alpa_find(JPEG libjpeg62-turbo-dev)
if(ALPA_BUILD_TOOLS OR ALPA_BUILD_EXAMPLES OR ALPA_BUILD_BENCH)
  alpa_find(CLI11 libcli11-dev CONFIG)
endif()
if(ALPA_BUILD_TESTS)
  alpa_find(doctest doctest-dev CONFIG)
endif()
if(ALPA_BUILD_BENCH)
  find_package(benchmark CONFIG QUIET)
endif()

if(ALPA_MISSING_PACKAGES)
  list(JOIN ALPA_MISSING_PACKAGES " " ALPA_MISSING_PACKAGES)
  message(FATAL_ERROR "Missing packages. Install them with\n"
    "  apt-get install -y ${ALPA_MISSING_PACKAGES}\n"
    "or run scripts/setup, which installs everything the build needs; then configure again.")
endif()
