// Inputs of the DeltaNet tests: normalised keys, decays, gates and a state, as a layer would give them.
#pragma once

#include "buffers.h"
#include "reference.h"

namespace forkcast::test {

struct DeltaSizes {
    int rows, key_heads, value_heads, key_dim, value_dim;
};

inline void normalise(double* x, int size, double length) {
    double sum = 1e-6;
    for (int i = 0; i < size; ++i) sum += x[i] * x[i];
    for (int i = 0; i < size; ++i) x[i] *= length / std::sqrt(sum);
}

/// `identical`: keys that differ by 1e-3, beta near 1, hardly any decay (the hard case of the solve). `decaying`:
/// strong decay, so that |G| grows to hundreds along a chain.
inline DeltaCase delta_inputs(const DeltaSizes& s, bool identical, bool decaying, Random& random) {
    DeltaCase c{s.key_heads, s.value_heads, s.key_dim, s.value_dim, {}, {}, {}, {}, {}, {}};
    const auto rows = static_cast<std::size_t>(s.rows);
    const auto keys = rows * static_cast<std::size_t>(s.key_heads * s.key_dim);
    const auto heads = rows * static_cast<std::size_t>(s.value_heads);
    c.q = normal_values(keys, 1.0, random);
    c.k = normal_values(keys, 1.0, random);
    if (identical) {
        const auto row = static_cast<std::size_t>(s.key_heads * s.key_dim);
        for (std::size_t i = row; i < keys; ++i) c.k[i] = c.k[i % row] + 1e-3 * c.k[i];
    }
    for (std::size_t at = 0; at < keys; at += static_cast<std::size_t>(s.key_dim)) {
        normalise(&c.q[at], s.key_dim, 1.0 / std::sqrt(static_cast<double>(s.key_dim)));
        normalise(&c.k[at], s.key_dim, 1.0);
    }
    c.v = normal_values(heads * static_cast<std::size_t>(s.value_dim), 1.0, random);
    for (std::size_t i = 0; i < heads; ++i) {
        c.g.push_back(identical ? -1e-4 * random.uniform() : -(decaying ? 8.0 : 0.5) * random.uniform());
        c.beta.push_back(identical ? 1.0 - 1e-3 * random.uniform() : random.uniform());
    }
    c.state = normal_values(static_cast<std::size_t>(s.value_heads * s.key_dim * s.value_dim), 0.5, random);
    return c;
}

/// The same case on the device; `c` gets the rounded values.
template <class T>
struct DeltaBuffers {
    Buffer<T> q, k, v, o;
    Buffer<float> g, beta, state, u, cumulative_g;

    explicit DeltaBuffers(DeltaCase& c)
        : q(c.q), k(c.k), v(c.v), o(c.v.size()), g(c.g), beta(c.beta), state(c.state), u(c.v.size()),
          cumulative_g(c.g.size()) {
        c.q = values_of(q), c.k = values_of(k), c.v = values_of(v);
        c.g = values_of(g), c.beta = values_of(beta), c.state = values_of(state);
        o.poison(), u.poison(), cumulative_g.poison();
    }
};

}  // namespace forkcast::test
