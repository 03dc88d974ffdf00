"""A session of a Flink SQL gateway."""

import json
import re
import time
import urllib.error
import urllib.request


class Refused(Exception):
    """Flink's own words for why a statement cannot be run, or why its job failed."""


class Session:
    def __init__(self, url: str, properties: dict[str, str]):
        self.url = url
        self.handle = self._call("POST", "/v2/sessions", {"properties": properties})["sessionHandle"]

    def run(self, statement: str, rows_as_json: bool = False) -> tuple[list[dict], list[list]]:
        """Columns and rows, each value as a text, or as JSON has it. Waits for the end of the job."""
        form = "JSON" if rows_as_json else "PLAIN_TEXT"
        base = f"/v2/sessions/{self.handle}"
        operation = self._call("POST", f"{base}/statements", {"statement": statement})["operationHandle"]
        uri = f"{base}/operations/{operation}/result/0?rowFormat={form}"
        columns: list[dict] = []
        rows: list[list] = []
        pause = 0.002
        while True:
            answer = self._call("GET", uri)
            if answer["resultType"] != "NOT_READY":
                columns = answer["results"]["columns"]
                data = answer["results"]["data"]
                for row in data:
                    if row["kind"] != "INSERT":
                        raise Refused("the result is not append-only")
                rows += [row["fields"] for row in data]
                uri = re.sub(r"^.*?/v\d/", "/v2/", answer["nextResultUri"]) if "nextResultUri" in answer else uri
                if answer["resultType"] == "EOS":
                    break
                if data:
                    pause = 0.002
                    continue
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        self._call("DELETE", f"{base}/operations/{operation}/close")
        return columns, rows

    def _call(self, method: str, path: str, body: dict | None = None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read().decode()
            causes = re.findall(r"(?:Caused by: |\\n)([\w.]*(?:Exception|Error): [^\\]*)", said)
            raise Refused(causes[-1] if causes else said[:2000]) from None
