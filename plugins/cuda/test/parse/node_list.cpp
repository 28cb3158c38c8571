#include "node_list.h"

#include <sstream>
#include <stdexcept>

namespace forkcast::test {
namespace {

using nvinfer1::DataType;

DataType type_of(const std::string& word) {
    if (word == "f32") return DataType::kFLOAT;
    if (word == "f16") return DataType::kHALF;
    if (word == "bf16") return DataType::kBF16;
    if (word == "i64") return DataType::kINT64;
    if (word == "bool") return DataType::kBOOL;
    throw std::runtime_error("unknown type '" + word + "'");
}

NodeTensor tensor(std::istringstream& words) {
    NodeTensor out;
    std::string word;
    words >> word;
    out.type = type_of(word);
    while (words >> word) out.dims.push_back(word);
    return out;
}

NodeAttribute attribute(std::istringstream& words) {
    NodeAttribute out;
    words >> out.name >> out.type >> out.value;
    if (out.value.empty()) throw std::runtime_error("an attribute without a value");
    return out;
}

void read_line(std::istringstream& words, NodeList& list) {
    std::string kind, word;
    words >> kind;
    if (kind.empty()) return;
    if (kind == "graph") {
        words >> list.graph;
    } else if (kind == "function") {
        words >> word;
        list.functions.insert(word);
    } else if (kind == "node") {
        list.nodes.emplace_back();
        words >> list.nodes.back().op >> list.nodes.back().name;
    } else if (list.nodes.empty()) {
        throw std::runtime_error("'" + kind + "' before any node");
    } else if (kind == "attribute") {
        list.nodes.back().attributes.push_back(attribute(words));
    } else if (kind == "input") {
        list.nodes.back().inputs.push_back(tensor(words));
    } else if (kind == "output") {
        list.nodes.back().outputs.push_back(tensor(words));
    } else {
        throw std::runtime_error("unknown word '" + kind + "'");
    }
}

}  // namespace

NodeList read_nodes(std::istream& in) {
    NodeList list;
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
        std::istringstream words(line);
        try {
            read_line(words, list);
        } catch (const std::exception& error) {
            throw std::runtime_error("line " + std::to_string(number) + ": " + error.what());
        }
    }
    return list;
}

}  // namespace forkcast::test
