# `cmake --install`: a relocatable package for find_package(alpa CONFIG) and pkg-config.
