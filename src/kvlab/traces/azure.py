"""Azure's traces (https://github.com/Azure/AzurePublicDataset): TIMESTAMP,ContextTokens,GeneratedTokens."""

from __future__ import annotations

from kvlab.core.trace import TraceReader
from kvlab.traces import _csv

READER = TraceReader(
    "Azure CSV",
    lambda head: {"TIMESTAMP", "ContextTokens", "GeneratedTokens"} <= _csv.header(head),
    lambda path, _: _csv.read(path, "azure", inputs="ContextTokens", outputs="GeneratedTokens", time="TIMESTAMP"),
)
