#include "operator.h"

namespace forkcast::plugin {

ShapeCheck::ShapeCheck(const Operator& op, const Shapes& shapes) : op_(op), shapes_(shapes) {
    const auto& rules = op.inputs();
    if (shapes.size() != rules.size()) {
        refuse("expected " + std::to_string(rules.size()) + " inputs, found " + std::to_string(shapes.size()));
        return;
    }
    for (std::size_t i = 0; i < rules.size(); ++i)
        if (shapes[i].nbDims != rules[i].rank)
            refuse(std::string(rules[i].name) + " must have " + std::to_string(rules[i].rank) + " axes, found " +
                   std::to_string(shapes[i].nbDims));
}

std::int64_t ShapeCheck::size(Operator::Axis a) const {
    const nvinfer1::Dims& dims = shapes_[static_cast<std::size_t>(a.input)];
    return a.axis < dims.nbDims ? dims.d[a.axis] : -1;
}

std::string ShapeCheck::label(Operator::Axis a) const {
    return "axis " + std::to_string(a.axis) + " of " + op_.inputs()[static_cast<std::size_t>(a.input)].name;
}

void ShapeCheck::refuse(const std::string& text) {
    if (refusal_.empty()) refusal_ = text;
}

void ShapeCheck::same(Operator::Axis a, Operator::Axis b) {
    if (!refusal_.empty() || size(a) < 0 || size(b) < 0 || size(a) == size(b)) return;
    refuse(label(a) + " must equal " + label(b) + ", found " + std::to_string(size(a)) + " and " +
           std::to_string(size(b)));
}

void ShapeCheck::one_of(Operator::Axis a, std::initializer_list<std::int64_t> allowed) {
    if (!refusal_.empty() || size(a) < 0) return;
    std::string list;
    for (const std::int64_t value : allowed) {
        if (value == size(a)) return;
        list += (list.empty() ? "" : ", ") + std::to_string(value);
    }
    refuse(label(a) + " must be one of " + list + ", found " + std::to_string(size(a)));
}

void ShapeCheck::between(Operator::Axis a, std::int64_t low, std::int64_t high) {
    if (!refusal_.empty() || size(a) < 0 || (size(a) >= low && size(a) <= high)) return;
    refuse(label(a) + " must be in " + std::to_string(low) + ".." + std::to_string(high) + ", found " +
           std::to_string(size(a)));
}

void ShapeCheck::multiple(Operator::Axis a, Operator::Axis b) {
    if (!refusal_.empty() || size(b) < 0) return;
    multiple(a, size(b));
}

void ShapeCheck::multiple(Operator::Axis a, std::int64_t of) {
    if (!refusal_.empty() || size(a) < 0 || (of > 0 && size(a) > 0 && size(a) % of == 0)) return;
    refuse(label(a) + " must be a multiple of " + std::to_string(of) + ", found " + std::to_string(size(a)));
}

}  // namespace forkcast::plugin
