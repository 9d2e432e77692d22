# The C interface (bindings/c/alpa_c.h) as one shared library, libalpa_c.so: alpa_core within it, of which nothing is exported.
# bindings/python loads it; scripts/wheel puts what it loads beside it, where it is found by $ORIGIN. Its run path is that of
# DT_RPATH, which holds for the libraries that those load, too.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bindings/c/*.cc)
add_library(alpa_c SHARED ${sources})
target_compile_options(alpa_c PRIVATE ${ALPA_PROGRAM_OPTIONS})
target_link_libraries(alpa_c PRIVATE alpa_core alpa_settings nlohmann_json::nlohmann_json)
target_link_options(alpa_c PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/bindings/c/exports.map LINKER:--as-needed
                    LINKER:--disable-new-dtags)
set_property(TARGET alpa_c APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/bindings/c/exports.map)
set_target_properties(alpa_c PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON BUILD_RPATH "$ORIGIN"
                      INSTALL_RPATH "$ORIGIN" EXPORT_NAME c)
target_include_directories(alpa_c INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
