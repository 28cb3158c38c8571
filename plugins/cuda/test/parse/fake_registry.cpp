#include "fake_registry.h"

#include <algorithm>

namespace forkcast::test {
namespace {

using nvinfer1::IPluginCreatorInterface;
using nvinfer1::IPluginCreatorV3One;

IPluginCreatorV3One& v3(IPluginCreatorInterface* creator) { return *static_cast<IPluginCreatorV3One*>(creator); }

}  // namespace

FakeRegistry::PluginLibraryHandle FakeRegistry::loadLibrary(const char* path) noexcept {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    using GetCreators = IPluginCreatorInterface* const* (*)(std::int32_t&);
    const auto get = reinterpret_cast<GetCreators>(dlsym(library, "getCreators"));
    if (get == nullptr) {
        dlclose(library);
        return nullptr;
    }
    using SetFinder = void (*)(nvinfer1::ILoggerFinder*);
    if (const auto set = reinterpret_cast<SetFinder>(dlsym(library, "setLoggerFinder"))) set(&logger_);
    std::int32_t count = 0;
    auto* const* list = get(count);
    std::vector<IPluginCreatorInterface*> taken;
    for (std::int32_t i = 0; i < count; ++i) {
        if (registerCreator(*list[i], v3(list[i]).getPluginNamespace())) {
            taken.push_back(list[i]);
            continue;
        }
        for (auto* creator : taken) deregisterCreator(*creator);
        dlclose(library);
        return nullptr;
    }
    libraries_[library] = taken;
    return library;
}

void FakeRegistry::deregisterLibrary(PluginLibraryHandle handle) noexcept {
    const auto found = libraries_.find(handle);
    if (found == libraries_.end()) return;
    for (auto* creator : found->second) deregisterCreator(*creator);
    libraries_.erase(found);
    using SetFinder = void (*)(nvinfer1::ILoggerFinder*);
    if (const auto set = reinterpret_cast<SetFinder>(dlsym(handle, "setLoggerFinder"))) set(nullptr);
    dlclose(handle);
}

bool FakeRegistry::registerCreator(IPluginCreatorInterface& creator, const char* name_space) noexcept {
    auto& one = v3(&creator);
    if (getCreator(one.getPluginName(), one.getPluginVersion(), name_space) != nullptr) return false;
    creators_.push_back(&creator);
    return true;
}

bool FakeRegistry::deregisterCreator(const IPluginCreatorInterface& creator) noexcept {
    const auto at = std::find(creators_.begin(), creators_.end(), &creator);
    if (at == creators_.end()) return false;
    creators_.erase(at);
    return true;
}

IPluginCreatorInterface* FakeRegistry::getCreator(const char* name, const char* version,
                                                  const char* name_space) noexcept {
    for (auto* creator : creators_) {
        auto& one = v3(creator);
        if (std::string(one.getPluginName()) == name && std::string(one.getPluginVersion()) == version &&
            std::string(one.getPluginNamespace()) == name_space)
            return creator;
    }
    return nullptr;
}

IPluginCreatorInterface* const* FakeRegistry::getAllCreators(std::int32_t* count) const noexcept {
    *count = static_cast<std::int32_t>(creators_.size());
    return creators_.empty() ? nullptr : creators_.data();
}

}  // namespace forkcast::test
