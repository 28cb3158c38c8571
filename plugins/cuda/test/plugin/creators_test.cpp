// The library's C symbols and creators, as TensorRT's registry uses them.
#include <set>

#include "library.h"
#include "tensors.h"

namespace forkcast::test {

void add_creator_cases(Suite& suite, Library& library) {
    suite.add("library names its ABI", [&](Report& report) {
        report.check(library.symbol<std::int32_t (*)()>("forkcast_plugin_abi_version")() == 1, "ABI is not 1");
    });
    suite.add("library has one creator an operator", [&](Report& report) {
        std::set<std::string> found, wanted;
        for (const Signature& s : signatures()) wanted.insert(s.op);
        for (auto* creator : library.creators) {
            found.insert(creator->getPluginName());
            report.check(std::string(creator->getPluginVersion()) == "1", "version");
            report.check(std::string(creator->getPluginNamespace()) == "forkcast", "namespace");
            const nvinfer1::InterfaceInfo info = creator->getInterfaceInfo();
            report.check(std::string(info.kind) == "PLUGIN CREATOR_V3ONE" && info.major == 1, "interface");
        }
        report.check(found == wanted && library.creators.size() == 4, "other creators than the four operators");
    });
    suite.add("creators name the attributes", [&](Report& report) {
        for (const Signature& s : signatures()) {
            const nvinfer1::PluginFieldCollection* fields = library.creator(s.op).getFieldNames();
            report.check(fields != nullptr && fields->nbFields == (s.op == "TreeAttention" ? 2 : 0), s.op);
        }
    });
    for (const Signature& s : signatures()) {
        suite.add(s.op + " has core, build and runtime, and copies of itself", [&](Report& report) {
            const PluginPointer plugin = create(library, s.op);
            const PluginPointer copy(plugin->clone()), attached(runtime(*plugin).attachToContext(nullptr));
            for (auto* each : {plugin.get(), copy.get(), attached.get()}) {
                report.check(each != nullptr, "no copy");
                report.check(core(*each).getPluginName() == s.op, "name");
                report.check(std::string(core(*each).getPluginVersion()) == "1", "version");
                report.check(std::string(core(*each).getPluginNamespace()) == "forkcast", "namespace");
                report.check(build(*each).getNbOutputs() == static_cast<std::int32_t>(s.outputs.size()), "outputs");
                report.check(std::string(core(*each).getInterfaceInfo().kind) == "PLUGIN_V3ONE_CORE", "core");
                report.check(std::string(build(*each).getInterfaceInfo().kind) == "PLUGIN_V3ONE_BUILD", "build");
                report.check(std::string(runtime(*each).getInterfaceInfo().kind) == "PLUGIN_V3ONE_RUNTIME", "runtime");
            }
            report.check(plugin->getCapabilityInterface(static_cast<nvinfer1::PluginCapabilityType>(9)) == nullptr,
                         "an unknown capability");
        });
    }
}

}  // namespace forkcast::test
