#pragma once
/// cuDNN, loaded at first use, so that programs that do not use it run without it.
#include <cudnn.h>

#include <string>

namespace alpa::cuda {

/// cuDNN's functions, by their names without "cudnn".
struct DnnFunctions {
  decltype(&::cudnnGetVersion) version = nullptr;
  decltype(&::cudnnGetErrorString) error_string = nullptr;
  decltype(&::cudnnGetLastErrorString) last_error_string = nullptr;
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnDestroy) destroy = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&::cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&::cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&::cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&::cudnnBackendFinalize) finalize = nullptr;
  decltype(&::cudnnBackendExecute) execute = nullptr;
};

/// Functions of the cuDNN library named `library`, looked up in the loader's search path and this
/// library's run path. Throws Error saying why it does not load, or that its major version is not
/// the one this was built for.
DnnFunctions load_dnn(const std::string& library);

/// "9.16.0" of 91600.
std::string dnn_version_text(std::size_t version);

/// Throws Error unless `dnn()` is there and of this version (91600) or a later one.
void require_dnn(std::size_t least_version);

/// Functions of cuDNN: from the library that this code is in (an emulation), from the process if
/// it has loaded cuDNN already, or from libcudnn.so.9. Throws Error as `load_dnn`, at every call
/// until cuDNN is found. May be called from any thread.
const DnnFunctions& dnn();

}  // namespace alpa::cuda
