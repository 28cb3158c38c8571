// KV append: accepted rows land after the committed ones, nothing else moves, nothing passes the capacity.
#include "buffers.h"
#include "harness.h"

namespace forkcast::test {
namespace {

template <class T>
void run_tree(int index) {
    Random random(static_cast<std::uint64_t>(60000 + index));
    const Tree tree = random_tree(index, 257, random);
    const int width = 8 * random.integer(1, 64), caches = random.integer(1, 6);
    const std::vector<int> path = tree.path(random.integer(0, tree.rows() - 1));
    const int first = random.integer(0, 100), capacity = first + static_cast<int>(path.size()) + random.integer(0, 9);
    std::vector<std::unique_ptr<Buffer<T>>> sources, targets;
    std::vector<std::vector<unsigned char>> want;
    Buffer<KvCopy> copies(static_cast<std::size_t>(caches));
    const std::size_t row_bytes = static_cast<std::size_t>(width) * sizeof(T);
    for (int c = 0; c < caches; ++c) {
        sources.push_back(std::make_unique<Buffer<T>>(
            normal_values(static_cast<std::size_t>(tree.rows() * width), 1.0, random)));
        targets.push_back(std::make_unique<Buffer<T>>(
            normal_values(static_cast<std::size_t>(capacity * width), 1.0, random)));
        copies[static_cast<std::size_t>(c)] = {sources.back()->data(), targets.back()->data(),
                                               static_cast<std::int64_t>(row_bytes)};
        want.push_back(targets.back()->bytes());
        const std::vector<unsigned char> source = sources.back()->bytes();
        for (std::size_t i = 0; i < path.size(); ++i)
            std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(path[i]) * row_bytes),
                        row_bytes,
                        want.back().begin() +
                            static_cast<std::ptrdiff_t>((static_cast<std::size_t>(first) + i) * row_bytes));
    }
    Buffer<std::int64_t> device_path(std::vector<std::int64_t>(path.begin(), path.end()));
    KvRowAppendParams p;
    p.copies = copies.data(), p.path = device_path.data(), p.first_row = first, p.capacity = capacity;
    p.copy_count = caches, p.path_length = static_cast<int>(path.size()), p.rows = tree.rows();
    const Status status = launch_kv_row_append(p, static_cast<std::int64_t>(row_bytes), nullptr);
    if (status != Status::kOk) throw std::runtime_error(status_name(status));
    synchronize();
    for (int c = 0; c < caches; ++c)
        if (targets[static_cast<std::size_t>(c)]->bytes() != want[static_cast<std::size_t>(c)])
            throw std::runtime_error("cache " + std::to_string(c) + " of tree " + std::to_string(index) + " differs");
}

}  // namespace

void add_append_cases(Suite& suite) {
    for_each_type([&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        suite.add(std::string("kv_row_append ") + TypeInfo<T>::name, [](Report& report) {
            for (int i = 0; i < tree_count(); ++i) run_tree<T>(i);
            report.note(std::to_string(tree_count()) + " trees, equal bit for bit");
        });
    });
}

}  // namespace forkcast::test
