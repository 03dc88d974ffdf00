"""Fields of files: every type against every spelling, in JSON and CSV."""

TYPES = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "STRING", "BYTES",
    "DATE", "TIME", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)",
]  # fmt: skip
NESTED = ["ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT, b STRING>"]

# A field as it stands in the file.
JSON = [
    "null", "true", "false", '"true"', '"TRUE"', '"no"', '"1"', "0", "1", "-1", "300", "99999999999", "1.5", "-1.5",
    "1.005", "1e3", "1e400", "1234.56", '"12"', '" 12 "', '"1.5"', '"1e3"', '"abc"', '""', '"NaN"', '"AQI="', '"AQI"',
    '"äö"', '"\\u00e4\\n"', '"2020-02-29"', '"2020-02-30"', '"2020-2-9"', '"12:34:56"', '"12:34"', '"12:34:56.789"',
    '"2020-02-29 12:34:56"', '"2020-02-29 12:34:56.789"', '"2020-02-29 12:34:56.789Z"', '"2020-02-29T12:34:56"',
    '"2020-02-29 12:34"', "[]", "[1, 2]", '["1", null]', '["x"]', "{}", '{"a": 1}', '{"a": "1", "b": 2}', '{"a": [1], "c": {}}',
]  # fmt: skip
CSV = [
    "", "true", "TRUE", "no", "0", "1", "-1", "+1", "300", "99999999999", "1.5", "-1.5", "1.005", "-0.005", "1e3", "1234.56",
    " 12 ", '"12"', '" 12"', "abc", "NaN", "Infinity", "1_000", "0x1F", "AQI=", "AQI", "äö", '"a,b"', '"a""b"', "2020-02-29", "2020-02-30",
    "2020-2-9", "12:34:56", "12:34", "12:34:56.789", "2020-02-29 12:34:56", "2020-02-29 12:34:56.789",
    "2020-02-29 12:34:56.789Z", "2020-02-29T12:34:56", "2020-02-29 12:34",
]  # fmt: skip


def inputs() -> list[tuple[str, str, list[str]]]:
    """Format, type, and the fields."""
    return [("json", data_type, JSON) for data_type in TYPES + NESTED] + [("csv", data_type, CSV) for data_type in TYPES]


def line(form: str, number: int, field: str) -> str:
    return f'{{"id": {number}, "x": {field}}}' if form == "json" else f"{number},{field}"
