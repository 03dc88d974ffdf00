#!/usr/bin/env python3
"""Runs the statements of a file through a Flink SQL gateway, in one session; prints the id of each job started.

The gateway takes one statement a call, so that the file is split here: at every semicolon outside quotes and
comments, EXECUTE STATEMENT SET BEGIN ... END being one statement.
"""

import json
import re
import sys
import time
import urllib.error
import urllib.request

TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|`[^`]*`|;|[^;'`-]+|-")


def main(gateway: str, path: str) -> None:
    session = post(f"{gateway}/v1/sessions", {"properties": {"execution.runtime-mode": "streaming"}})["sessionHandle"]
    with open(path) as file:
        for statement in statements(file.read()):
            run(gateway, session, statement)


def statements(text: str):
    current = ""
    for token in TOKEN.findall(text):
        if token == ";" and not (in_set(current) and not re.search(r"\bEND\s*$", current, re.I)):
            if current.strip():
                yield current.strip()
            current = ""
        elif not token.startswith("--"):
            current += token
    if current.strip():
        yield current.strip()


def in_set(statement: str) -> bool:
    return re.match(r"\s*EXECUTE\s+STATEMENT\s+SET\b", statement, re.I) is not None


def run(gateway: str, session: str, statement: str) -> None:
    base = f"{gateway}/v1/sessions/{session}"
    operation = post(f"{base}/statements", {"statement": statement})["operationHandle"]
    while True:
        result = get(f"{base}/operations/{operation}/result/0")
        if result.get("resultType") != "NOT_READY":
            break
        time.sleep(0.1)
    if job := result.get("jobID"):
        print(job)


def get(url: str) -> dict:
    return call(urllib.request.Request(url))


def post(url: str, body: dict) -> dict:
    return call(urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}))


def call(request: urllib.request.Request) -> dict:
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said = error.read().decode()
        causes = re.findall(r"Caused by: ([^\\]*)", said)
        sys.exit(f"{request.full_url}: {error.code}: {causes[-1] if causes else said[:2000]}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
