"""Write the golden files of ../golden again. Everything comes from transformers or slow_drafter.py, never from the runtime."""
import argparse
import pathlib

import torch
import golden_drafters
import golden_rounds
import golden_targets
import golden_text
import golden_trained


def main():
    tests = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["targets", "trained", "drafters", "text", "rounds"], help="which parts to make, in this order")
    parser.add_argument("--models", type=pathlib.Path, default=tests / "models")
    parser.add_argument("--out", type=pathlib.Path, default=tests / "golden")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    if "targets" in args.parts:
        golden_targets.make(args.out)
    if "trained" in args.parts:
        golden_trained.make(args.out, args.models)
    if "drafters" in args.parts:
        golden_drafters.make_random(args.out)
        golden_drafters.make_trained(args.out, args.models)
    if "text" in args.parts:
        golden_text.make(args.out, args.models)
    if "rounds" in args.parts:
        golden_rounds.make(args.out, args.models)


if __name__ == "__main__":
    main()
