# libalpa_mpi.so: src/mpi/*.cc. It is a library of its own, which the core loads when a launcher has started several
# processes. MPI libraries differ in their binary interface: where programs run with another one, this alone is rebuilt.
if(ALPA_MPI_ABSENT)
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/mpi/*.cc)
# It needs nothing of alpa but headers and what throws Error, so that hardly a function of alpa is there twice.
add_library(alpa_mpi MODULE ${sources} ${PROJECT_SOURCE_DIR}/src/base/error.cc)
target_compile_features(alpa_mpi PRIVATE cxx_std_20)
target_compile_definitions(alpa_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
target_include_directories(alpa_mpi PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(alpa_mpi PRIVATE alpa_settings fmt::fmt MPI::MPI_C)
target_link_options(alpa_mpi PRIVATE LINKER:--exclude-libs,ALL LINKER:--as-needed LINKER:-z,defs)
# Beside the programs, where the loader looks first.
set_target_properties(alpa_mpi PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} VISIBILITY_INLINES_HIDDEN ON
  INSTALL_RPATH_USE_LINK_PATH ON)
