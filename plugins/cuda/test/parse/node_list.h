// Plugin nodes of a stripped model as text, written by `plugin_nodes` (Rust), so that no protobuf is needed here.
// Words are separated by blanks; a line starts with what it is:
//   graph NAME
//   function NAME                 a model-local function that is left in the model
//   node OPERATOR NAME            starts a node
//   attribute NAME float|int|string VALUE
//   input TYPE DIMENSION...       TYPE f32, f16, bf16, i64, bool; DIMENSION a number or the name of an unknown size
//   output TYPE DIMENSION...
#pragma once

#include <istream>
#include <set>
#include <string>
#include <vector>

#include <NvInferRuntime.h>

namespace forkcast::test {

struct NodeAttribute {
    std::string name, type, value;
};

struct NodeTensor {
    nvinfer1::DataType type;
    std::vector<std::string> dims;
};

struct PluginNode {
    std::string op, name;
    std::vector<NodeAttribute> attributes;
    std::vector<NodeTensor> inputs, outputs;

    const NodeAttribute* attribute(const std::string& wanted) const {
        for (const NodeAttribute& a : attributes)
            if (a.name == wanted) return &a;
        return nullptr;
    }
};

struct NodeList {
    std::string graph;
    std::set<std::string> functions;
    std::vector<PluginNode> nodes;
};

/// Throws std::runtime_error with the line number if the text is not of this form.
NodeList read_nodes(std::istream& in);

}  // namespace forkcast::test
