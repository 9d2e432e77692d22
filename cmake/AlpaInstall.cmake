# `cmake --install`: the programs, example cluster files, and a relocatable package for find_package(alpa CONFIG) and pkg-config.
include(CMakePackageConfigHelpers)

set(ALPA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/alpa)
install(TARGETS alpa EXPORT alpaTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# No part of the package for others to link with: alpa loads them.
foreach(loaded alpa_cuda alpa_mpi)
  if(TARGET ${loaded})
    install(TARGETS ${loaded} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(EXPORT alpaTargets NAMESPACE alpa:: DESTINATION ${ALPA_PACKAGE_DIR})
if(ALPA_BUILD_TOOLS)
  install(TARGETS alpa_tool)
endif()
if(ALPA_BUILD_EXAMPLES)
  install(TARGETS ${ALPA_EXAMPLES})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/clusters DESTINATION ${CMAKE_INSTALL_DATADIR}/alpa)

# A static alpa brings its users the libraries it is linked with; a shared one only those of its headers.
get_target_property(ALPA_LIBRARY_TYPE alpa TYPE)
set(ALPA_PC_LIBS "-lalpa")
if(ALPA_LIBRARY_TYPE STREQUAL "STATIC_LIBRARY")
  string(APPEND ALPA_PC_LIBS " -lCbcSolver -lCbc -lCgl -lOsiClp -lClp -lOsi -lCoinUtils -ldnnl -lpng -ljpeg -lz -ldeflate -lpcre2-8 -lutf8proc -pthread")
endif()
if(TARGET alpa_cuda OR TARGET alpa_mpi)
  string(APPEND ALPA_PC_LIBS " -Wl,-rpath,\${libdir}")
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/alpaConfig.cmake.in ${PROJECT_BINARY_DIR}/alpaConfig.cmake
  INSTALL_DESTINATION ${ALPA_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/alpaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/alpaConfig.cmake
  ${PROJECT_BINARY_DIR}/alpaConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindCbc.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindDeflate.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindPCRE2.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindUtf8proc.cmake
  DESTINATION ${ALPA_PACKAGE_DIR})

# From the folder of alpa.pc back to the prefix, so that the package may be moved.
file(RELATIVE_PATH ALPA_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/alpa.pc.in ${PROJECT_BINARY_DIR}/alpa.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/alpa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
