# The CUDA backend, libalpa_cuda.so: kernels/cuda/*.cu, src/cuda/load/*.cc and src/cuda/*.cc. It is a library of its own, which the core loads
# when a CUDA device is first asked for, so that nobody else loads a gigabyte of NVIDIA's libraries.
# The headers that generated kernels include travel in the library as text.
set(ALPA_RUN_TIME_HEADERS "")
foreach(header kernels/cuda/fused.h kernels/cuda/pack.h kernels/cuda/real.h kernels/cuda/element.h kernels/cuda/approximate.h
               kernels/elementwise.h src/base/half.h)
  file(READ ${PROJECT_SOURCE_DIR}/${header} text)
  string(REGEX REPLACE "^include/" "" name ${header})
  string(APPEND ALPA_RUN_TIME_HEADERS "    {\"${name}\", R\"header(${text})header\"},\n")
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/run_time_headers.cc.in ${PROJECT_BINARY_DIR}/run_time_headers.cc @ONLY)

if(ALPA_CUDA_ABSENT)
  return()
endif()

# CMake 3.25.1 knows no CUDA C++20.
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER AND CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# <op>.sm90a.cu uses what only sm_90a has and is compiled for nothing else.
file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
set(hopper_kernels ${kernels})
list(FILTER kernels EXCLUDE REGEX "\\.sm90a\\.cu$")
list(FILTER hopper_kernels INCLUDE REGEX "\\.sm90a\\.cu$")
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cc ${PROJECT_SOURCE_DIR}/src/cuda/load/*.cc)

add_library(alpa_cuda SHARED ${kernels} ${sources} ${PROJECT_BINARY_DIR}/run_time_headers.cc)
alpa_compile_together(alpa_cuda)
if(hopper_kernels)
  add_library(alpa_cuda_sm90a OBJECT ${hopper_kernels})
  set_target_properties(alpa_cuda_sm90a PROPERTIES CUDA_ARCHITECTURES 90a-real)
  target_include_directories(alpa_cuda_sm90a PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(alpa_cuda_sm90a PRIVATE alpa_settings CUDA::cudart)
  target_sources(alpa_cuda PRIVATE $<TARGET_OBJECTS:alpa_cuda_sm90a>)
endif()
target_compile_features(alpa_cuda PRIVATE cxx_std_20)
target_include_directories(alpa_cuda PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_include_directories(alpa_cuda SYSTEM PUBLIC
  $<BUILD_INTERFACE:${ALPA_CUDNN_INCLUDE}> $<BUILD_INTERFACE:${ALPA_NCCL_INCLUDE}>)
# Of a static alpa it takes the few objects it needs, for itself alone. The driver's own library is in no list: what is
# linked with it does not start where there is no driver.
target_link_libraries(alpa_cuda
  PUBLIC $<BUILD_INTERFACE:CUDA::cudart>
  PRIVATE $<BUILD_INTERFACE:alpa_settings> $<BUILD_INTERFACE:alpa_core> ${ALPA_CUDA_LIBRARIES} ${CMAKE_DL_LIBS})
target_link_options(alpa_cuda PRIVATE LINKER:--exclude-libs,ALL LINKER:--as-needed LINKER:-z,defs)
# Beside the programs, where the loader looks first.
set_target_properties(alpa_cuda PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} VISIBILITY_INLINES_HIDDEN ON
  INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
# Where cuDNN is looked for when it is first used.
if(ALPA_CUDNN)
  get_filename_component(folder ${ALPA_CUDNN} DIRECTORY)
  set_property(TARGET alpa_cuda APPEND PROPERTY BUILD_RPATH ${folder})
  set_property(TARGET alpa_cuda APPEND PROPERTY INSTALL_RPATH ${folder})
endif()

# What scripts/gpu_check needs: the CUDA tests and benchmarks, the examples and the doctor.
add_custom_target(cuda_programs DEPENDS alpa_cuda)
