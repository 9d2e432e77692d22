# Finds the MPI library that libalpa_mpi.so (AlpaMpiLibrary) is linked with.
# Afterwards ALPA_MPI_ABSENT is empty, or says in a line why there is no such library.
set(ALPA_MPI_HINT "apt-get install -y libopenmpi-dev openmpi-bin")

set(ALPA_MPI_ABSENT "")
if(NOT ALPA_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ALPA_MPI is '${ALPA_MPI}'; it must be AUTO, ON or OFF.")
elseif(ALPA_MPI STREQUAL "OFF")
  set(ALPA_MPI_ABSENT "ALPA_MPI=OFF")
elseif(ALPA_SANITIZE AND ALPA_MPI STREQUAL "AUTO")
  # They report what MPI does. Wires in memory (tests/support/memory_wire.h) take its place.
  set(ALPA_MPI_ABSENT "MPI libraries are not made for the sanitizers")
else()
  # FindMPI tries MPI of C, which has no C++ bindings, with a compiler of C.
  include(CheckLanguage)
  check_language(C)
  if(CMAKE_C_COMPILER)
    enable_language(C)
    find_package(MPI QUIET COMPONENTS C)
  endif()
  if(NOT TARGET MPI::MPI_C)
    set(ALPA_MPI_ABSENT "no MPI")
  endif()
endif()
if(ALPA_MPI STREQUAL "ON" AND ALPA_MPI_ABSENT)
  message(FATAL_ERROR "ALPA_MPI=ON: ${ALPA_MPI_ABSENT}. Install what is missing with\n  ${ALPA_MPI_HINT}\n"
    "or configure with -DALPA_MPI=AUTO or OFF.")
elseif(ALPA_MPI STREQUAL "AUTO" AND ALPA_MPI_ABSENT)
  message(STATUS "MPI: ${ALPA_MPI_ABSENT}; building for one process alone. To change that: ${ALPA_MPI_HINT}")
endif()
