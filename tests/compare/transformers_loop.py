"""forkcast against a decoding loop over Transformers on the trained tiny hybrid pair: plain, chain and DDTree at T = 0, f32.

The loop is the usual one: the target is Transformers' own module with its own cache, the drafter is `tests/reference/drafter.py`.
Transformers has no tree masks for recurrent layers, so a tree is verified as a batch, one row a leaf, from repeated states; the
accepted tokens are then run once more from the states before the round, which is how a recurrent state is rolled back there.
"""
import argparse
import copy
import json
import sys
import time

from common import MODELS, ROOT, THREADS, bench, bundle, context, greedy, median, need, prompt_ids, rates, ratio, same, spread, table

torch = need("torch")
transformers = need("transformers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import drafter as reference_drafter  # noqa: E402
import trees  # noqa: E402

TARGET, DRAFTER = MODELS / "tiny-qwen3.5", MODELS / "tiny-qwen3.5-dflash"
STOPS = (2044, 2042)


class Loop:
    """One sequence being decoded."""

    def __init__(self):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(TARGET, dtype=torch.float32).eval()
        config = json.loads((DRAFTER / "config.json").read_text())
        self.drafter = reference_drafter.Drafter(config).eval()
        reference_drafter.load_weights(self.drafter, DRAFTER)
        self.taps = config["dflash_config"]["target_layer_ids"]
        self.embedding = self.model.get_input_embeddings().weight.detach()

    def start(self, prompt):
        """Prefill; the first token."""
        self.cache, self.features, self.ids = None, None, list(prompt)
        out = self.forward([prompt])
        self.keep(out, 0, len(prompt))
        self.ids.append(int(out.logits[0, -1].argmax()))

    def forward(self, rows, cache=None):
        """The target over a batch of token lists."""
        cache = self.cache if cache is None else cache
        out = self.model(torch.tensor(rows), cache=cache, use_cache=True, output_hidden_states=True)
        if cache is None:
            self.cache = out.cache
        return out

    def keep(self, out, row, count):
        """Appends the tapped features of the first `count` positions of one batch row."""
        new = torch.cat([out.hidden_states[layer + 1][row, :count] for layer in self.taps], -1)
        self.features = new if self.features is None else torch.cat([self.features, new])

    def draft(self):
        """log q [1, 15, V] of the tokens after the anchor."""
        anchor = torch.tensor([[len(self.features)]])
        tokens = torch.tensor([self.ids])
        hidden, _ = self.drafter(self.embedding, self.features[None], tokens, anchor)
        return (hidden[0, 0] @ self.embedding.t()).log_softmax(-1).numpy()

    def plain(self):
        """One token. Features are not needed."""
        out = self.model(torch.tensor([self.ids[-1:]]), cache=self.cache, use_cache=True)
        self.ids.append(int(out.logits[0, -1].argmax()))

    def round(self, tree):
        """Draft, verify, walk, commit."""
        tree = tree(self.draft())
        paths = leaf_paths(tree)
        length = max(map(len, paths))
        rows = [[self.ids[-1]] + path + [0] * (length - len(path)) for path in paths]
        trial = copy.deepcopy(self.cache)
        if len(rows) > 1:
            trial.reorder_cache(torch.zeros(len(rows), dtype=torch.long))
        best = self.forward(rows, trial).logits.argmax(-1)
        accepted, row = [], 0
        for r, path in enumerate(paths):
            hits = 0
            while hits < len(path) and int(best[r, hits]) == path[hits]:
                hits += 1
            if hits > len(accepted):
                accepted, row = path[:hits], r
        bonus = int(best[row, len(accepted)])
        self.keep(self.forward([[self.ids[-1]] + accepted]), 0, len(accepted) + 1)
        self.ids += accepted + [bonus]

    @torch.no_grad()
    def decode(self, prompt, count, tree):
        """(tokens, tokens per second after the first one)."""
        self.start(prompt)
        begin, first = time.perf_counter(), len(self.ids)
        while len(self.ids) - len(prompt) < count and self.ids[-1] not in STOPS:
            self.plain() if tree is None else self.round(tree)
            stop = next((i for i in range(first, len(self.ids)) if self.ids[i] in STOPS), None)
            if stop is not None:
                del self.ids[stop + 1:]
        seconds = time.perf_counter() - begin
        return self.ids[len(prompt):], (len(self.ids) - first) / seconds


def leaf_paths(tree):
    """Token lists from below the anchor to each leaf."""
    paths, stack = [], [(0, [])]
    while stack:
        node, path = stack.pop()
        if not tree.children[node]:
            paths.append(path)
        stack += [(child, path + [token]) for token, child in tree.children[node].items()]
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--budget", type=int, default=16)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    model = bundle("tiny-hybrid-f32", TARGET, DRAFTER)
    prompt = prompt_ids(TARGET)
    methods = {("plain", 0): None, ("chain", 15): trees.chain, ("ddtree", args.budget): lambda q: trees.best_first(q, args.budget)}
    loop = Loop()
    loop.decode(prompt, 16, trees.chain)
    theirs, ours, words = {cell: [] for cell in methods}, {cell: [] for cell in methods}, {}
    for _ in range(args.repeat):
        for cell, tree in methods.items():
            method, budget = cell
            tokens, rate = loop.decode(prompt, args.tokens, tree)
            theirs[cell].append(rate)
            found = rates(bench(model, [prompt], [method], [budget or 1], args.tokens))
            ours[cell] += found[cell]
            if cell not in words:
                words[cell] = same(greedy(model, prompt, args.tokens, method, budget), tokens, STOPS)
    table(["method", "budget", "Transformers loop, tokens/s", "forkcast, tokens/s", "ratio", "fastest / fastest", "at least 10x", "tokens at T = 0"],
          [[m, b, spread(theirs[m, b]), spread(ours[m, b], 0), ratio(ours[m, b], theirs[m, b], 1),
            f"{max(ours[m, b]) / max(theirs[m, b]):.1f}",
            "yes" if median([a / c for a, c in zip(ours[m, b], theirs[m, b])]) >= 10 else "no", words[m, b]] for m, b in methods])
    context(torch=torch.__version__, transformers=transformers.__version__, repeats=args.repeat)


if __name__ == "__main__":
    main()
