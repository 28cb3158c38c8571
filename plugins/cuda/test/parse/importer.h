// What TensorRT's ONNX parser does with a node it has no importer for, as its published source has it (onnx-tensorrt,
// release 10.1): a model-local function of the operator's name comes first; else a plugin is looked up under the node's
// plugin_version (default "1") and plugin_namespace (default ""), the attributes that the creator names become fields,
// and the plugin is created for the build.
#pragma once

#include <string>

#include "fake_registry.h"
#include "node_list.h"

namespace forkcast::test {

/// How integer attributes reach a plugin: release 10.1 of the parser narrows them to 32 bits.
enum class Integers { k32, k64 };

/// Imports a node and checks that the plugin gives the types and sizes of the node's outputs from those of its inputs,
/// accepts them for a build, and can be stored and created again. Throws std::runtime_error naming the node if not.
void import_node(FakeRegistry& registry, const NodeList& list, const PluginNode& node, Integers integers);

}  // namespace forkcast::test
