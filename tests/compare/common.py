"""What all comparisons share: where things lie, forkcast's side of a run, medians with their spread, tables."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "models"
DATA = pathlib.Path(os.environ.get("FORKCAST_COMPARE_DATA", ROOT / "target" / "compare"))
BINARY = pathlib.Path(os.environ.get("FORKCAST_BINARY", ROOT / "target" / "release" / "forkcast"))
THREADS = int(os.environ.get("FORKCAST_COMPARE_THREADS", "2"))
# Exit code of a comparison that cannot run here; run.sh prints the last line of stderr as the reason.
CANNOT = 3


def cannot(reason):
    """Ends the script: this comparison cannot run here, and why."""
    print(reason, file=sys.stderr)
    sys.exit(CANNOT)


def need(module, hint="tests/compare/setup.sh makes an environment with it"):
    """The module, or the end of the script with a reason."""
    try:
        return __import__(module, fromlist=["_"])
    except ImportError as error:
        cannot(f"Python package missing ({error}); {hint}")


def forkcast(*args):
    """Runs forkcast and returns what it printed."""
    if not BINARY.is_file():
        cannot(f"{BINARY.name} is not built: cargo build --release -p forkcast --bin forkcast")
    done = subprocess.run([str(BINARY), *map(str, args)], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"forkcast {' '.join(map(str, args))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def bundle(name, target, drafter, dtype="f32"):
    """The bundle DATA/name, exported if it is not there."""
    out = DATA / name
    if not (out / "manifest.json").is_file():
        DATA.mkdir(parents=True, exist_ok=True)
        forkcast("export", "--target", target, "--drafter", drafter, "--dtype", dtype, "--out", out)
    return out


def greedy(model, ids, count, method="plain", budget=None):
    """Tokens of an answer at T = 0; ends early at a stop token."""
    extra = [] if budget is None else ["--budget", budget]
    text = forkcast("generate", model, "--ids", ",".join(map(str, ids)), "--method", method, *extra, "--max-tokens", count,
                    "--temperature", 0, "--threads", THREADS, "--json")
    return json.loads(text)["token_ids"]


def bench(model, prompts, methods, budgets, tokens, repeat=1, synthetic=None, extra=()):
    """Record of `forkcast bench` over lists of token ids (or `--prompt-tokens` of a length, given as a number)."""
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(prompts, int):
            source = ["--prompt-tokens", prompts, "--samples", 1]
        else:
            suite = pathlib.Path(folder) / "ids.jsonl"
            suite.write_text("".join(json.dumps({"ids": list(ids)}) + "\n" for ids in prompts))
            source = ["--suite", suite]
        luck = [] if synthetic is None else ["--synthetic-acceptance", synthetic]
        text = forkcast("bench", model, *source, "--methods", ",".join(methods), "--budgets", ",".join(map(str, budgets)),
                        "--max-tokens", tokens, "--repeat", repeat, "--threads", THREADS, *luck, *extra, "--json")
    return json.loads(text)


def rates(record):
    """(method, budget) -> tokens per second of decoding: all tokens but the first of each answer, over the time after it.

    One number a repeat, all prompts together.
    """
    found = {}
    for place, cell in enumerate(record["cells"]):
        answers = [r for r in record["responses"] if r["cell"] == place]
        tokens = sum(r["tokens"] - 1 for r in answers)
        repeats = zip(*([s["decode"] for s in r["samples"]] for r in answers))
        found[cell["method"], cell["budget"]] = [tokens / sum(seconds) for seconds in repeats]
    return found


def stage_milliseconds(record, method, budget):
    """Milliseconds a round in each stage, mean over a cell's answers and repeats; and the tokens a round."""
    place = next(i for i, c in enumerate(record["cells"]) if (c["method"], c["budget"]) == (method, budget))
    answers = [r for r in record["responses"] if r["cell"] == place]
    rounds = sum(len(r["accepted"]) * len(r["samples"]) for r in answers)
    stages = {}
    for r in answers:
        for sample in r["samples"]:
            for stage, seconds in sample["stages"].items():
                stages[stage] = stages.get(stage, 0.0) + seconds * 1e3 / rounds
    return stages, sum(sum(r["accepted"]) * len(r["samples"]) for r in answers) / rounds


def median(values):
    """Middle value."""
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def spread(values, digits=1):
    """`median (min-max)`."""
    values = list(values)
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def ratio(ours, theirs, digits=2):
    """Median and extremes of the ratios of interleaved repeats."""
    return spread([a / b for a, b in zip(ours, theirs)], digits)


def same(ours, theirs, stops=()):
    """Words: whether two token lists agree up to the shorter one's end (a stop token may end one of them)."""
    for at, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return f"differ first at token {at} ({a}, theirs {b})"
        if a in stops:
            return f"same {at + 1} tokens, stop token included"
    return f"same {min(len(ours), len(theirs))} tokens"


def table(header, rows):
    """Markdown."""
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def context(**facts):
    """One line on the conditions of a run."""
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    load = os.getloadavg()[0]
    more = "".join(f", {key} {value}" for key, value in facts.items())
    print(f"\n`{pathlib.Path(sys.argv[0]).name}`, {time.strftime('%Y-%m-%d %H:%M')}, commit {commit}, {cpu}, {os.cpu_count()} cores, "
          f"{THREADS} threads, load at the end {load:.1f} (this run itself is up to {THREADS}){more}.")


def prompt_ids(tokenizer_folder, domain="a", line=0):
    """Token ids of one held-out prompt of the tiny models, by the checkpoint's own template."""
    tokenizers, jinja2 = need("tokenizers"), need("jinja2")
    text = (MODELS / "prompts" / f"prompts_{domain}.jsonl").read_text().splitlines()[line]
    message = json.loads(text)["messages"][0]
    template = (tokenizer_folder / "chat_template.jinja").read_text()
    prompt = jinja2.Environment().from_string(template).render(messages=[message], add_generation_prompt=True)
    return tokenizers.Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json")).encode(prompt).ids
