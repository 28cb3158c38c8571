// C interface over TensorRT's plugin registry, for a host that is not C++: loads libforkcast_plugins.so into the
// registry, so that TensorRT's ONNX parser and deserialisation find our plugins, and takes it out again.
//
// The shim is linked against nothing of TensorRT. The caller passes the registry (what libnvinfer's
// `getPluginRegistry()` returns) or null, and then the libnvinfer that the process has loaded is asked.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FORKCAST_SHIM_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/// A library inside a registry.
typedef struct forkcast_plugins forkcast_plugins;

/// The registry of the libnvinfer this process has loaded; null, and the reason in `error`, if it has loaded none.
FORKCAST_SHIM_EXPORT void* forkcast_plugin_registry(char* error, size_t error_size);

/// Loads the library at `path` into `registry` (null: forkcast_plugin_registry). Before the registry sees it, the
/// library must open, name plugin ABI `abi` and have `getCreators`; afterwards every creator it has must be found.
/// Returns null and writes the reason to `error`, cut to `error_size` and always terminated, if anything of that fails;
/// nothing stays registered then.
FORKCAST_SHIM_EXPORT forkcast_plugins* forkcast_load_plugins(void* registry, const char* path, int32_t abi, char* error,
                                                             size_t error_size);

/// Takes the library out of the registry and closes it. Every engine, network and plugin made with it must be gone.
/// Null is ignored.
FORKCAST_SHIM_EXPORT void forkcast_unload(forkcast_plugins* plugins);

#ifdef __cplusplus
}
#endif
