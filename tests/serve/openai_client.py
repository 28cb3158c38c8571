#!/usr/bin/env python3
"""The official Python client (PyPI openai) against a running server.

    openai_client.py BASE_URL [--key KEY] [--scripted]

With --scripted the server must answer "say X" with X and show tools to its model (the Rust tests start
such a one); without, any model will do: what is compared are the two ways of asking for the same answer.
Exit code 0 when everything held.
"""

import argparse
import json

import openai

PROMPT = "Write a short note about rivers and count to ten. 🦀"


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("--key", default="none")
    parser.add_argument("--scripted", action="store_true")
    return parser.parse_args()


def refused(call, kind, param):
    """The call fails with this class of error, which names this field."""
    try:
        call()
    except kind as error:
        body = error.body or {}
        assert body.get("param") == param, (body, param)
        return
    raise AssertionError(f"{kind.__name__} was expected")


def chat(client, model, **more):
    more.setdefault("messages", [{"role": "user", "content": PROMPT}])
    more.setdefault("temperature", 0)
    more.setdefault("max_tokens", 40)
    return client.chat.completions.create(model=model, **more)


def collect(stream):
    """Text, reasoning, finish reason, usage and log-probabilities of a stream."""
    text, reasoning, finish, usage, logprobs = "", "", None, None, []
    for chunk in stream:
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            finish = choice.finish_reason or finish
            if choice.logprobs:
                logprobs += choice.logprobs.content
    return text, reasoning, finish, usage, logprobs


def both_ways(client, model, **more):
    """The same answer at once and in pieces."""
    whole = chat(client, model, logprobs=True, top_logprobs=2, **more)
    choice = whole.choices[0]
    text, reasoning, finish, usage, logprobs = collect(
        chat(client, model, logprobs=True, top_logprobs=2, stream=True, stream_options={"include_usage": True}, **more)
    )
    assert text == (choice.message.content or ""), (text, choice.message.content)
    assert reasoning == (getattr(choice.message, "reasoning_content", None) or "")
    assert finish == choice.finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens == len(choice.logprobs.content)
    assert [t.token for t in logprobs] == [t.token for t in choice.logprobs.content]
    assert all(len(t.top_logprobs) == 2 and t.logprob <= 0 for t in logprobs)
    return whole


def any_model(client, model):
    whole = both_ways(client, model)
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    answer = (getattr(whole.choices[0].message, "reasoning_content", None) or "") + (whole.choices[0].message.content or "")
    for limit in range(1, 9):
        cut = both_ways(client, model, max_tokens=limit)
        assert cut.usage.completion_tokens <= limit
    # Stops that lie somewhere inside of the answer, and so inside of accepted blocks.
    for start in range(2, min(30, len(answer) - 3)):
        stop = answer[start : start + 3]
        if stop != stop.strip():
            continue
        cut = both_ways(client, model, stop=stop)
        message = cut.choices[0].message
        seen = (getattr(message, "reasoning_content", None) or "") + (message.content or "")
        assert stop not in seen and cut.choices[0].finish_reason == "stop", (stop, seen)
    again = chat(client, model)
    assert again.choices[0].message.content == whole.choices[0].message.content
    assert again.usage.prompt_tokens_details.cached_tokens > 0
    seeded = [chat(client, model, temperature=1, seed=11).choices[0].message.content for _ in range(2)]
    assert seeded[0] == seeded[1]
    completions(client, model)
    errors(client, model)


def completions(client, model):
    ask = dict(model=model, prompt="The river", max_tokens=24, temperature=0)
    whole = client.completions.create(logprobs=2, **ask)
    text = "".join(c.choices[0].text for c in client.completions.create(stream=True, **ask) if c.choices)
    assert text == whole.choices[0].text
    assert len(whole.choices[0].logprobs.tokens) == whole.usage.completion_tokens
    assert whole.choices[0].finish_reason in ("stop", "length")


def errors(client, model):
    bad = openai.BadRequestError
    refused(lambda: chat(client, model, n=2), bad, "n")
    refused(lambda: chat(client, model, user="me"), bad, "user")
    refused(lambda: chat(client, model, temperature=-1), bad, "temperature")
    refused(lambda: chat(client, model, response_format={"type": "json_object"}), bad, "response_format.type")
    refused(lambda: chat(client, model, messages=[{"role": "user", "content": "word " * 100_000}]), bad, "messages")
    refused(lambda: chat(client, "another"), openai.NotFoundError, "model")
    refused(lambda: client.completions.create(model=model, prompt="a", echo=True), bad, "echo")
    refused(lambda: chat(client, model, extra_body={"top_kk": 1}), bad, "top_kk")


def scripted(client, model):
    off = {"chat_template_kwargs": {}}
    say = lambda text, **more: both_ways(
        client, model, messages=[{"role": "user", "content": "say " + text}], extra_body=off, **more
    )
    assert say("a 🦀 and 𠜎").choices[0].message.content == "a 🦀 and 𠜎"
    cut = say("one two three four five", stop=["four fi"])
    assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == ("one two three ", "stop")
    tools = [
        {
            "type": "function",
            "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        }
    ]
    call = 'Now. <tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call>'
    messages = [{"role": "user", "content": "say " + call}]
    whole = chat(client, model, messages=messages, tools=tools, max_tokens=100)
    assert whole.choices[0].finish_reason == "tool_calls", whole
    function = whole.choices[0].message.tool_calls[0].function
    assert (function.name, json.loads(function.arguments)) == ("add", {"a": 3})
    with client.chat.completions.stream(
        model=model, messages=messages, tools=tools, temperature=0, max_tokens=100
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.tool_calls[0].function.arguments == function.arguments
    messages += [
        whole.choices[0].message,
        {"role": "tool", "tool_call_id": whole.choices[0].message.tool_calls[0].id, "content": "3"},
        {"role": "user", "content": "say thanks"},
    ]
    assert chat(client, model, messages=messages, tools=tools).choices[0].message.content == "thanks"


def main():
    args = arguments()
    client = openai.OpenAI(base_url=args.base_url.rstrip("/") + "/v1", api_key=args.key, max_retries=0, timeout=120)
    (model,) = [m.id for m in client.models.list()]
    assert client.models.retrieve(model).id == model
    if args.scripted:
        scripted(client, model)
        completions(client, model)
        errors(client, model)
    else:
        any_model(client, model)
    print(f"openai {openai.__version__} (Python): everything held for {model}")


if __name__ == "__main__":
    main()
