// Random trees of rows in topological order, and the random numbers of the tests.
#pragma once

#include <cstdint>
#include <vector>

namespace forkcast::test {

/// splitmix64: the same numbers on every machine.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x1234567) {}

    std::uint64_t bits() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    /// Uniform integer of low..high, both included.
    int integer(int low, int high) {
        return low + static_cast<int>(bits() % static_cast<std::uint64_t>(high - low + 1));
    }
    double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    /// Mean 0, variance 1, nearly normal: the sum of four uniform 16-bit numbers.
    double normal() {
        const std::uint64_t z = bits();
        const std::uint64_t sum = (z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) + (z >> 48);
        return (static_cast<double>(sum) - 131070.0) * (1.7320508075688772 / 65536.0);
    }

private:
    std::uint64_t state_;
};

/// Rows 0..rows with parents before children; parent -1 is a root (row 0, or a dead row that sees only itself).
struct Tree {
    std::vector<int> parent, depth;

    int rows() const { return static_cast<int>(parent.size()); }

    void add(int from) {
        parent.push_back(from);
        depth.push_back(from < 0 ? 0 : depth[static_cast<std::size_t>(from)] + 1);
    }

    /// bool [rows, rows]: self and ancestors.
    std::vector<std::uint8_t> mask() const {
        std::vector<std::uint8_t> out(parent.size() * parent.size(), 0);
        for (int i = 0; i < rows(); ++i)
            for (int j = i; j >= 0; j = parent[static_cast<std::size_t>(j)])
                out[static_cast<std::size_t>(i) * parent.size() + static_cast<std::size_t>(j)] = 1;
        return out;
    }

    /// Rows from the root to `row`.
    std::vector<int> path(int row) const {
        std::vector<int> up;
        for (int j = row; j >= 0; j = parent[static_cast<std::size_t>(j)]) up.push_back(j);
        return {up.rbegin(), up.rend()};
    }
};

inline Tree chain(int rows) {
    Tree tree;
    for (int i = 0; i < rows; ++i) tree.add(i - 1);
    return tree;
}

constexpr int kMaxDepth = 16;  // rows on a root path of a verify tree

/// Tree number `index` of a suite: chains, stars, bushy and deep trees, some with dead rows at the end.
inline Tree random_tree(int index, int max_rows, Random& random) {
    static constexpr int kSizes[] = {1, 2, 3, 31, 32, 33, 257};
    const double size = random.uniform() * random.uniform() * random.uniform();  // more small trees than large ones
    int rows = index < 7 ? kSizes[index] : index % 33 == 32 ? max_rows : 1 + static_cast<int>(size * max_rows);
    if (rows > max_rows) rows = max_rows;
    const int kind = index % 5;
    if (kind == 0) return chain(rows);
    Tree tree;
    tree.add(-1);
    const int dead = kind == 4 ? rows / 5 : 0;
    while (tree.rows() < rows - dead) {
        // kind 1: any row; kind 2: mostly the newest rows (deep); kind 3, 4: heap-like, near the root
        const int newest = tree.rows() - 1;
        int from = random.integer(0, newest);
        if (kind == 2) from = random.integer(newest > 3 ? newest - 3 : 0, newest);
        if (kind >= 3) from = static_cast<int>(newest * random.uniform() * random.uniform());
        while (tree.depth[static_cast<std::size_t>(from)] + 1 >= kMaxDepth)
            from = tree.parent[static_cast<std::size_t>(from)];
        tree.add(from);
    }
    while (tree.rows() < rows) tree.add(-1);
    return tree;
}

}  // namespace forkcast::test
