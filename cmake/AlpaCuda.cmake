# The CUDA backend, libalpa_cuda.so: kernels/cuda/*.cu and src/cuda/*.cc. It is a library of its own, which the core loads
# when a CUDA device is first asked for, so that nobody else loads a gigabyte of NVIDIA's libraries.
# Afterwards ALPA_CUDA_ABSENT is empty, or says in a line why there is no such library.
set(ALPA_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "What kernels are compiled for; 90 alone brings PTX for later cards")
set(ALPA_CUDA_HINT "apt-get install -y cuda-toolkit-13-0 libcudnn9-dev-cuda-13 libnccl-dev (from NVIDIA's Debian \
repository), or pip install nvidia-cudnn-cu13 nvidia-nccl-cu13 beside the toolkit and name their folders in CMAKE_PREFIX_PATH")

# Finds nvcc and the libraries, fills ALPA_CUDA_ABSENT and, if that stays empty, ALPA_CUDA_LIBRARIES. A macro, because
# languages are enabled where the project is.
macro(alpa_find_cuda)
  find_program(ALPA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(ALPA_NVCC)
  if(ALPA_NVCC)
    if(NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} ${ALPA_NVCC})
    endif()
    include(CheckLanguage)
    # Before the language is enabled: afterwards CMake's own choice stands.
    set(CMAKE_CUDA_ARCHITECTURES ${ALPA_CUDA_ARCHITECTURES})
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      enable_language(CUDA)
      find_package(CUDAToolkit 12 QUIET)
    endif()
  endif()

  if(NOT ALPA_NVCC)
    set(ALPA_CUDA_ABSENT "no nvcc")
  elseif(NOT CMAKE_CUDA_COMPILER)
    set(ALPA_CUDA_ABSENT "${ALPA_NVCC} compiles no test program")
  elseif(NOT CUDAToolkit_FOUND)
    set(ALPA_CUDA_ABSENT "no CUDA toolkit of version 12 or later beside ${CMAKE_CUDA_COMPILER}")
  else()
    find_path(ALPA_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(ALPA_CUDNN NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
    find_path(ALPA_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(ALPA_NCCL NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
    mark_as_advanced(ALPA_CUDNN_INCLUDE ALPA_CUDNN ALPA_NCCL_INCLUDE ALPA_NCCL)
    set(missing "")
    foreach(library cudart cublas cublasLt nvrtc)
      if(NOT TARGET CUDA::${library})
        list(APPEND missing ${library})
      endif()
      list(APPEND ALPA_CUDA_LIBRARIES CUDA::${library})
    endforeach()
    foreach(library CUDNN NCCL)
      if(NOT ALPA_${library} OR NOT ALPA_${library}_INCLUDE)
        list(APPEND missing ${library})
      endif()
      list(APPEND ALPA_CUDA_LIBRARIES ${ALPA_${library}})
    endforeach()
    if(missing)
      list(JOIN missing ", " missing)
      set(ALPA_CUDA_ABSENT "the toolkit has no ${missing}")
    endif()
  endif()
endmacro()

set(ALPA_CUDA_ABSENT "")
set(ALPA_CUDA_LIBRARIES "")
if(NOT ALPA_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ALPA_CUDA is '${ALPA_CUDA}'; it must be AUTO, ON or OFF.")
elseif(ALPA_CUDA STREQUAL "OFF")
  set(ALPA_CUDA_ABSENT "ALPA_CUDA=OFF")
elseif(ALPA_SANITIZE)
  if(ALPA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ALPA_CUDA=ON with ALPA_SANITIZE=${ALPA_SANITIZE}: the sanitizers know nothing of device memory; "
      "leave one of the two out.")
  endif()
  set(ALPA_CUDA_ABSENT "the sanitizers know nothing of device memory")
else()
  alpa_find_cuda()
endif()
if(ALPA_CUDA STREQUAL "ON" AND ALPA_CUDA_ABSENT)
  message(FATAL_ERROR "ALPA_CUDA=ON: ${ALPA_CUDA_ABSENT}. Install what is missing with\n  ${ALPA_CUDA_HINT}\n"
    "or configure with -DALPA_CUDA=AUTO or OFF.")
elseif(ALPA_CUDA STREQUAL "AUTO" AND ALPA_CUDA_ABSENT)
  message(STATUS "CUDA: ${ALPA_CUDA_ABSENT}; building for the CPU alone. To change that: ${ALPA_CUDA_HINT}")
endif()

if(NOT ALPA_CUDA_ABSENT)
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
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cc)

  add_library(alpa_cuda SHARED ${kernels} ${sources})
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
  # The driver's own library is in no list: a program linked with it does not start where there is no driver.
  target_link_libraries(alpa_cuda
    PUBLIC $<BUILD_INTERFACE:CUDA::cudart>
    PRIVATE $<BUILD_INTERFACE:alpa_settings> $<BUILD_INTERFACE:fmt::fmt-header-only> ${ALPA_CUDA_LIBRARIES})
  # Beside the programs, where the loader looks first.
  set_target_properties(alpa_cuda PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
endif()
