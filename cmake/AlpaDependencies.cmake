# Finds what the project needs, and says in one message how to install what is missing.
set(ALPA_MISSING_PACKAGES "")

# alpa_find(<package> <debian package> [arguments of find_package]): records the Debian package when it is absent.
macro(alpa_find package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND ALPA_MISSING_PACKAGES ${debian})
  endif()
endmacro()

# alpa_find_linked(<package> <debian package> <target>): a library that libalpa is linked with. What a static libalpa asks of its users
# (alpaConfig.cmake, alpa.pc) follows from these lists.
set(ALPA_LINKED "")
set(ALPA_LINKED_PACKAGES "")
macro(alpa_find_linked package debian target)
  alpa_find(${package} ${debian})
  list(APPEND ALPA_LINKED ${target})
  list(APPEND ALPA_LINKED_PACKAGES ${package})
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
alpa_find(fmt libfmt-dev CONFIG)
alpa_find(Eigen3 libeigen3-dev CONFIG)
alpa_find(nlohmann_json nlohmann-json3-dev CONFIG)
alpa_find_linked(OneDNN libdnnl-dev DNNL::dnnl)
alpa_find_linked(Cbc coinor-libcbc-dev Cbc::Cbc)
alpa_find_linked(PNG libpng-dev PNG::PNG)
alpa_find_linked(JPEG libjpeg62-turbo-dev JPEG::JPEG)
alpa_find_linked(ZLIB zlib1g-dev ZLIB::ZLIB)
alpa_find_linked(Deflate libdeflate-dev Deflate::deflate)
alpa_find_linked(PCRE2 libpcre2-dev PCRE2::pcre2)
alpa_find_linked(Utf8proc libutf8proc-dev Utf8proc::utf8proc)
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
