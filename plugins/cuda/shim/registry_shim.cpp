#include "registry_shim.h"

#include <dlfcn.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <NvInferRuntime.h>

struct forkcast_plugins {
    nvinfer1::IPluginRegistry* registry;
    nvinfer1::IPluginRegistry::PluginLibraryHandle handle;
};

namespace {

using Creators = nvinfer1::IPluginCreatorInterface* const* (*)(std::int32_t&);

struct Closer {
    void operator()(void* handle) const { dlclose(handle); }
};
/// Our own reference to a library; the registry holds another.
using Library = std::unique_ptr<void, Closer>;

void* refuse(const std::string& text, char* error, std::size_t size) {
    if (error != nullptr && size > 0) std::snprintf(error, size, "%s", text.c_str());
    return nullptr;
}

std::string last_dl_error() {
    const char* text = dlerror();
    return text == nullptr ? "unknown error" : text;
}

template <class F>
F symbol(void* library, const char* name) {
    return reinterpret_cast<F>(dlsym(library, name));
}

/// Empty if the library is ours and of ABI `abi`; else what is wrong with it.
std::string unfit(void* library, std::int32_t abi) {
    const auto version = symbol<std::int32_t (*)()>(library, "forkcast_plugin_abi_version");
    if (version == nullptr) return "not a forkcast plugin library: it has no forkcast_plugin_abi_version";
    if (version() != abi)
        return "expected plugin ABI " + std::to_string(abi) + ", found " + std::to_string(version()) +
               "; use the library the engine was built with, or build the engine again";
    if (symbol<Creators>(library, "getCreators") == nullptr) return "it has no getCreators";
    return "";
}

/// Name of the first creator of the library that the registry does not find; empty if it finds all of them.
std::string missing_creator(void* library, nvinfer1::IPluginRegistry& registry) {
    std::int32_t count = 0;
    auto* const* creators = symbol<Creators>(library, "getCreators")(count);
    for (std::int32_t i = 0; i < count; ++i) {
        auto* creator = static_cast<nvinfer1::IPluginCreatorV3One*>(creators[i]);
        if (registry.getCreator(creator->getPluginName(), creator->getPluginVersion(),
                                creator->getPluginNamespace()) == nullptr)
            return creator->getPluginName();
    }
    return "";
}

forkcast_plugins* load(nvinfer1::IPluginRegistry& registry, const std::string& path, std::int32_t abi,
                       std::string& reason) {
    const Library library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
    reason = library == nullptr ? last_dl_error() : unfit(library.get(), abi);
    if (!reason.empty()) return nullptr;
    const auto handle = registry.loadLibrary(path.c_str());
    if (handle == nullptr) {
        reason = "TensorRT's plugin registry refused it; forkcast plugins may be loaded already";
        return nullptr;
    }
    const std::string missing = missing_creator(library.get(), registry);
    if (missing.empty()) return new forkcast_plugins{&registry, handle};
    registry.deregisterLibrary(handle);
    reason = "TensorRT's plugin registry loaded it but does not find " + missing;
    return nullptr;
}

}  // namespace

extern "C" void* forkcast_plugin_registry(char* error, size_t error_size) {
    using Get = nvinfer1::IPluginRegistry* (*)();
    if (const Get get = symbol<Get>(RTLD_DEFAULT, "getPluginRegistry")) return get();
    // Loaded by another part of the process with its symbols kept to itself.
    for (const char* name : {"libnvinfer.so.11", "libnvinfer.so"}) {
        const Library library(dlopen(name, RTLD_NOW | RTLD_NOLOAD));
        if (library == nullptr) continue;
        if (const Get get = symbol<Get>(library.get(), "getPluginRegistry")) return get();
    }
    return refuse("TensorRT (libnvinfer) is not loaded in this process", error, error_size);
}

extern "C" forkcast_plugins* forkcast_load_plugins(void* registry, const char* path, int32_t abi, char* error,
                                                   size_t error_size) {
    if (registry == nullptr) registry = forkcast_plugin_registry(error, error_size);
    if (registry == nullptr) return nullptr;
    try {
        std::string reason = path == nullptr || *path == '\0' ? "no path given" : "";
        forkcast_plugins* loaded =
            reason.empty() ? load(*static_cast<nvinfer1::IPluginRegistry*>(registry), path, abi, reason) : nullptr;
        if (loaded == nullptr)
            refuse("plugin library " + std::string(path ? path : "") + ": " + reason, error, error_size);
        return loaded;
    } catch (const std::exception& failure) {
        refuse(failure.what(), error, error_size);
        return nullptr;
    }
}

extern "C" void forkcast_unload(forkcast_plugins* plugins) {
    if (plugins == nullptr) return;
    plugins->registry->deregisterLibrary(plugins->handle);
    delete plugins;
}
