# Finds COIN-OR CBC, which ships no CMake package, and defines the imported target Cbc::Cbc.
# Only the solver's own libraries are named: cbc.pc also asks for bz2, z, lapack and blas, which the shared
# libraries already bring along.
find_path(Cbc_INCLUDE_DIR CbcModel.hpp PATH_SUFFIXES coin coin-or)
set(_cbc_variables "")
foreach(_library CbcSolver Cbc Cgl OsiClp Clp Osi CoinUtils)
  find_library(Cbc_${_library}_LIBRARY ${_library})
  list(APPEND _cbc_variables Cbc_${_library}_LIBRARY)
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cbc REQUIRED_VARS Cbc_INCLUDE_DIR ${_cbc_variables})
mark_as_advanced(Cbc_INCLUDE_DIR ${_cbc_variables})

if(Cbc_FOUND AND NOT TARGET Cbc::Cbc)
  add_library(Cbc::Cbc INTERFACE IMPORTED)
  # CBC includes its own headers by plain name and is not clean under -Wextra, hence "system".
  set_target_properties(Cbc::Cbc PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${Cbc_INCLUDE_DIR}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${Cbc_INCLUDE_DIR}")
  foreach(_variable ${_cbc_variables})
    set_property(TARGET Cbc::Cbc APPEND PROPERTY INTERFACE_LINK_LIBRARIES "${${_variable}}")
  endforeach()
endif()
