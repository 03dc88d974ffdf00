"""Cells of the files that keep what Flink said."""

import re


def escaped(text: str) -> str:
    text = text.replace("\\", "\\\\")
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda found: f"\\x{ord(found[0]):04x}", text)
