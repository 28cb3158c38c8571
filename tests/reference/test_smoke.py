"""Quick checks of the reference: every objective trains, every fast path equals its slow form. Under two minutes."""
import argparse
import itertools
import json
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
sys.path.insert(0, str(HERE))

import mdraft
import objectives
import train_drafter
from blocks import batches
from drafter import Drafter, load_weights, make_config
from make_corpus import make_doc, to_text
from optim import Muon, split_params
from packing import pack
from sample_replies import sample
from slow_drafter import SlowDrafter
from stepper import Stepper
from tinynet import forward_target
from train_target import cross_entropy, make_model
from trees import best_first, chain


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def target(name):
    return AutoModelForCausalLM.from_pretrained(MODELS / name, dtype=torch.float32).eval()


def parameters(model):
    return {name: p.detach() for name, p in model.named_parameters()}


@pytest.fixture(scope="module")
def dense():
    return target("tiny-qwen3")


@pytest.fixture(scope="module")
def replies(dense):
    args = argparse.Namespace(seed=5, prompts=10, held_out=MODELS / "prompts", taps=[0, 1, 2], cpu_seconds=20, temperature=0.7)
    return [reply for reply in sample(dense, AutoTokenizer.from_pretrained(MODELS / "tiny-qwen3"), args) if len(reply[0]) - reply[1] >= 4]


@pytest.fixture(scope="module")
def blocks(replies):
    return next(batches(replies, random.Random(0), 3, 6))


def run_steps(drafter, objective, embedding, blocks, rate, steps):
    """Loss on one fixed batch (and fixed noise) before and after some steps on it."""
    def loss_now():
        torch.manual_seed(1)
        return objective(drafter, embedding, blocks)[0]
    optimiser, before = train_drafter.Optimiser(drafter, rate), loss_now().item()
    for step in range(steps):
        objective(drafter, embedding, blocks)[0].backward()
        unused = [name for name, p in drafter.named_parameters() if p.grad is None]
        assert not unused, unused
        assert all(torch.isfinite(p.grad).all() for p in drafter.parameters())
        optimiser.step(1.0, step)
    return before, loss_now().item()


@pytest.mark.parametrize("name", ["dflash", "mfd"])
def test_objective_trains_from_nothing(name, dense, blocks):
    config = make_config(dense.config.to_dict(), [0, 1, 2], modes=8 if name == "mfd" else 1)
    before, after = run_steps(Drafter(config), getattr(objectives, name), dense.get_input_embeddings().weight.detach(), blocks, 6e-3, 8)
    assert after < 0.9 * before


def test_mdraft_trains_from_a_dflash_drafter(dense, blocks):
    drafter = Drafter(make_config(dense.config.to_dict(), [0, 1, 2]))
    load_weights(drafter, MODELS / "tiny-qwen3-dflash")
    objective = mdraft.make_objective(mdraft.DenseTarget(parameters(dense), dense.config))
    before, after = run_steps(drafter, objective, dense.get_input_embeddings().weight.detach(), blocks, 1e-3, 8)
    assert after < before


def test_dpace_weights_are_the_derivative_of_the_surrogate_length():
    q, exists = torch.rand(4, 15), torch.ones(4, 15)
    exists[1, 9:] = 0
    log_r = torch.where(exists > 0, 0.5 * q + 0.5, torch.ones(())).log().requires_grad_()
    ((log_r.cumsum(-1).exp()) * exists).sum().backward()
    assert torch.allclose(objectives.dpace_weights(q, exists), log_r.grad * exists, atol=1e-5)


def test_mdraft_target_distribution_normalises_and_follows_its_definition():
    log_p = torch.randn(2, 3, 8, 5, 11).log_softmax(-1)
    log_t = mdraft.mixed_target(log_p)
    assert torch.allclose(log_t.exp().sum(-1), torch.ones(2, 3, 8, 5), atol=1e-5)
    p = log_p.exp()
    plain = p.mean(2, keepdim=True) ** 0.9 * p ** 0.1
    assert torch.allclose(log_t.exp(), plain / plain.sum(-1, keepdim=True), atol=1e-5)
    same = log_p[:, :, :1].expand_as(log_p)
    assert torch.allclose(mdraft.mixed_target(same), same, atol=1e-5)


def test_survival_is_the_product_of_acceptance_probabilities_until_a_stop():
    samples = torch.tensor([[5, 6, mdraft.STOP[0], 7, 8]])
    log_p, log_q = torch.rand(1, 5).log(), torch.rand(1, 5).log()
    accept = (log_p.exp() / log_q.exp()).clamp(max=1)[0]
    expected = torch.tensor([[1.0, accept[0], accept[0] * accept[1], 0.0, 0.0]])
    assert torch.allclose(mdraft.survival(log_p, log_q, samples), expected, atol=1e-5)


