# Finds oneDNN and defines the imported target DNNL::dnnl. Debian's own dnnl-config.cmake asks for the OpenCL
# development files, which libdnnl-dev does not bring along and which nothing here uses.
find_path(OneDNN_INCLUDE_DIR dnnl.hpp)
find_library(OneDNN_LIBRARY dnnl)

set(_onednn_header "${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h")
if(EXISTS "${_onednn_header}")
  file(STRINGS "${_onednn_header}" _onednn_lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" _onednn_numbers "${_onednn_lines}")
  list(JOIN _onednn_numbers "." OneDNN_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR VERSION_VAR OneDNN_VERSION)
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)

if(OneDNN_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION "${OneDNN_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${OneDNN_INCLUDE_DIR}")
endif()