def test_block_scores_equal_whole_prefix_passes(dense, blocks):
    samples = torch.randint(0, 2048, (*blocks.anchors.shape, 2, 15))
    scored = mdraft.DenseTarget(parameters(dense), dense.config).block_log_probs(blocks.tokens, blocks.anchors, samples)
    for s, n in ((0, 0), (2, 3)):
        anchor = int(blocks.anchors[s, n])
        ids = torch.cat([blocks.tokens[s, :anchor + 1], samples[s, n, 1, :14]])
        with torch.no_grad():
            plain = dense(ids[None]).logits[0, anchor:].log_softmax(-1)
        assert torch.allclose(scored[s, n, 1], plain, atol=1e-3)


@pytest.mark.parametrize("name", ["tiny-qwen3-dflash", "tiny-qwen3.5-mfd"])
def test_training_forward_equals_slow_drafter(name, blocks, dense):
    slow = SlowDrafter(MODELS / name)
    fast = Drafter(slow.config)
    load_weights(fast, MODELS / name)
    embedding = dense.get_input_embeddings().weight.detach()
    with torch.no_grad():
        hidden, _ = fast(embedding, blocks.features, blocks.tokens, blocks.anchors)
    for s, n in ((0, 0), (1, 4)):
        anchor = int(blocks.anchors[s, n])
        plain = slow.hidden(blocks.features[s, :anchor], int(blocks.tokens[s, anchor]), embedding)
        assert torch.allclose(hidden[s, n], plain, atol=1e-3)


@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-qwen3.5"])
def test_fast_target_forms_equal_transformers(name):
    model = target(name)
    ids = torch.randint(0, 2000, (1, 64))
    with torch.no_grad():
        plain = model(ids).logits[0]
        fast, _ = forward_target(parameters(model), model.config, ids)
        stepper = Stepper(parameters(model), model.config, 1, 64, [0])
        stepped = torch.cat([stepper.step(ids[0, i:i + 1], torch.tensor([i]))[0] for i in range(64)])
    assert torch.allclose(fast[0], plain, atol=2e-3)
    assert torch.allclose(stepped, plain, atol=2e-3)


def brute_force_best(log_q, budget):
    """The best-scoring prefixes by enumeration."""
    modes, depth, vocabulary = log_q.shape
    score = {}
    for length in range(1, depth + 1):
        for prefix in itertools.product(range(vocabulary), repeat=length):
            score[prefix] = max(sum(log_q[m, j, t] for j, t in enumerate(prefix)) for m in range(modes))
    return set(sorted(score, key=lambda y: -score[y])[:budget])


def prefixes(tree, node=0, path=()):
    for token, child in tree.children[node].items():
        yield path + (token,)
        yield from prefixes(tree, child, path + (token,))


@pytest.mark.parametrize("modes", [1, 3])
def test_tree_holds_the_best_prefixes(modes):
    for seed in range(5):
        logits = torch.from_numpy(np.random.default_rng(seed).normal(size=(modes, 4, 4)))
        log_q = logits.log_softmax(-1).numpy()
        assert set(prefixes(best_first(log_q, 20))) == brute_force_best(log_q, 20)


def test_chain_and_empty_tree():
    log_q = torch.randn(1, 15, 9).log_softmax(-1).numpy()
    assert list(prefixes(chain(log_q)))[-1] == tuple(log_q[0].argmax(-1))
    assert best_first(log_q, 0).walk([1, 2]) == 0


def test_corpus_and_prompts_are_reproducible(tmp_path):
    subprocess.run([sys.executable, str(HERE / "make_corpus.py"), str(tmp_path), "--docs", "200", "--seed", "1"], check=True, stdout=subprocess.DEVNULL)
    for domain in "abcde":
        made = (tmp_path / f"prompts_{domain}.jsonl").read_text().splitlines()
        kept = (MODELS / "prompts" / f"prompts_{domain}.jsonl").read_text().splitlines()
        assert made[:len(kept)] == kept
    assert len((tmp_path / "train.jsonl").read_text().splitlines()) == 200


@pytest.mark.parametrize("kind", ["qwen3", "qwen3.5"])
def test_target_trains(kind):
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "tiny-qwen3")
    rng = random.Random(0)
    texts = [to_text(make_doc(rng, "abcde"[i % 5])) for i in range(12)]
    ids, weight = pack([tuple(tokenizer.encode(t, add_special_tokens=False) for t in pair) for pair in texts], rng)
    model = make_model(kind)
    params = dict(model.named_parameters())
    matrices, rest = split_params(params.items())
    muon, adam = Muon(matrices, 6e-3), torch.optim.AdamW(rest, 3e-3)
    losses = []
    for _ in range(5):
        w = weight[:2, 1:].flatten()
        loss = (cross_entropy(params, model.config, ids[:2]) * w).sum() / w.sum()
        loss.backward()
        muon.step(1.0, 0.9)
        adam.step()
        for p in params.values():
            p.grad = None
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_saved_drafters_name_their_dtype():
    for folder in MODELS.glob("tiny-*-*"):
        config = json.loads((folder / "config.json").read_text())
        expected = {"bfloat16": torch.bfloat16, "float32": torch.float32}[config["dtype"]]
        assert {t.dtype for t in load_file(folder / "model.safetensors").values()} == {expected}
